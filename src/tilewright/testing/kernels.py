"""Compiles lowered kernels and runs them between guard zones, for contract tests of templates."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.backends import get_backend
from tilewright.core import Candidate, Target, Task, TensorSpec, evaluate
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.expr import FLOAT8, FLOATS, NARROW
from tilewright.kernels.expression.numerics import decode
from tilewright.kernels.expression.program import Program, bare_workload
from tilewright.kernels.expression.value_range import draw
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.reference import index_bounds
from tilewright.kernels.templates.base import LoweredKernel

Array = npt.NDArray[Any]

GUARD = 1 << 16
"""Bytes of the guard zones before and after each buffer, which must stay unchanged."""

_MARK = 0xA5
_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
_PARALLEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_long, _BODY, ctypes.c_void_p)


class Env(ctypes.Structure):
    """``struct tw_env`` (docs/architecture_parts.md)."""

    _fields_ = (("parallel_for", _PARALLEL), ("pool", ctypes.c_void_p), ("threads", ctypes.c_long))


def task_of(program: Program, target: Target, op: str = "test") -> Task:
    """A task of a bare program."""
    return Task(bare_workload(op, program), target)


@dataclass
class Guarded:
    """A buffer with guard zones; ``array`` is the part that a kernel may use."""

    memory: Array
    array: Array

    @staticmethod
    def like(shape: tuple[int, ...], dtype: str, offset: int = 0) -> Guarded:
        """A buffer ``offset`` bytes after a 64-byte boundary, poisoned: with NaN if its dtype is a float."""
        kind = numpy_dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        memory = np.full(size + 2 * GUARD + 128, _MARK, np.uint8)
        start = GUARD + (-(memory.ctypes.data + GUARD)) % 64 + offset
        array = memory[start : start + size].view(kind).reshape(shape)
        if kind.kind == "f":
            array[...] = np.nan
        elif kind.kind == "b":
            array.view(np.uint8)[...] = 1
        return Guarded(memory, array)

    @property
    def address(self) -> int:
        return int(self.array.ctypes.data)

    def intact(self) -> bool:
        """Whether the guard zones are unchanged."""
        start = self.address - int(self.memory.ctypes.data)
        end = start + self.array.nbytes
        return bool((self.memory[:start] == _MARK).all() and (self.memory[end:] == _MARK).all())


@cache
def _load(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


def compile_kernels(kernels: Sequence[LoweredKernel], target: Target, cache: Path | None = None) -> ctypes.CDLL:
    """Compiles kernels into one library and loads it."""
    distinct = {k.symbol: k.source for k in kernels}
    built = get_backend(target.kind).build([prelude(target), *distinct.values()], target, cache)
    return _load(built.path)


def run_kernel(
    library: ctypes.CDLL,
    kernel: LoweredKernel,
    launch: Mapping[str, int],
    inputs: Sequence[Array],
    output: TensorSpec,
    threads: int = 1,
    seed: int = 0,
) -> Array:
    """Runs a kernel with one output; returns the output as :func:`run_outputs` does."""
    return run_outputs(library, kernel, launch, inputs, [output], threads, seed)[0]


def run_outputs(
    library: ctypes.CDLL,
    kernel: LoweredKernel,
    launch: Mapping[str, int],
    inputs: Sequence[Array],
    outputs: Sequence[TensorSpec],
    threads: int = 1,
    seed: int = 0,
) -> list[Array]:
    """Runs a kernel once on misaligned copies of ``inputs``, with poisoned outputs and workspace; returns the outputs.

    Fails if a guard zone was written. Tasks of a parallel loop run one after another in a shuffled order, as if by
    ``threads`` workers.
    """
    rng = random.Random(seed)
    held: list[Any] = []

    def parallel(pool: Any, tasks: int, body: Any, ctx: Any) -> None:
        order = list(range(tasks))
        rng.shuffle(order)
        for n, task in enumerate(order):
            body(ctx, task, n % threads)

    callback = _PARALLEL(parallel)
    env = Env(callback, None, threads)
    program = kernel.program
    buffers = []
    for n, array in enumerate(inputs):
        b = Guarded.like(array.shape, str(array.dtype), array.itemsize * (n % 3))
        b.array[...] = array
        buffers.append(b)
    results = [Guarded.like(s.shape, s.dtype, numpy_dtype(s.dtype).itemsize) for s in outputs]
    size = evaluate(program.workspace, launch)
    workspace = Guarded.like((size,), "uint8")
    workspace.array[...] = 0xFF  # NaN as a float, -1 as an integer
    workspace.array[: evaluate(program.zero_fill, launch)] = 0
    addresses = [b.address for b in (*buffers, *results)]
    tensors = (ctypes.c_void_p * len(addresses))(*addresses)
    packed = {}
    for pack in program.prepack:
        # Constant inputs are prepacked into zeroed memory, once.
        memory = packed[pack.input] = Guarded.like((evaluate(pack.bytes, launch),), "uint8")
        memory.array[...] = 0
        values = [launch[a] for a in pack.launch.arguments]
        arguments = (ctypes.c_longlong * max(1, len(values)))(*values)
        function = getattr(library, pack.launch.symbol)
        code = function(tensors, arguments, ctypes.c_void_p(memory.address), ctypes.byref(env))
        assert code == 0, f"{pack.launch.symbol} returned {code}"
    for number, memory in packed.items():
        tensors[number] = memory.address
    for call in program.launches:
        values = [launch[a] for a in call.arguments]
        arguments = (ctypes.c_longlong * max(1, len(values)))(*values)
        function = getattr(library, call.symbol)
        held.append(arguments)
        code = function(tensors, arguments, ctypes.c_void_p(workspace.address), ctypes.byref(env))
        assert code == 0, f"{call.symbol} returned {code}"
    for n, b in enumerate(buffers):
        assert b.intact(), f"wrote around input {n}"
        assert np.array_equal(b.array, inputs[n], equal_nan=b.array.dtype.kind == "f"), f"wrote to input {n}"
    assert all(r.intact() for r in results), "wrote around an output"
    assert workspace.intact(), "wrote around the workspace"
    assert all(m.intact() for m in packed.values()), "wrote around a rearranged input"
    return [r.array.copy() for r in results]


def random_arrays(program: Program, seed: int = 0) -> list[Array]:
    """Random inputs for a program, from their ranges of values; indices lie within the axes that they index."""
    rng = np.random.default_rng(seed)
    limits = index_bounds(program)
    return [draw(t, rng, bound=limits.get(t.name)) for t in program.inputs]


def check(program: Program, inputs: Sequence[Array], got: Array, expected: Array | None = None) -> None:
    """Compares a result with the float64 reference: integers exactly, floats within their accumulated rounding.

    ``expected``: the reference's result, if it is computed already.
    """
    if expected is None:
        expected = reference(program, inputs)
    got = decode(got, program.output.dtype)
    assert not np.isnan(np.asarray(got, np.float64)).any() or np.isnan(np.asarray(expected, np.float64)).any(), (
        "poison left in the output"
    )
    if program.output.dtype not in FLOATS:
        np.testing.assert_array_equal(got, expected.astype(program.output.dtype))
        return
    longest = max(s.terms for s in program.stages)
    low = any(n.dtype in NARROW for s in program.stages for e in s.body for n in e.walk())
    eps = 1e-12 if program.output.dtype == "float64" and not _single(program) else 1e-6
    eps = 2**-6 if program.output.dtype in FLOAT8 else 1e-3 if low else eps
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    np.testing.assert_allclose(got, expected, rtol=8 * eps * longest**0.5, atol=4 * eps * scale * longest**0.5)


def _single(program: Program) -> bool:
    return any(n.dtype == "float32" for s in program.stages for e in s.body for n in e.walk())


def launch_values(candidate: Candidate) -> dict[str, int]:
    """The launch half of a candidate's schedule as integers."""
    return {k: int(v) for k, v in candidate.schedule.launch}
