"""A workload's best kernel as a row of a database has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.columns import Columns, named_pairs, tensors
from tilewright.core import Extent, LaunchProgram, Schedule, Target, TensorSpec, Value, cached_property
from tilewright.extent import params_at, size_in

Shapes = Sequence[tuple[int, ...]]
"""Of the inputs of a call, in order."""


@dataclass(frozen=True)
class Entry:
    """A workload's best kernel on one target and device model, its code left in the file."""

    workload_key: str
    op: str
    params: dict[str, Value]  # every parameter, in the operator's order
    defaults: dict[str, Value]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    flops: int
    precision: str
    target: Target
    device_model: str
    run: str | None
    schedule: Schedule
    program: LaunchProgram
    seconds: float
    sha256: str
    state: str
    updated: float
    of: Extent | None = None  # the range of which this is one size

    @cached_property
    def extent(self) -> Extent | None:
        """The size that each call chooses; ``None`` where all are fixed, as :meth:`at` makes them."""
        return next((n for s in (*self.inputs, *self.outputs) for n in s.shape if isinstance(n, Extent)), None)

    @property
    def tier(self) -> str:
        """What answers by it: ``exact``, a kernel of these very sizes, or ``range``."""
        return "exact" if self.of is None else "range"

    @property
    def size(self) -> int:
        """Which size of :attr:`of` this is."""
        assert self.of is not None
        return int(dict(self.schedule.launch)[self.of.argument])

    def at(self, size: int) -> Entry:
        """The kernel as it serves one size of its range."""
        extent = self.extent
        assert extent is not None
        return replace(
            self, params=params_at(self.params, extent, size), inputs=tuple(s.at(size) for s in self.inputs),
            outputs=tuple(s.at(size) for s in self.outputs), schedule=self.schedule.at(extent, size), of=extent,
            seconds=self.seconds * size / extent.high, flops=self.flops * size // extent.high,
        )  # fmt: skip

    def named(self, given: Mapping[str, object]) -> Entry | None:
        """The kernel for the size that these parameters give its range, if there is one."""
        extent = self.extent
        size = None if extent is None else size_in(self.params, extent, given.get(extent.name))
        return None if size is None else self.at(size)

    def fitted(self, shapes: Sequence[tuple[tuple[int, ...], str]]) -> Entry | None:
        """The kernel for inputs of these shapes and dtypes, if its range has them."""
        found = self.sized([shape for shape, _ in shapes])
        return found if found is not None and found.shapes == tuple(shapes) else None

    def sized(self, shapes: Sequence[tuple[int, ...]]) -> Entry | None:
        """The kernel for the size that inputs of these shapes give its range, if it has that; not all need fit."""
        extent = self.extent
        if extent is None or len(shapes) != len(self.inputs):
            return None
        for spec, shape in zip(self.inputs, shapes, strict=True):
            if spec.shape and isinstance(spec.shape[0], Extent) and len(shape) == len(spec.shape):
                size, left = divmod(shape[0], spec.shape[0].unit)
                return self.at(size) if not left and extent.takes(size) else None
        return None

    @property
    def span(self) -> int:
        """How many sizes the range has of which this is one, less one; of a kernel of one size 0."""
        return 0 if self.of is None else self.of.high - self.of.low

    @cached_property
    def shapes(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and dtype of each input: what a call is looked up by."""
        return tuple((s.shape, s.dtype) for s in self.inputs)

    @property
    def label(self) -> str:
        """``m=512 n=512 k=512``: the parameters that differ from their defaults."""
        return " ".join(f"{k}={v}" for k, v in self.params.items() if self.defaults.get(k) != v)


def entry_of(row: Columns) -> Entry:
    """A row of kernels joined with their workload and target."""
    params, defaults = named_pairs(row)
    inputs, outputs = tensors(row)
    return Entry(
        workload_key=row["workload_key"],
        op=row["op"],
        params=dict(params),
        defaults=dict(defaults),
        inputs=inputs,
        outputs=outputs,
        flops=row["flops"],
        precision=row["precision"],
        target=Target.from_json(json.loads(row["target"])),
        device_model=row["device_model"],
        run=row["run_id"],
        schedule=Schedule.from_json(json.loads(row["schedule"])),
        program=LaunchProgram.from_json(json.loads(row["launch_program"])),
        seconds=float(row["seconds"]),
        sha256=row["artifact_sha256"],
        state=row["state"],
        updated=float(row["updated"]),
    )
