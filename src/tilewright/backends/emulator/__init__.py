"""CUDA kernels without a GPU: their source is compiled as C++, and their threads run as fibers.

``build`` compiles a source, ``run`` executes its launches in a separate process and reports bugs
with kernel line, block and thread. The emulated counterpart of the GPU driver is in :mod:`.driver`.
"""

from tilewright.backends.emulator.build import SANITIZERS, EmulatedKernel, build
from tilewright.backends.emulator.report import KINDS, Bug, Report
from tilewright.backends.emulator.run import run
from tilewright.backends.toolchain import CompileError

__all__ = ["KINDS", "SANITIZERS", "Bug", "CompileError", "EmulatedKernel", "Report", "build", "run"]
