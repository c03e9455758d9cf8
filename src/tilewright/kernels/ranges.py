"""Workloads of which a size is a range: what they are for one size."""

from __future__ import annotations

import json
from dataclasses import replace

from tilewright.core import TensorSpec, UsageError, Workload, canonical_json
from tilewright.extent import Extent, params_at, settle
from tilewright.kernels.expression.program import Program


def varying(workload: Workload) -> Extent | None:
    """The size that each call chooses; ``None`` where all are fixed."""
    return next(iter(workload.ranges.values()), None)


def at(workload: Workload, size: int) -> Workload:
    """The workload with its range set to one size. Raises ``UsageError`` for one outside of it."""
    extent = varying(workload)
    if extent is None:
        return workload
    if not extent.takes(size):
        raise UsageError(f"{workload.op} has {extent!r}, not {size}", "Give a size of that range")
    text = program_at(workload.program, size)
    return replace(
        workload,
        params=tuple(params_at(dict(workload.params), extent, size).items()),
        program=text,
        inputs=tuple(s.at(size) for s in workload.inputs),
        output=workload.output.at(size),
        more=tuple(s.at(size) for s in workload.more),
        flops=Program.loads(text).flops,
    )


def program_at(program: str, size: int | None = None) -> str:
    """A program's text with its range, if it has one, set to a size: the greatest unless given."""
    extent = Program.loads(program).varying
    if extent is None:
        return program
    return canonical_json(settle(json.loads(program), extent.high if size is None else size))


def narrowed(workload: Workload, low: int, high: int) -> Workload:
    """The workload with another range, within its own."""
    extent = varying(workload)
    if extent is None or low == high:
        return at(workload, low)
    other = Extent(high, low, extent.name)
    plain = str(dict(workload.params)[extent.name]).replace(f"{extent.low}..{extent.high}", f"{low}..{high}")

    def spec(s: TensorSpec) -> TensorSpec:
        return replace(s, shape=tuple(other * n.unit if isinstance(n, Extent) else n for n in s.shape))

    return replace(
        workload,
        params=tuple((k, plain if k == extent.name else v) for k, v in workload.params),
        program=canonical_json(settle(json.loads(workload.program), other)),
        inputs=tuple(spec(s) for s in workload.inputs),
        output=spec(workload.output),
        more=tuple(spec(s) for s in workload.more),
        flops=at(workload, high).flops,
    )
