"""Tests random programs, kernels and calls against NumPy: ``python -m fuzz --help``.

The expected results are computed independently of Tilewright. A program is a tree of this package (``tree``), which is
written as an operator (``text``) and evaluated by NumPy with an error bound (``reference``). The fuzzer uses neither
the interpreter nor ``tilewright.testing``.
"""
