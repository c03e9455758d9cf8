"""Small ONNX models that leave axes open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

NODE = helper.make_node
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def weight(name: str, *shape: int) -> Any:
    random = np.random.default_rng(sum(name.encode()))
    return numpy_helper.from_array((random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype("f"), name)


def whole(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.array(value, np.int64), name)


def model(
    nodes: Sequence[Any], constants: Sequence[Any], shape: Sequence[int | str], ranks: dict[str, int], kind: int = FLOAT
) -> Any:
    """A model of the input ``x``; ``ranks``: of its outputs, all of whose axes are open."""
    outputs = [helper.make_tensor_value_info(n, FLOAT, [f"{n}{d}" for d in range(r)]) for n, r in ranks.items()]
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info("x", kind, shape)], outputs, list(constants)
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def mlp() -> Any:
    """Two layers and a softmax."""
    nodes = [
        NODE("Gemm", ["x", "w1", "b1"], ["a"], transB=1),
        NODE("Relu", ["a"], ["r"]),
        NODE("Gemm", ["r", "w2", "b2"], ["c"], transB=1),
        NODE("Softmax", ["c"], ["y"], axis=-1),
    ]
    constants = [weight("w1", 16, 8), weight("b1", 16), weight("w2", 10, 16), weight("b2", 10)]
    return model(nodes, constants, ["batch", 8], {"y": 2})


def convolutions() -> Any:
    """Two convolutions, the first of stride 2, a residual sum and a mean over the image."""
    nodes = [
        NODE("Conv", ["x", "k1", "c1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        NODE("Relu", ["a"], ["r"]),
        NODE("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        NODE("Conv", ["p", "k2", "c2"], ["q"], pads=[1, 1, 1, 1]),
        NODE("Add", ["q", "p"], ["s"]),
        NODE("Relu", ["s"], ["t"]),
        NODE("GlobalAveragePool", ["t"], ["u"]),
        NODE("Flatten", ["u"], ["f"]),
        NODE("Gemm", ["f", "w", "b"], ["y"], transB=1),
    ]
    constants = [
        weight("k1", 8, 3, 3, 3), weight("c1", 8), weight("k2", 8, 8, 3, 3), weight("c2", 8), weight("w", 10, 8),
        weight("b", 10),
    ]  # fmt: skip
    return model(nodes, constants, ["batch", 3, "height", "width.0"], {"y": 2, "t": 4})


def classifier() -> Any:
    """Convolutions of stride 2 until every image is 3x3, an average of it and a layer: of heights and widths 9 to 12."""
    nodes = [
        NODE("Conv", ["x", "k1", "c1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        NODE("Relu", ["a"], ["r"]),
        NODE("Conv", ["r", "k2", "c2"], ["q"], pads=[1, 1, 1, 1], strides=[2, 2]),
        NODE("AveragePool", ["q"], ["p"], kernel_shape=[3, 3]),
        NODE("Reshape", ["p", "rows"], ["f"]),
        NODE("Gemm", ["f", "w", "b"], ["y"], transB=1),
    ]
    constants = [
        weight("k1", 8, 3, 3, 3), weight("c1", 8), weight("k2", 8, 8, 3, 3), weight("c2", 8), weight("w", 10, 8),
        weight("b", 10), whole("rows", [1, 8]),
    ]  # fmt: skip
    return model(nodes, constants, [1, 3, "height", "width"], {"y": 2})


def block() -> Any:
    """A block of a transformer: attention of four heads, norm, two layers."""
    nodes = [
        NODE("Shape", ["x"], ["shape"]),
        NODE("Gather", ["shape", "i0"], ["b"]),
        NODE("Gather", ["shape", "i1"], ["s"]),
        NODE("Unsqueeze", ["b", "ax0"], ["rows"]),
        NODE("Unsqueeze", ["s", "ax0"], ["su"]),
        NODE("Concat", ["rows", "su", "four", "eight"], ["split"], axis=0),
        NODE("Concat", ["rows", "su", "rest"], ["joined"], axis=0),
    ]

    def linear(x: str, name: str, out: str) -> None:
        nodes.extend([NODE("MatMul", [x, f"w{name}"], [f"{out}m"]), NODE("Add", [f"{out}m", f"b{name}"], [out])])

    for n in "qkv":
        linear("x", n, n)
        nodes.append(NODE("Reshape", [n, "split"], [f"{n}r"]))
        nodes.append(NODE("Transpose", [f"{n}r"], [f"{n}t"], perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]))
    nodes += [
        NODE("MatMul", ["qt", "kt"], ["scores"]),
        NODE("Mul", ["scores", "scale"], ["scaled"]),
        NODE("Softmax", ["scaled"], ["p"], axis=-1),
        NODE("MatMul", ["p", "vt"], ["mixed"]),
        NODE("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        NODE("Reshape", ["turned", "joined"], ["heads"]),
    ]
    linear("heads", "o", "h")
    nodes += [NODE("Add", ["h", "x"], ["res"]), NODE("LayerNormalization", ["res", "g", "bn"], ["n1"], axis=-1)]
    linear("n1", "u", "up")
    nodes.append(NODE("Relu", ["up"], ["ur"]))
    linear("ur", "d", "down")
    nodes.append(NODE("Add", ["down", "n1"], ["y"]))
    constants = [
        *(weight(f"w{n}", 32, 32) for n in "qkvo"), *(weight(f"b{n}", 32) for n in "qkvod"), weight("wu", 32, 48),
        weight("bu", 48), weight("wd", 48, 32), weight("g", 32), weight("bn", 32), whole("i0", 0), whole("i1", 1),
        whole("ax0", [0]), whole("four", [4]), whole("eight", [8]), whole("rest", [-1]),
        numpy_helper.from_array(np.float32(8**-0.5), "scale"),
    ]  # fmt: skip
    return model(nodes, constants, ["batch", "seq", 32], {"y": 3})


def resized(**how: Any) -> Any:
    """A convolution behind a resize by 2 of every image."""
    nodes = [
        NODE("Conv", ["x", "k"], ["q"], pads=[1, 1, 1, 1]),
        NODE("Resize", ["q", "", "twice"], ["up"], **how),
        NODE("Relu", ["up"], ["y"]),
    ]
    twice = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "twice")
    return model(nodes, [weight("k", 4, 3, 3, 3), twice], ["batch", 3, "height", "width"], {"y": 4})


def positions() -> Any:
    """Embeddings of tokens and of their positions, which are counted, and a mask of ones below the diagonal."""
    nodes = [
        NODE("Shape", ["x"], ["shape"]),
        NODE("Gather", ["shape", "i1"], ["s"]),
        NODE("Range", ["i0", "s", "i1"], ["count"]),
        NODE("Gather", ["table", "count"], ["places"]),
        NODE("Gather", ["words", "x"], ["tokens"]),
        NODE("Add", ["tokens", "places"], ["e"]),
        NODE("Unsqueeze", ["s", "ax0"], ["su"]),
        NODE("Concat", ["su", "su"], ["square"], axis=0),
        NODE("ConstantOfShape", ["square"], ["ones"], value=numpy_helper.from_array(np.ones(1, np.float32))),
        NODE("Trilu", ["ones"], ["mask"], upper=0),
        NODE("Slice", ["table", "ax0", "su", "ax0"], ["first"]),
        NODE("Add", ["e", "first"], ["f"]),
        NODE("MatMul", ["mask", "f"], ["y"]),
    ]
    constants = [weight("table", 40, 16), weight("words", 50, 16), whole("i0", 0), whole("i1", 1), whole("ax0", [0])]
    return model(nodes, constants, ["batch", "seq"], {"y": 3}, INT64)
