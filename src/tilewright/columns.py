"""Workloads as a database has them, for whoever reads its rows: the database itself, an import, the runtime.

Standard library only. A row is whatever gives its columns by name.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

from tilewright.core import Pairs, TensorSpec, Workload, canonical_json


class Columns(Protocol):
    """A row."""

    def __getitem__(self, name: str, /) -> Any: ...


def named_pairs(row: Columns) -> tuple[Pairs, Pairs]:
    """``params`` in the order they were declared, and ``defaults``."""
    params, defaults = json.loads(row["params"]), json.loads(row["defaults"])
    order = json.loads(row["param_names"])
    return tuple((n, params[n]) for n in order), tuple((n, defaults[n]) for n in order if n in defaults)


def tensors(row: Columns) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    """``inputs``, and the outputs in ``output``."""
    inputs = tuple(TensorSpec.from_json(s) for s in json.loads(row["inputs"]))
    outputs = json.loads(row["output"])
    several = isinstance(outputs[0], list)
    return inputs, tuple(TensorSpec.from_json(s) for s in (outputs if several else [outputs]))


def outputs_text(workload: Workload) -> str:
    """What the column ``output`` holds: a tensor, or a list of several."""
    written = [s.to_json() for s in workload.outputs]
    return canonical_json(written if workload.more else written[0])


def workload_of(row: Columns) -> Workload:
    """A row of workloads, or of an alias with its workload's columns."""
    params, defaults = named_pairs(row)
    inputs, (output, *more) = tensors(row)
    return Workload(
        row["op"], params, defaults, row["program"], inputs, output, row["flops"], row["precision"], tuple(more)
    )
