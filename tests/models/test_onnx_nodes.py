"""What the importer takes over means what ONNX's own tests say: by the interpreter, and by compiled kernels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_cases import NodeTest, node_tests  # noqa: E402

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.core import TilewrightError  # noqa: E402
from tilewright.graph.operations import ONNX, REFUSED  # noqa: E402
from tilewright.kernels.expression.program import Program  # noqa: E402
from tilewright.kernels.reference import evaluate  # noqa: E402
from tilewright.models.extract import Extracted, extracted  # noqa: E402
from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared  # noqa: E402
from tilewright.models.network import Network  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402
from tilewright.runtime import Library  # noqa: E402


def interpreted(extracted: Extracted, inputs: Any) -> dict[str, Any]:
    """The model's outputs by the interpreter."""
    graph = extracted.imported.graph
    values = {**graph.constants, **{n: a for n, a in inputs.items() if n in graph.values}}
    with np.errstate(all="ignore"):
        for g in extracted.groups:
            if g.workload is None:
                values[g.output] = values[g.inputs[0]].reshape(graph.values[g.output].shape)
            else:
                values[g.output] = evaluate(Program.loads(g.workload.program), [values[n] for n in g.inputs])
    return {n: values[n] if n in values else extracted.imported.folded[n] for n in graph.outputs}


def test_operators_mean_what_the_standard_says() -> None:
    tests = node_tests()
    assert not [t.name for t in tests if not t.right(interpreted(t.extracted, t.inputs))]
    assert {name for name in ONNX if onnx.defs.has(name)} - {t.operator for t in tests} <= {"GlobalLpPool"}
    assert len(tests) >= 775, "one that is no longer taken over counts as missing"


APART = {
    "control flow": {"If", "Loop", "Scan"},
    "sequences": {
        "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt", "SequenceConstruct",
        "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence",
    },
    "texts": {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"},
    "random": {
        "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
    },
}  # fmt: skip
"""Operators that no kernels are for."""


def test_most_operators_of_the_standard_are_taken_over() -> None:
    """Those up to operator set 23, by a handler or as the functions that the standard states them as."""
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""]
    names = {s.name for s in schemas if s.since_version <= 23}
    live = {s.name: s for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated and s.name in names}
    for apart in APART.values():
        assert apart <= live.keys()
        live = {name: s for name, s in live.items() if name not in apart}
    functions = {n for n, s in live.items() if s.has_function or s.has_context_dependent_function}
    taken = (live.keys() & ONNX.keys()) | functions
    reasons = {n for n in live.keys() - taken if n in REFUSED}
    assert reasons >= {"NonZero", "TopK", "NonMaxSuppression", "Unique"}
    assert len(taken) / len(live) >= 0.85, f"{len(taken)} of {len(live)}, not {sorted(live.keys() - taken)}"


def run_compiled(tests: list[NodeTest], db: Path) -> list[str]:
    """Names of the tests that compiled kernels fail; every computation must be theirs."""
    default_kernels([t.workload for n in tests for t in n.extracted.tasks], db)
    wrong = []
    with Library(db, threads=1) as library:
        for t in tests:
            network = Network(t.extracted, library)
            inputs = {s.name: t.inputs[s.name] for s in t.extracted.imported.graph.inputs}
            if network.left or not t.right(network.run(inputs)):
                wrong.append(t.name)
    return wrong


def test_default_kernels_of_every_operator_do_what_the_standard_says(tmp_path: Path) -> None:
    """The test of most elements that each operator has, on each of its families."""
    chosen: dict[tuple[str, ...], NodeTest] = {}
    for t in node_tests():
        key = (t.operator, *(x.family for x in t.extracted.tasks))
        size = sum(a.size for a in t.wanted.values())
        if key not in chosen or size > sum(a.size for a in chosen[key].wanted.values()):
            chosen[key] = t
    assert not run_compiled(list(chosen.values()), tmp_path / "kernels.db")


@pytest.mark.nightly
def test_default_kernels_pass_all_tests_of_the_standard(tmp_path: Path) -> None:
    assert not run_compiled(list(node_tests()), tmp_path / "kernels.db")


def test_tests_of_the_standard_are_of_many_forms() -> None:
    families = Counter(x.family for t in node_tests() for x in t.extracted.tasks)
    known = {"elementwise", "row_reduction", "reduce_window", "contraction", "recurrent", "recurrence", "generic"}
    assert set(families) == known


def test_rows_are_gathered_from_the_last_by_negative_numbers() -> None:
    helper = onnx.helper
    table, index = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([[-1, 0], [3, -4]])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["t", "i"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", 7, (2, 2))],
        [helper.make_tensor_value_info("y", 1, (2, 2, 3))],
        [onnx.numpy_helper.from_array(table, "t")],
    )
    imported = Importer(prepared(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))).run()
    got = interpreted(extracted(imported), {"i": index})
    np.testing.assert_array_equal(got["y"], table[index])


def alone(operator: str, x: Any, outputs: int = 1, **attributes: Any) -> tuple[Extracted, list[Any]]:
    """A model of one operator of ``x``, and onnxruntime's outputs."""
    helper = onnx.helper
    names = [f"y{k}" for k in range(outputs)]
    given = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    graph = helper.make_graph(
        [helper.make_node(operator, ["x"], names, **attributes)], "g", given,
        [helper.make_empty_tensor_value_info(n) for n in names],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    want = Session(made, optimised=False).run({"x": x})
    return extracted(Importer(prepared(made)).run()), [want[n] for n in names]


@pytest.mark.parametrize("operator", ["Sign", "ThresholdedRelu", "Relu", "Floor", "Clip", "Elu", "Softsign"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_operators_of_nan_and_infinities_give_what_onnxruntime_gives(operator: str, dtype: str) -> None:
    x = np.array([np.nan, -np.inf, np.inf, -0.0, -3, 2.5], dtype)
    try:
        found, (want,) = alone(operator, x)
    except TilewrightError:
        pytest.skip("onnxruntime has no kernel")
    assert not found.imported.left
    np.testing.assert_allclose(interpreted(found, {"x": x})["y0"], want, 1e-3)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 6), (1, 2, 4, 5, 3)])
def test_positions_of_pooled_values_count_all_elements_of_the_input(order: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape).astype(np.float32)
    rank = len(shape) - 2
    found, want = alone(
        "MaxPool", x, 2, kernel_shape=[2] * rank, strides=[2] * rank, pads=[1] * 2 * rank, storage_order=order
    )
    assert not found.imported.left
    got = interpreted(found, {"x": x})
    np.testing.assert_array_equal(got["y0"], want[0])
    np.testing.assert_array_equal(got["y1"], want[1])


@pytest.mark.parametrize("operator", ["LpPool", "MaxPool"])
def test_windows_whose_automatic_padding_is_negative_are_left_to_onnxruntime(operator: str) -> None:
    x = np.arange(12, dtype=np.float32).reshape(1, 1, 12)
    for stride, left in ((4, {operator: "auto_pad is negative"}), (1, {})):
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(operator, ["x"], ["y"], kernel_shape=[1], strides=[stride], auto_pad="SAME_UPPER")],
            "g", [onnx.helper.make_tensor_value_info("x", 1, x.shape)],
            [onnx.helper.make_tensor_value_info("y", 1, None)],
        )  # fmt: skip
        made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
        assert Importer(prepared(made)).run().left == left
