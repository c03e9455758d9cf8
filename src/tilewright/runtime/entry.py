"""A workload's best kernel, as a row of a database."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilewright.columns import Columns, named_pairs, tensors
from tilewright.core import Extent, LaunchProgram, Schedule, Target, TensorSpec, Value, cached_property
from tilewright.extent import Sizes, greatest, symbolic_sizes
from tilewright.kernels.parameters import agree, canonical_value
from tilewright.size_ranges import params_at, sizes_in, sizes_of

Shapes = Sequence[tuple[int, ...]]
"""Shapes of a call's inputs, in order."""


@dataclass(frozen=True)
class Entry:
    """A workload's best kernel on one target and device model, without its code."""

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
    of: Mapping[str, Extent] = field(default_factory=dict)  # ranges that this entry is an instance of

    @cached_property
    def ranges(self) -> Mapping[str, Extent]:
        """The symbolic sizes by name; empty for fixed sizes, such as :meth:`at` returns."""
        return symbolic_sizes(n for s in (*self.inputs, *self.outputs) for n in s.shape)

    @property
    def tier(self) -> str:
        """The tier of answers by this kernel: ``exact`` if it was tuned for these sizes, else ``range``."""
        return "range" if self.of else "exact"

    @property
    def sizes(self) -> dict[str, int]:
        """The values of the sizes in :attr:`of`."""
        told = dict(self.schedule.launch)
        return {n: int(told[e.argument]) for n, e in self.of.items()}

    def at(self, sizes: Sizes) -> Entry:
        """The kernel at fixed values of its symbolic sizes. Seconds and flops are scaled by the product of the
        sizes."""
        part, whole = (math.prod(n.values()) for n in (sizes, greatest(self.ranges)))
        return replace(
            self, params=params_at(self.params, sizes), inputs=tuple(s.at(sizes) for s in self.inputs),
            outputs=tuple(s.at(sizes) for s in self.outputs), schedule=self.schedule.at(sizes), of=self.ranges,
            seconds=self.seconds * part / whole, flops=self.flops * part // whole,
        )  # fmt: skip

    def named(self, given: Mapping[str, object]) -> Entry | None:
        """The kernel at the sizes that these parameters give; ``None`` where they are outside of its ranges."""
        sizes = sizes_in(self.params, given)
        return self.at(sizes) if sizes else None

    def fitted(self, shapes: Sequence[tuple[tuple[int, ...], str]]) -> Entry | None:
        """The kernel for inputs of these shapes and dtypes; ``None`` where they are outside of its ranges."""
        found = self.sized([shape for shape, _ in shapes])
        return found if found is not None and found.shapes == tuple(shapes) else None

    def sized(self, shapes: Sequence[tuple[int, ...]]) -> Entry | None:
        """The kernel for inputs of these shapes; ``None`` where they are outside of its ranges."""
        if not self.ranges or len(shapes) != len(self.inputs):
            return None
        sizes = sizes_of(zip((s.shape for s in self.inputs), shapes, strict=True))
        return self.at(sizes) if sizes is not None and sizes.keys() == self.ranges.keys() else None

    @property
    def span(self) -> int:
        """Number of combinations of sizes in the ranges :attr:`of`, less one; 0 for fixed sizes."""
        return math.prod(e.high - e.low + 1 for e in self.of.values()) - 1

    @cached_property
    def shapes(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """Shape and dtype of each input, by which calls are looked up."""
        return tuple((s.shape, s.dtype) for s in self.inputs)

    def agrees(self, given: Mapping[str, object]) -> bool:
        """Whether a call with these keywords means this kernel; its arrays already state sizes and dtype."""
        return all(n in self.params and agree(self.params[n], canonical_value(v)) for n, v in given.items()) and all(
            self.params[n] == v for n, v in self.defaults.items() if n not in given and n != "dtype"
        )

    @property
    def label(self) -> str:
        """The parameters that differ from their defaults, as ``m=512 n=512 k=512``."""
        return " ".join(f"{k}={v}" for k, v in self.params.items() if self.defaults.get(k) != v)


def entry_of(row: Columns) -> Entry:
    """The entry of a row of kernels joined with their workload and target."""
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
