"""Windowed reductions without a shared axis (CUDA): depthwise convolution, pooling."""
