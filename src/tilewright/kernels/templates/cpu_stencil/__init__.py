"""The CPU template of windowed reductions: depthwise convolution, pooling."""
