"""Windowed reductions (CPU): depthwise convolution, pooling."""
