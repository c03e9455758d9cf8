"""Workloads of which sizes are ranges: what they are for sizes within."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.core import UsageError, Workload
from tilewright.extent import Extent, Sizes
from tilewright.kernels.expression.program import Program, output_specs
from tilewright.size_ranges import params_within


def varying(workload: Workload) -> Extent | None:
    """The first size that each call chooses; ``None`` where all are fixed."""
    return next(iter(workload.ranges.values()), None)


def at(workload: Workload, sizes: Sizes | int) -> Workload:
    """The workload with its ranges set to sizes: by name, or the size of the only one.

    Raises ``UsageError`` for one outside of its range.
    """
    ranges = workload.ranges
    if not ranges:
        return workload
    if isinstance(sizes, int):
        sizes = dict.fromkeys(ranges, sizes)
    for name, extent in ranges.items():
        if name not in sizes or not extent.takes(sizes[name]):
            given = sizes.get(name, "nothing")
            raise UsageError(f"{workload.op} has {extent!r}, not {given}", "Give a size of that range")
    program = Program.loads(workload.program).at(sizes)
    return _stated(workload, program, {n: (size, size) for n, size in sizes.items()})


def narrowed(workload: Workload, spans: Mapping[str, tuple[int, int]]) -> Workload:
    """The workload with other ranges, within its own, by name; of one size where both ends are it."""
    fixed = {n: low for n, (low, high) in spans.items() if low == high}
    if fixed.keys() == workload.ranges.keys():
        return at(workload, fixed)
    return _stated(workload, Program.loads(workload.program).within(spans), spans)


def _stated(workload: Workload, program: Program, spans: Mapping[str, tuple[int, int]]) -> Workload:
    """The workload with other ranges, or single sizes, by name: ``program`` has them already."""
    output, *more = output_specs(program)
    return replace(
        workload,
        params=tuple(params_within(dict(workload.params), spans).items()),
        program=program.dumps(),
        inputs=tuple(replace(s, shape=t.shape) for s, t in zip(workload.inputs, program.inputs, strict=True)),
        output=output,
        more=tuple(more),
        flops=program.flops,
    )
