"""OpenCL devices: GPUs of any maker, and processors through PoCL."""
