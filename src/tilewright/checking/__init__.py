"""CUDA kernels checked without a GPU: on the emulator; and the checks, by planted mistakes."""
