"""Arrays in the emulator's memory: PyTorch's, of a device of its name, which are read as those on a GPU are."""

from tilewright.backends.cuda.arrays import backend_of, captured, lends_scratch, make_output, make_scratch, view

__all__ = ["backend_of", "captured", "lends_scratch", "make_output", "make_scratch", "view"]
