"""A bundle's kernels as C functions: which kernels form a library, and their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.backends import backend_for
from tilewright.bundles.contents import Kernel
from tilewright.core import Target, TensorSpec, TilewrightError, UsageError, Value, evaluate
from tilewright.dtypes import DTYPES
from tilewright.units import counted


@dataclass(frozen=True)
class Pack:
    """The prepacking of a constant input: the input's number, size of the packed copy in bytes, and the packing
    function's call."""

    input: int
    bytes: int
    symbol: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Function:
    """A kernel as a C function: its name without the library's prefix, its launches, and its sizes in bytes."""

    name: str
    kernel: Kernel
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    launches: tuple[tuple[str, tuple[int, ...]], ...]
    workspace: int
    zero_fill: int
    align: int
    packs: tuple[Pack, ...]


def c_type(dtype: str) -> str:
    """The C type of an element. Raises ``UsageError`` for an element type without one."""
    if dtype not in DTYPES:
        raise UsageError(f"element type {dtype} has no type in C", "Export other operators only: --op NAME")
    return DTYPES[dtype].c


def choose(found: Sequence[Kernel], op: str | None, target: str | None, threads: int | None) -> list[Kernel]:
    """The kernels to export: kernels of one target, one for each workload and name.

    Of several device models' kernels, this machine's is chosen, else the latest. Raises ``UsageError`` for several
    targets, or none.
    """
    named = [k for k in found if op in (None, k.entry.op) and backend_for(k.entry.target).in_process]
    wanted = [
        k for k in named
        if target in (None, k.entry.target.name) and threads in (None, k.entry.target.threads)
    ]  # fmt: skip
    kinds = sorted({(k.entry.target.name, k.entry.target.threads) for k in wanted or named})
    shown = ", ".join(f"{name} with {counted(count, 'thread')}" for name, count in kinds)
    if not wanted:
        raise UsageError("the bundle holds no such kernel for a processor", f"It holds {shown or 'none'}")
    if len(kinds) > 1:
        raise UsageError(f"the bundle holds kernels for {shown}", "Choose one with --target and --threads")
    model = _model(wanted[0].entry.target)
    best: dict[tuple[str, tuple[tuple[str, Value], ...]], Kernel] = {}
    for k in sorted(wanted, key=lambda k: (k.entry.device_model == model, k.entry.updated)):
        best[k.entry.op, tuple(k.entry.params.items())] = k
    return sorted(best.values(), key=_name)


def functions(kernels: Iterable[Kernel]) -> list[Function]:
    """Kernels of one target as functions, by name. Raises ``UsageError`` for a kernel with symbolic sizes."""
    kernels = list(kernels)
    count = Counter(map(_name, kernels))
    return [
        _function(k, _name(k) if count[_name(k)] == 1 else f"{_name(k)}_{k.entry.workload_key[:8]}") for k in kernels
    ]


def _function(kernel: Kernel, name: str) -> Function:
    e = kernel.entry
    specs = (*e.inputs, *e.outputs)
    if any(type(n) is not int for s in specs for n in s.shape):
        raise UsageError(
            f"{e.op} {e.label} serves a range of sizes, but a C function has fixed sizes",
            "Export other operators only: --op NAME",
        )
    for s in specs:
        c_type(s.dtype)
    values = {k: int(v) for k, v in e.schedule.launch}
    p = e.program
    return Function(
        name, kernel, e.inputs, e.outputs,
        tuple((x.symbol, tuple(values[n] for n in x.arguments)) for x in p.launches),
        int(evaluate(p.workspace, values)), int(evaluate(p.zero_fill, values)), p.align,
        tuple(
            Pack(x.input, int(evaluate(x.bytes, values)), x.launch.symbol, tuple(values[n] for n in x.launch.arguments))
            for x in p.prepack
        ),
    )  # fmt: skip


def _name(kernel: Kernel) -> str:
    """A function's name from the parameters that differ from their defaults, and the dtype, such as
    ``matmul_m512_n512_k512_trans_b_float32``."""
    e = kernel.entry
    words = [e.op]
    for name, value in e.params.items():
        if name == "dtype" or e.defaults.get(name) == value:
            continue
        plain = isinstance(value, int) and not isinstance(value, bool)
        words.append(name if value is True else f"{name}{value}" if plain else f"{name}_{value}")
    words.append(str(e.params.get("dtype", e.outputs[0].dtype)))
    return re.sub(r"[^a-zA-Z0-9]+", "_", "_".join(words)).strip("_")


def _model(target: Target) -> str:
    """The device model of this machine; empty where it does not run the target."""
    try:
        _, device = backend_for(target).place(target, "auto", target.threads)
    except TilewrightError:
        return ""
    return device.model
