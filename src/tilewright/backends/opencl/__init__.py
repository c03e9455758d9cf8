"""OpenCL devices: GPUs of any vendor, and processors through PoCL."""
