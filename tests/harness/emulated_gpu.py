"""The emulated device for tests of the runtime: arrays in its memory, and kernels stored as by a tuning run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cuda import archs
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorDriver
from tilewright.backends.emulator.toolchain import EmulatorToolchain
from tilewright.core import Candidate, Task, Workload
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template

Array = np.ndarray[Any, Any]
TARGET = archs.target("sm_90a")


class OneContext:
    """The emulator's driver with a single context, so that a test and the runtime share the device memory."""

    name = "emulator"

    def __init__(self) -> None:
        self.context = EmulatorDriver().open(0)

    def count(self) -> int:
        return 1

    def open(self, index: int) -> EmulatorContext:
        assert index == 0
        return self.context


class DeviceArray:
    """A dense array in the emulated device's memory."""

    def __init__(self, context: EmulatorContext, values: Array, *, offset: int = 0, **face: Any) -> None:
        self.context, self.shape, self.dtype = context, values.shape, values.dtype
        self.address = context.allocate(values.nbytes + offset) + offset
        context.upload(self.address, np.ascontiguousarray(values))
        self.__face = {
            "shape": values.shape, "typestr": values.dtype.str, "data": (self.address, False), "version": 3,
            "strides": None, **face,
        }  # fmt: skip

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.__face

    def get(self) -> Array:
        out = np.empty(self.shape, self.dtype)
        self.context.download(self.address, out)
        return out


def store(path: Path, cache: ArtifactCache, workload: Workload, template: str, split: bool = False) -> None:
    """Store a default kernel as a tuning run on the emulator does."""
    task = Task(workload, TARGET)
    chosen = get_template(template)
    schedule = chosen.default(task)
    if split:
        values = {**schedule.values, "split_k": True, "SPLIT": 2}
        schedule = chosen.space(task).schedule(values)
    candidate = Candidate(task, schedule)
    kernel = chosen.lower(candidate)
    from tilewright.kernels.codegen.prelude import prelude

    toolchain = EmulatorToolchain(TARGET, cache)
    built = toolchain.compile(prelude(TARGET, emulated=True) + kernel.source, list(kernel.program.symbols))
    data = Path(built.path).read_bytes()
    artifact = StoredArtifact(built.sha256, data, TARGET, toolchain.version, (), kernel.source, "0" * 64)
    stored = StoredKernel(task, "", 1, schedule, kernel.program, 1e-6, built.sha256)
    with Database.open(path) as database:
        database.set_kernels(task, "emulator", None, [stored], [artifact])


def fill(folder: Path, cache: ArtifactCache) -> Path:
    """Returns a database with four matmuls: one launch, split K (two launches and a workspace), and two of bfloat16.

    Of the two bfloat16 kernels, one takes addresses and one takes tensor maps.
    """
    matmul = get_operator("matmul")
    store(folder / "t.db", cache, matmul.workload(m=33, n=40, k=24), "cuda_simt")
    store(folder / "t.db", cache, matmul.workload(m=33, n=40, k=128), "cuda_simt", split=True)
    store(folder / "t.db", cache, matmul.workload(m=32, n=48, k=64, dtype="bfloat16", bias=True), "cuda_mma")
    store(folder / "t.db", cache, matmul.workload(m=40, n=48, k=72, dtype="bfloat16"), "cuda_wgmma")
    return folder / "t.db"


def fill_other(path: Path, cache: ArtifactCache) -> None:
    """Replace the kernel that has a workspace."""
    store(path, cache, get_operator("matmul").workload(m=33, n=40, k=128), "cuda_simt")


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
