"""Values of a model that follow from its constants and shapes: computed once, when it is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.core import TilewrightError
from tilewright.models.model_file import STANDARD, Array, Model
from tilewright.models.sessions import Session, part_of, subgraphs

LARGEST_FOLDED = 1 << 24
"""Elements of a constant that is computed from constants."""

FOUND = ("NonZero", "Compress", "Unique")
"""Operators of no more results than their input has elements, however many."""

DRAWN = (
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
)  # fmt: skip
"""Operators that draw at random."""


def fold(
    model: Model, node: Any, inferred: Mapping[str, Any] | None, constants: Mapping[str, Array],
    shape_of: Callable[[str], tuple[int, ...] | None],
) -> dict[str, Array] | None:  # fmt: skip
    """What a node gives, where that is known now: constants by name. onnxruntime computes it, so it means the same.

    ``inferred``: its outputs' types; ``shape_of``: a value's shape where it is known.
    """
    outputs = [n for n in node.output if n]
    reads = list(dict.fromkeys(n for n in node.input if n))
    if node.domain not in STANDARD or not outputs or node.op_type in DRAWN or any(subgraphs(node)):
        return None
    shape = shape_of(reads[0]) if node.op_type in ("Shape", "Size") else None
    if shape is not None:
        taken = {a.name: a.i for a in node.attribute}
        part = np.array(shape[taken.get("start", 0) : taken.get("end", len(shape))], np.int64)
        return {outputs[0]: part if node.op_type == "Shape" else np.array(math.prod(shape), np.int64)}
    if any(n not in constants for n in reads):
        return None
    if node.op_type == "Constant" and node.attribute[0].name == "value":
        return {outputs[0]: model.array(node.attribute[0].t)}
    if node.op_type == "Identity":
        return {outputs[0]: constants[reads[0]]}
    if node.op_type not in FOUND and not _small(outputs, inferred):
        return None
    read = {n: constants[n] for n in reads}
    try:
        made = Session(*part_of(model, [node], [], outputs, read), optimised=False).run({})
    except TilewrightError:  # computed when the model runs, or refused then
        return None
    return made if all(isinstance(a, np.ndarray) for a in made.values()) else None


def _small(outputs: list[str], inferred: Mapping[str, Any] | None) -> bool:
    """Whether the results' numbers of elements are known, and few enough to keep."""
    for name in outputs:
        kind = (inferred or {}).get(name)
        if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return False
        dims = kind.tensor_type.shape.dim
        if not all(d.HasField("dim_value") for d in dims) or math.prod(d.dim_value for d in dims) > LARGEST_FOLDED:
            return False
    return True
