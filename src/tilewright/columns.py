"""Conversion between a workload and the columns of its database row, for the database, imports and the runtime.

Standard library only. A row is any object that gives its columns by name.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from tilewright.core import Pairs, TensorSpec, Workload, canonical_json


class Columns(Protocol):
    """A row: an object that gives the values of its columns by name."""

    def __getitem__(self, name: str, /) -> Any: ...


def named_pairs(row: Columns) -> tuple[Pairs, Pairs]:
    """Returns ``params`` in the order of declaration, and ``defaults``."""
    params, defaults = json.loads(row["params"]), json.loads(row["defaults"])
    order = json.loads(row["param_names"])
    return tuple((n, params[n]) for n in order), tuple((n, defaults[n]) for n in order if n in defaults)


def tensors(row: Columns) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """Returns the specs of the ``inputs``, and of the outputs from the column ``output``."""
    inputs = tuple(TensorSpec.from_json(s) for s in json.loads(row["inputs"]))
    outputs = json.loads(row["output"])
    several = isinstance(outputs[0], list)
    return inputs, tuple(TensorSpec.from_json(s) for s in (outputs if several else [outputs]))


def outputs_text(workload: Workload) -> str:
    """Text of the column ``output``: one tensor spec, or a list of several."""
    written = [s.to_json() for s in workload.outputs]
    return canonical_json(written if workload.more else written[0])


def workload_of(row: Columns) -> Workload:
    """The workload of a row of workloads, or of an alias row joined with its workload's columns."""
    params, defaults = named_pairs(row)
    inputs, (output, *more) = tensors(row)
    return Workload(
        row["op"], params, defaults, row["program"], inputs, output, row["flops"], row["precision"], tuple(more)
    )
