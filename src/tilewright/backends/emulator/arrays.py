"""Arrays in the emulator's memory: PyTorch tensors on its device, read in the same way as tensors on a GPU."""

from tilewright.backends.cuda.arrays import backend_of, captured, lends_scratch, make_output, make_scratch, view

__all__ = ["backend_of", "captured", "lends_scratch", "make_output", "make_scratch", "view"]
