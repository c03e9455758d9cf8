"""Functions, branches and loops whose course is known are written out, so that kernels compute what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper  # noqa: E402
from test_onnx_nodes import interpreted  # noqa: E402

from tilewright.models.extract import extracted  # noqa: E402
from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402

FLOAT, BOOL, INT64 = 1, 9, 7
X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def value(name: str, shape: Any = None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def made(nodes: list[Any], outputs: list[str], constants: dict[str, Any], functions: Any = (), opset: int = 17) -> Any:
    graph = helper.make_graph(
        nodes, "g", [value("x", X.shape)], [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    sets = [helper.make_opsetid("", opset), *([helper.make_opsetid("own", 1)] if functions else [])]
    return helper.make_model(graph, opset_imports=sets, functions=functions, ir_version=9)


def check(model: Any, left: tuple[str, ...] = ()) -> None:
    """Kernels take all but ``left``, and compute what onnxruntime does."""
    found = extracted(Importer(prepared(model)).run())
    assert tuple(found.imported.left) == left
    if not left:
        got = interpreted(found, {"x": X})
        for name, want in Session(model, optimised=False).run({"x": X}).items():
            np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6)


def branch(name: str, operator: str, **attributes: Any) -> Any:
    weight = numpy_helper.from_array(np.float32(3), "w")
    return helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["t"]), helper.make_node("Tanh", ["t"], [f"{name}_out"])],
        name, [], [value(f"{name}_out")], [weight],
    )  # fmt: skip


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_whose_condition_is_known_stands_in_its_place(taken: bool) -> None:
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Add"), else_branch=branch("b", "Mul"))
    check(made([node], ["y"], {"c": taken}))


def test_a_branch_that_is_chosen_when_the_model_runs_is_left() -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Add"), else_branch=branch("b", "Mul")),
    ]
    check(made(nodes, ["y"], {"zero": np.float32(0)}), ("If",))


def test_a_branch_that_is_a_constant_stands_for_it() -> None:
    fixed = helper.make_graph([], "a", [], [value("w")], [numpy_helper.from_array(np.ones(X.shape, np.float32), "w")])
    node = helper.make_node("If", ["c"], ["r"], then_branch=fixed, else_branch=branch("b", "Mul"))
    check(made([node, helper.make_node("Add", ["x", "r"], ["y"])], ["y"], {"c": True}))


def loop(count: str) -> Any:
    """Adds the round's number to what the rounds hand on, and gives every round's double."""
    nodes = [
        helper.make_node("Cast", ["i"], ["n"], to=FLOAT),
        helper.make_node("Add", ["v", "n"], ["v_out"]),
        helper.make_node("Add", ["v_out", "v_out"], ["row"]),
        helper.make_node("Identity", ["c"], ["c_out"]),
    ]
    inputs = [value("i", [], INT64), value("c", [], BOOL), value("v", X.shape)]
    body = helper.make_graph(nodes, "body", inputs, [value("c_out", [], BOOL), value("v_out"), value("row")])
    return helper.make_node("Loop", [count, "", "x"], ["y", "rows"], body=body)


@pytest.mark.parametrize("opset", [11, 17])
def test_a_loop_of_known_rounds_is_written_out(opset: int) -> None:
    check(made([loop("m")], ["y", "rows"], {"m": np.int64(3)}, opset=opset))


def test_a_loop_of_very_many_rounds_is_left() -> None:
    check(made([loop("m")], ["y", "rows"], {"m": np.int64(100_000)}), ("Loop",))


@pytest.mark.parametrize("turned", [0, 1])
def test_a_scan_is_written_out(turned: int) -> None:
    nodes = [helper.make_node("Add", ["s", "part"], ["s_out"]), helper.make_node("Neg", ["s_out"], ["row"])]
    inputs, outputs = [value("s", [3]), value("part", [3])], [value("s_out", [3]), value("row", [3])]
    node = helper.make_node(
        "Scan", ["zero", "x"], ["y", "rows"], body=helper.make_graph(nodes, "body", inputs, outputs), num_scan_inputs=1,
        scan_input_axes=[1], scan_input_directions=[turned], scan_output_directions=[turned], scan_output_axes=[1],
    )  # fmt: skip
    check(made([node], ["y", "rows"], {"zero": np.zeros(3, np.float32)}))


def test_a_function_of_the_models_own_is_written_out() -> None:
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    nodes = [leaky, helper.make_node("Add", ["b", "a"], ["c"])]
    function = helper.make_function("own", "Own", ["a"], ["c"], nodes, [helper.make_opsetid("", 17)], ["slope"])
    calls = [
        helper.make_node("Own", ["x"], ["t"], domain="own", slope=0.25),
        helper.make_node("Own", ["t"], ["y"], domain="own", slope=0.5),
    ]
    check(made(calls, ["y"], {}, [function]))


def test_functions_of_the_standard_are_written_out_where_kernels_take_all_of_them() -> None:
    taken = helper.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.3)
    check(made([taken], ["y"], {}, opset=22))
