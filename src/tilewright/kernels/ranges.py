"""Workloads with symbolic sizes, specialised to sizes or to narrower ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.core import UsageError, Workload
from tilewright.extent import Extent, Sizes
from tilewright.kernels.expression.program import Program, output_specs
from tilewright.size_ranges import params_within


def varying(workload: Workload) -> Extent | None:
    """The first symbolic size of a workload; ``None`` if all sizes are fixed."""
    return next(iter(workload.ranges.values()), None)


def at(workload: Workload, sizes: Sizes | int) -> Workload:
    """The workload with numbers for its symbolic sizes: by name, or one number for all sizes.

    Raises ``UsageError`` for a size outside its range.
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
    """The workload with narrower ranges, by name; a range with equal bounds becomes a number."""
    fixed = {n: low for n, (low, high) in spans.items() if low == high}
    if fixed.keys() == workload.ranges.keys():
        return at(workload, fixed)
    return _stated(workload, Program.loads(workload.program).within(spans), spans)


def _stated(workload: Workload, program: Program, spans: Mapping[str, tuple[int, int]]) -> Workload:
    """The workload around ``program``, which has the ranges or numbers of ``spans`` already."""
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
