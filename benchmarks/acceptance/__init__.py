"""What ``benchmarks/gpu_acceptance.py`` runs."""
