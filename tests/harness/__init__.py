"""What several tests and benchmarks stand on: simulated farms and their faults, a filled database, GPU programs."""
