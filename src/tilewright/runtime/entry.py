"""A workload's best kernel as a row of a database has it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.columns import Columns, named_pairs, tensors
from tilewright.core import Extent, LaunchProgram, Schedule, Target, TensorSpec, Value, cached_property
from tilewright.extent import Sizes, greatest, open_sizes
from tilewright.kernels.parameters import agree, settled
from tilewright.size_ranges import params_at, sizes_in, sizes_of

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
    of: Mapping[str, Extent] = field(default_factory=dict)  # the ranges of which these are sizes

    @cached_property
    def ranges(self) -> Mapping[str, Extent]:
        """The sizes that each call chooses, by name; none where all are fixed, as :meth:`at` makes them."""
        return open_sizes(n for s in (*self.inputs, *self.outputs) for n in s.shape)

    @property
    def tier(self) -> str:
        """What answers by it: ``exact``, a kernel of these very sizes, or ``range``."""
        return "range" if self.of else "exact"

    @property
    def sizes(self) -> dict[str, int]:
        """Which sizes of :attr:`of` these are."""
        told = dict(self.schedule.launch)
        return {n: int(told[e.argument]) for n, e in self.of.items()}

    def at(self, sizes: Sizes) -> Entry:
        """The kernel as it serves sizes of its ranges. Times and flops are taken to grow with the product of sizes."""
        part, whole = (math.prod(n.values()) for n in (sizes, greatest(self.ranges)))
        return replace(
            self, params=params_at(self.params, sizes), inputs=tuple(s.at(sizes) for s in self.inputs),
            outputs=tuple(s.at(sizes) for s in self.outputs), schedule=self.schedule.at(sizes), of=self.ranges,
            seconds=self.seconds * part / whole, flops=self.flops * part // whole,
        )  # fmt: skip

    def named(self, given: Mapping[str, object]) -> Entry | None:
        """The kernel for the sizes that these parameters give its ranges, if it has them."""
        sizes = sizes_in(self.params, given)
        return self.at(sizes) if sizes else None

    def fitted(self, shapes: Sequence[tuple[tuple[int, ...], str]]) -> Entry | None:
        """The kernel for inputs of these shapes and dtypes, if its ranges have them."""
        found = self.sized([shape for shape, _ in shapes])
        return found if found is not None and found.shapes == tuple(shapes) else None

    def sized(self, shapes: Sequence[tuple[int, ...]]) -> Entry | None:
        """The kernel for the sizes that inputs of these shapes give its ranges, if it has them."""
        if not self.ranges or len(shapes) != len(self.inputs):
            return None
        sizes = sizes_of(zip((s.shape for s in self.inputs), shapes, strict=True))
        return self.at(sizes) if sizes is not None and sizes.keys() == self.ranges.keys() else None

    @property
    def span(self) -> int:
        """How many combinations of sizes the ranges have of which this is one, less one; of fixed sizes 0."""
        return math.prod(e.high - e.low + 1 for e in self.of.values()) - 1

    @cached_property
    def shapes(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and dtype of each input: what a call is looked up by."""
        return tuple((s.shape, s.dtype) for s in self.inputs)

    def agrees(self, given: Mapping[str, object]) -> bool:
        """Whether a call with these keywords means this kernel; its arrays already say sizes and dtype."""
        return all(n in self.params and agree(self.params[n], settled(v)) for n, v in given.items()) and all(
            self.params[n] == v for n, v in self.defaults.items() if n not in given and n != "dtype"
        )

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
