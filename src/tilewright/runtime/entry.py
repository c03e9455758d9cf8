"""A workload's best kernel as a row of a database has it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.columns import Columns, named_pairs, tensors
from tilewright.core import LaunchProgram, Schedule, Target, TensorSpec, Value, cached_property

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
    output: TensorSpec
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
    inputs, output = tensors(row)
    return Entry(
        workload_key=row["workload_key"],
        op=row["op"],
        params=dict(params),
        defaults=dict(defaults),
        inputs=inputs,
        output=output,
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
