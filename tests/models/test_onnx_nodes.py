"""ONNX's own tests of its operators: what the importer takes over means what the standard says."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

from tilewright.core import UsageError  # noqa: E402
from tilewright.graph import grouped  # noqa: E402
from tilewright.kernels.expression.program import Program  # noqa: E402
from tilewright.kernels.reference import evaluate  # noqa: E402
from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared  # noqa: E402
from tilewright.models.operators import HANDLERS  # noqa: E402


def cases() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_node_model_tests

        with np.errstate(all="ignore"):
            found = load_node_model_tests()
    return [c for c in found if len(c.model.graph.node) == 1 and c.model.graph.node[0].op_type in HANDLERS]


def arrays(values: Any) -> list[Any]:
    return [numpy_helper.to_array(v) if hasattr(v, "data_type") else v for v in values]


def with_constants(case: Any, given: dict[str, Any]) -> Any:
    """The model with whole numbers behind the first input as constants, which models have for axes and shapes."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    node = model.graph.node[0]
    fixed = [n for n in node.input[1:] if n and np.asarray(given[n]).dtype.kind in "iu"]
    if node.op_type in ("Clip", "Pad", "Dropout"):
        fixed = [n for n in node.input[1:] if n]
    if node.op_type == "Gather":
        fixed = list(node.input[:1])
    kept = [v for v in model.graph.input if v.name not in fixed]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(given[n]), n) for n in dict.fromkeys(fixed))
    return model


def computed(imported: Any, inputs: dict[str, Any]) -> dict[str, Any] | None:
    """The model's outputs by the interpreter; ``None`` where something is left to onnxruntime."""
    graph = imported.graph
    values = {**graph.constants, **{n: a for n, a in inputs.items() if n in graph.values}}
    with np.errstate(all="ignore"):
        for g in grouped(graph):
            if g.family == "opaque":
                return None
            if g.workload is None:
                values[g.output] = values[g.inputs[0]].reshape(graph.values[g.output].shape)
            else:
                values[g.output] = evaluate(Program.loads(g.workload.program), [values[n] for n in g.inputs])
    return {n: values[n] if n in values else imported.folded[n] for n in graph.outputs}


def test_operators_mean_what_the_standard_says() -> None:
    taken: dict[str, int] = {}
    wrong = []
    for case in cases():
        for given, wanted in case.data_sets:
            if any(not hasattr(v, "data_type") and not isinstance(v, np.ndarray) for v in (*given, *wanted)):
                continue
            names = [v.name for v in case.model.graph.input]
            inputs = dict(zip(names, arrays(given), strict=True))
            try:
                imported = Importer(prepared(with_constants(case, inputs)), HANDLERS).run()
            except UsageError:  # inputs of texts, 16-bit whole numbers, no elements
                continue
            got = computed(imported, inputs)
            if got is None:
                continue
            operator = case.model.graph.node[0].op_type
            taken[operator] = taken.get(operator, 0) + 1
            for name, want in zip(case.model.graph.output, arrays(wanted), strict=True):
                value = np.asarray(got[name.name])
                same = value.shape == want.shape
                near = same and np.allclose(
                    value.astype(want.dtype), want, case.rtol, max(case.atol, 1e-6), equal_nan=True
                )
                if not near:
                    wrong.append(case.name)
    assert not wrong
    assert set(HANDLERS) - set(taken) <= NOT_COVERED
    assert sum(taken.values()) > 250


NOT_COVERED = {"Dropout", "Gather", "LayerNormalization", "Pad"}
"""Operators of whose tests none is of a form that is taken over."""


def test_rows_are_gathered_from_the_last_by_negative_numbers() -> None:
    helper = onnx.helper
    table, index = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[-1, 0], [3, -4]])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", 7, (2, 2))],
        [helper.make_tensor_value_info("y", 1, (2, 2, 3))],
        [numpy_helper.from_array(table, "t")],
    )
    model = prepared(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    got = computed(Importer(model, HANDLERS).run(), {"i": index})
    assert got is not None
    np.testing.assert_array_equal(got["y"], table[index])
