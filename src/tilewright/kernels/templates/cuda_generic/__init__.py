"""The generic template (CUDA): a kernel for every part of every program."""
