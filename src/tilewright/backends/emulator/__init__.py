"""CUDA kernels without a GPU: the same source under a C++ compiler, its threads run as fibers.

``build`` compiles a source, ``run`` performs its launches in a process of its own and reports bugs
with kernel line, block and thread. The GPU driver's emulated twin is in :mod:`.driver`.
"""

from tilewright.backends.emulator.build import SANITIZERS, EmulatedKernel, build
from tilewright.backends.emulator.report import KINDS, Bug, Report
from tilewright.backends.emulator.run import run
from tilewright.backends.toolchain import CompileError

__all__ = ["KINDS", "SANITIZERS", "Bug", "CompileError", "EmulatedKernel", "Report", "build", "run"]
