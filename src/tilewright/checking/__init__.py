"""Checks CUDA kernels without a GPU, on the emulator; planted mistakes test the checks."""
