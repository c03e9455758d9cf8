"""Whole numbers that a model computes from open sizes, in expressions of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import open_models  # noqa: E402
from onnx import helper  # noqa: E402

from tilewright.core import Extent  # noqa: E402
from tilewright.models.importer import Importer  # noqa: E402
from tilewright.models.model_file import prepared  # noqa: E402

NODE = helper.make_node
A, B = Extent(9, 1, "a"), Extent(8, 2, "b")


def lengths(nodes: list[Any], constants: dict[str, Any]) -> dict[str, Any]:
    """The values that follow from the shape of ``x`` (a, b, 6), the constants among them as lists."""
    nodes = [*nodes, NODE("Relu", ["x"], ["y"])]
    values = [open_models.whole(n, v) for n, v in constants.items()]
    model = open_models.model(nodes, values, ["a", "b", 6], {"y": 3})
    importer = Importer(prepared(model, {"a": (1, 9), "b": (2, 8)}))
    importer.run()
    found = {n: v.values.tolist() for n, v in importer.lengths.items()}
    return found | {n: a.tolist() for n, a in importer.constants.items() if n not in constants}


def test_chains_of_shapes_are_expressions() -> None:
    found = lengths(
        [
            NODE("Shape", ["x"], ["s"]),
            NODE("Shape", ["x"], ["last"], start=-1),
            NODE("Size", ["x"], ["all"]),
            NODE("Gather", ["s", "one"], ["rows"]),
            NODE("Slice", ["s", "zero", "two"], ["front"]),
            NODE("Concat", ["front", "minus"], ["flat"], axis=0),
            NODE("Mul", ["rows", "three"], ["times"]),
            NODE("Add", ["times", "one0"], ["more"]),
            NODE("Div", ["more", "three"], ["half"]),
            NODE("Cast", ["half"], ["narrow"], to=onnx.TensorProto.INT32),
            NODE("Equal", ["flat", "minus"], ["same"]),
            NODE("Where", ["same", "ones", "flat"], ["where"]),
            NODE("Max", ["rows", "one0"], ["most"]),
            NODE("Squeeze", ["last", "axis"], ["six"]),
        ],
        {
            "one": 1, "zero": [0], "two": [2], "minus": [-1], "three": 3, "one0": 1, "ones": [1, 1, 1], "axis": [0],
        },
    )  # fmt: skip
    assert found["s"] == [A, B, 6]
    assert found["all"] == A * B * 6
    assert found["rows"] == B
    assert found["front"] == [A, B]
    assert found["flat"] == [A, B, -1]
    assert found["more"] == B * 3 + 1
    assert found["half"] == found["narrow"] == (B * 3 + 1) // 3
    assert found["same"] == [False, False, True]
    assert found["where"] == [A, B, 1]
    assert found["most"] == B
    assert (found["last"], found["six"]) == ([6], 6)


@pytest.mark.parametrize(
    "node",
    [
        NODE("Equal", ["rows", "five"], ["y0"]),
        NODE("Less", ["rows", "five"], ["y0"]),
        NODE("Min", ["rows", "five"], ["y0"]),
        NODE("Sub", ["five", "rows"], ["gone"]),
    ],
    ids=lambda n: n.op_type,
)
def test_what_holds_for_some_sizes_alone_is_not_known(node: Any) -> None:
    nodes = [NODE("Shape", ["x"], ["s"]), NODE("Gather", ["s", "one"], ["rows"]), node]
    if node.op_type == "Sub":  # whole numbers are divided towards zero, and this one may be negative
        nodes.append(NODE("Div", ["gone", "five"], ["y0"]))
    assert "y0" not in lengths(nodes, {"one": 1, "five": 5})


def test_numbers_of_a_size_have_the_type_that_the_model_says() -> None:
    nodes = [
        NODE("Shape", ["x"], ["s"]),
        NODE("Cast", ["s"], ["n"], to=onnx.TensorProto.INT32),
        NODE("Relu", ["x"], ["y"]),
    ]
    importer = Importer(prepared(open_models.model(nodes, [], ["a", 6], {"y": 2}), {"a": (1, 9)}))
    importer.run()
    made = importer.lengths["n"].at({"a": 4})
    assert (made.dtype, made.tolist()) == (np.dtype(np.int32), [4, 6])
