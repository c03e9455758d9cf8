"""CUDA: architectures, NVRTC, static gate, drivers (CuPy, PyCUDA), devices.

Importing this package loads no CUDA library; what needs one says so when it is called.
"""
