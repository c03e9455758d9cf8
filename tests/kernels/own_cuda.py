"""CUDA kernels of a user's own for the emulator: one block or several, what each thread puts out as reals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tilewright
from tilewright.backends.cuda import archs
from tilewright.backends.cuda.build import NvrtcToolchain
from tilewright.backends.emulator import Report, build, run
from tilewright.core import Candidate, LaunchProgram, Task
from tilewright.kernels import templates
from tilewright.kernels.templates.user_kernel import UserTemplate

HEAD = """typedef double real;
#define PUT(v) (out[(at++ * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = (real)(v))
"""
KERNEL = """
__global__ void f(const real *x, real *out, int n) {
    const int t = threadIdx.x, lane = t %% 32;
    int at = 0;
    (void)t, (void)lane, (void)at;
%s
}
"""


def copied(n: int) -> Any:
    """A reference that fits the parameters; what these kernels compute is compared here."""
    x = tilewright.te.input("x", (n,))
    return tilewright.te.compute((n,), lambda i: x[i])


class Own:
    """A kernel of a file, for ``threads`` threads of each of ``blocks`` blocks. ``body``: of the kernel, after ``before``."""

    def __init__(
        self, folder: Path, body: str, before: str = "", *, threads: int = 32, blocks: int = 1, shared: int = 0,
        text: str = "", n: int = 1000,
    ) -> None:  # fmt: skip
        path = folder / "own.cu"
        path.write_text(text or HEAD + before + KERNEL % body)
        own = tilewright.own_kernel(
            path, entry="f", knobs={"B": [threads]}, reference=copied, grid=blocks, block="B + 0 * n", shared=shared,
            parameters="x, out, n",
        )  # fmt: skip
        self.threads = threads * blocks
        template = UserTemplate(own)
        templates.register(template)
        task = Task(own.operator.workload(n=n), archs.target("sm_90a"))
        self.candidate = Candidate(task, template.default(task))
        self.program: LaunchProgram = template.lower(self.candidate).program

    def compiled_by_nvrtc(self) -> None:
        """Raises ``CompileError`` where it is no CUDA."""
        NvrtcToolchain(self.candidate.task.target).compile(
            templates.full_source(self.candidate), [self.candidate.symbol]
        )

    def run(self, puts: int = 1, order: str = "fifo", sanitize: tuple[str, ...] = ()) -> tuple[Report, NDArray[Any]]:
        """A report, and what was put, each time for every thread."""
        kernel = build(
            templates.full_source(self.candidate, emulated=True), [self.candidate.symbol], sanitize=sanitize
        )  # fmt: skip
        x = np.arange(self.threads, dtype=np.float64)
        out = np.empty((puts, self.threads))
        return run(kernel, self.program, {}, [x], out, order=order), out
