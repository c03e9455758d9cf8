"""Random programs, kernels and calls against NumPy: ``python -m fuzz --help``.

What is right is said here a second time: a program is a tree of this package's own (``tree``), written as an
operator (``text``) and evaluated by NumPy with an error bound (``reference``). Neither the interpreter nor
``tilewright.testing`` takes part.
"""
