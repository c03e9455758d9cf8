"""Compares tuned kernels with other libraries, by paired measurements in separate processes."""
