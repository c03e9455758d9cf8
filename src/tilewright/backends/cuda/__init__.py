"""CUDA: architectures, NVRTC, static gate, drivers (CuPy, PyCUDA), devices.

Importing this package loads no CUDA library; functions that need one raise an error when it is missing.
"""
