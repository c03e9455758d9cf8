"""ONNX's own tests of its operators, those of one node that the importer takes over."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
from onnx import ModelProto, numpy_helper

from tilewright.core import UsageError
from tilewright.dtypes import DTYPES
from tilewright.graph.operations import ONNX
from tilewright.kernels.expression.expr import NARROW
from tilewright.models.extract import Extracted, extracted
from tilewright.models.importer import Importer
from tilewright.models.model_file import prepared

Array = np.ndarray[Any, Any]
LARGE, SMALLER = (1, 3, 32, 32, 32), (1, 3, 9, 9, 9)
"""Volumes that windows of 2 x 2 x 2 are drawn over."""

KNOWN = {
    **dict.fromkeys(("Clip", "Pad", "Dropout", "Resize", "Upsample", "QLinearConv", "QLinearMatMul"), slice(1, None)),
    **dict.fromkeys(
        ("ConstantOfShape", "Range", "BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"), slice(None)
    ),
    **dict.fromkeys(("OneHot", "Compress"), slice(1, 2)),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"), slice(0)),
}  # fmt: skip
"""The inputs that a model has as constants, where they are not those of whole numbers behind the first."""

ROUNDING = (
    "DynamicQuantizeLinear", "QLinearAdd", "QLinearConv", "QLinearMatMul", "QLinearMul", "QuantizeLinear",
)  # fmt: skip
"""Operators that round to whole numbers: what lies in the middle between two in float32 is one of them in float64."""


@dataclass(frozen=True, eq=False)
class NodeTest:
    """One set of arrays of a test. ``inputs`` and ``wanted`` by the model's names."""

    name: str
    operator: str
    extracted: Extracted
    inputs: Mapping[str, Array]
    wanted: Mapping[str, Array]
    rtol: float
    atol: float

    def right(self, got: Mapping[str, Array]) -> bool:
        def near(value: Array, want: Array) -> bool:
            if value.shape != want.shape:
                return False
            if self.operator in ROUNDING and want.dtype.kind in "iu":
                return bool((np.abs(value.astype(np.int64) - want) <= 1).all())
            given, wide = value.astype(want.dtype), want
            atol = max(self.atol, 1e-6)
            if want.dtype.name in NARROW:
                given, wide = given.astype(np.float64), want.astype(np.float64)
                atol += (
                    4 * 2.0 ** -DTYPES[want.dtype.name].digits * np.abs(wide).max(initial=0, where=np.isfinite(wide))
                )
            return np.allclose(given, wide, self.rtol, atol, equal_nan=True)

        return all(near(np.asarray(got[n]), w) for n, w in self.wanted.items())


@cache
def node_tests() -> tuple[NodeTest, ...]:
    """Everything of the standard's that is taken over as a whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            cases = _cases()
    found = []
    for case in cases:
        if len(case.model.graph.node) != 1 or case.model.graph.node[0].op_type not in ONNX:
            continue
        operator = case.model.graph.node[0].op_type
        for given, wanted in case.data_sets:
            values = [_array(v) for v in (*given, *wanted)]
            if any(v is None for v in values):  # sequences, optional values
                continue
            arrays = [v for v in values if v is not None]
            inputs = dict(zip((v.name for v in case.model.graph.input), arrays, strict=False))
            outputs = dict(zip((v.name for v in case.model.graph.output), arrays[len(given) :], strict=True))
            if operator == "LayerNormalization":  # its tests ask for means and deviations too
                outputs = dict([next(iter(outputs.items()))])
            extracted = _taken_over(_with_constants(case.model, inputs, list(outputs)))
            if extracted is not None:
                found.append(NodeTest(case.name, operator, extracted, inputs, outputs, case.rtol, case.atol))
    return tuple(found)


def _cases() -> list[Any]:
    """The standard's tests, of the operators that are taken over alone: to make the others' arrays takes seconds.

    So does pooling of a large volume, point by point in Python, so they get a smaller one.
    """
    from onnx.backend.test.case import node

    randn = np.random.randn

    def drawn(*shape: int) -> Any:
        return randn(*(SMALLER if shape == LARGE else shape))

    operators = {name.lower() for name in ONNX}
    with mock.patch("numpy.random.randn", drawn):
        for _, name, _ in pkgutil.iter_modules(node.__path__):
            plain = name.replace("_", "")
            if operators.intersection((plain, plain.removesuffix("like"), plain.removesuffix("op"))):
                importlib.import_module(f"{node.__name__}.{name}")
    return list(node._NodeTestCases)


def _array(value: Any) -> Array | None:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    return numpy_helper.to_array(value) if hasattr(value, "data_type") else None


def _with_constants(model: ModelProto, given: Mapping[str, Array], outputs: list[str]) -> ModelProto:
    """The model with whole numbers behind the first input as constants, which models have for axes and shapes.

    It gives ``outputs`` alone.
    """
    made = ModelProto()
    made.CopyFrom(model)
    node = made.graph.node[0]
    fixed = [n for n in node.input[1:] if n and given[n].dtype.kind in "iu"]
    if node.op_type in KNOWN:
        fixed = [n for n in node.input[KNOWN[node.op_type]] if n]
    del node.output[1 + max(k for k, n in enumerate(node.output) if n in outputs) :]
    del made.graph.output[len(outputs) :]
    kept = [v for v in made.graph.input if v.name not in fixed]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    made.graph.initializer.extend(numpy_helper.from_array(given[n], n) for n in dict.fromkeys(fixed))
    return made


def _taken_over(model: ModelProto) -> Extracted | None:
    """``None`` where something is left to onnxruntime, or the model is refused."""
    try:
        imported = Importer(prepared(model)).run()
    except UsageError:  # inputs of texts, 16-bit whole numbers, no elements
        return None
    found = extracted(imported)
    return None if any(g.family == "opaque" for g in found.groups) else found
