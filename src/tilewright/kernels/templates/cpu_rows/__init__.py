"""The template of row programs (CPU): softmax, norms, and reductions of trailing axes."""
