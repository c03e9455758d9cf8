"""CUDA without a CUDA toolkit: wrapped hardware primitives, their meaning in C++, and how both are checked."""
