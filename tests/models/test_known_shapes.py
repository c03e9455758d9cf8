"""Shapes that follow from the inputs' are known, behind operators that are left to onnxruntime too."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import helper, numpy_helper  # noqa: E402

from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared  # noqa: E402

NODE = helper.make_node


def test_shapes_are_computed_behind_operators_that_are_left() -> None:
    nodes = [
        NODE("TopK", ["x", "two"], ["t", "places"], axis=1),
        NODE("Shape", ["t"], ["size"]),
        NODE("Gather", ["size", "first"], ["rows"]),
        NODE("Unsqueeze", ["rows", "axis"], ["row"]),
        NODE("Concat", ["row", "rest"], ["wanted"], axis=0),
        NODE("Reshape", ["t", "wanted"], ["flat"]),
        NODE("Relu", ["flat"], ["y"]),
        NODE("Det", ["q"], ["d"]),
        NODE("Shape", ["d"], ["d_size"]),
        NODE("ConstantOfShape", ["d_size"], ["zeros"]),
        NODE("Add", ["d", "zeros"], ["e"]),
    ]
    constants = {"two": [2], "first": 0, "axis": [0], "rest": [-1]}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, (2, 5, 3)), helper.make_tensor_value_info("q", 1, (4, 3, 3))],
        [helper.make_empty_tensor_value_info(n) for n in ("y", "e")],
        [numpy_helper.from_array(np.array(v), n) for n, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    imported = Importer(prepared(model)).run()
    assert set(imported.left) == {"TopK", "Det"}
    assert not imported.unshaped
    assert {n.outputs[0]: imported.graph.values[n.outputs[0]].shape for n in imported.graph.nodes} == {
        "t": (2, 2, 3), "flat": (2, 6), "y": (2, 6), "d": (4,), "e": (4,),
    }  # fmt: skip


@pytest.mark.parametrize(("axis", "shape"), [(-3, (1, 30)), (-2, (2, 15)), (-1, (10, 3)), (0, (1, 30)), (2, (10, 3))])
def test_the_axis_of_a_flatten_counts_from_either_end(axis: int, shape: tuple[int, int]) -> None:
    x, y = helper.make_tensor_value_info("x", 1, (2, 5, 3)), helper.make_tensor_value_info("y", 1, shape)
    graph = helper.make_graph([NODE("Flatten", ["x"], ["y"], axis=axis)], "g", [x], [y])
    imported = Importer(
        prepared(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    ).run()
    assert imported.left == {}
    assert imported.graph.values["y"].shape == shape
