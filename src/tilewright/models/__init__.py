"""Whole models: read from ONNX, cut into tasks to tune, and run with tuned kernels."""
