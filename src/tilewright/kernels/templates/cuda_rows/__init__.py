"""Row programs (CUDA): stages over the same rows, fused into one kernel."""
