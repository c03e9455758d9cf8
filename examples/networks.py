"""Networks in ONNX's format with random weights: like ResNet-50, MobileNet v2, SqueezeNet, DenseNet-121, BERT, and a
decoder of a language model.

    python examples/networks.py resnet50 -o resnet50.onnx
    tilewright extract resnet50.onnx -o resnet50.toml
    tilewright tune --tasks resnet50.toml --time-budget 20m
    tilewright run resnet50.onnx

It needs the package onnx, and downloads nothing. ``--small`` makes a network of the same form for a quick try.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


class Net:
    """An ONNX graph while it is put together. Weights are drawn so that values neither vanish nor explode."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: list[Any] = []
        self.count = 0

    def input(self, name: str, shape: tuple[int, ...], kind: int = TensorProto.FLOAT) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        self.count += 1
        name = f"w{self.count}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(self, *shape: int, fan: int = 1) -> str:
        return self.constant(self.random.standard_normal(shape) * (1.0 / fan) ** 0.5)

    def near(self, value: float, *shape: int) -> str:
        """A vector of numbers around ``value``."""
        return self.constant(value + 0.1 * self.random.random(shape))

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        self.count += 1
        names = [f"v{self.count}" + (f"_{k}" if k else "") for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def model(self, outputs: list[str]) -> Any:
        found = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, "network", self.inputs, found, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model)
        return model

    # layers

    def conv(self, x: str, ci: int, co: int, k: int, stride: int = 1, groups: int = 1, act: str = "relu") -> str:
        """Convolution, batch norm, activation."""
        w = self.weight(co, ci // groups, k, k, fan=ci // groups * k * k // 2 or 1)
        p = k // 2
        y = self.op("Conv", x, w, strides=[stride] * 2, pads=[p] * 4, kernel_shape=[k, k], group=groups)
        y = self.op("BatchNormalization", y, *(self.near(v, co) for v in (1.0, 0.0, 0.0, 1.0)))
        if act == "relu":
            return self.op("Relu", y)
        if act == "relu6":
            return self.op("Clip", y, self.constant(0.0), self.constant(6.0))
        return y

    def dense(self, x: str, ci: int, co: int, bias: bool = True) -> str:
        y = self.op("MatMul", x, self.weight(ci, co, fan=ci))
        return self.op("Add", y, self.near(0.0, co)) if bias else y

    def shaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(shape, np.int64))

    def head(self, x: str, channels: int, classes: int) -> str:
        y = self.op("Flatten", self.op("GlobalAveragePool", x))
        return self.op("Gemm", y, self.weight(classes, channels, fan=channels), self.near(0.0, classes), transB=1)


def resnet50(small: bool = False) -> Any:
    """Bottleneck blocks of 1x1, 3x3 and 1x1 convolutions with residual sums."""
    net = Net()
    size, base, blocks = (64, 16, (1, 2)) if small else (224, 64, (3, 4, 6, 3))
    x = net.conv(net.input("image", (1, 3, size, size)), 3, base, 7, stride=2)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = base
    for stage, count in enumerate(blocks):
        width = base << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = net.conv(net.conv(x, channels, width, 1), width, width, 3, stride=stride)
            y = net.conv(y, width, 4 * width, 1, act="")
            x = net.conv(x, channels, 4 * width, 1, stride=stride, act="") if not block else x
            x = net.op("Relu", net.op("Add", y, x))
            channels = 4 * width
    return net.model([net.head(x, channels, 10 if small else 1000)])


def mobilenet(small: bool = False) -> Any:
    """Inverted residuals: 1x1 convolutions around depthwise 3x3 ones, ReLU6."""
    net = Net()
    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    size, last = (32, 64) if small else (224, 1280)
    x = net.conv(net.input("image", (1, 3, size, size)), 3, 32, 3, stride=2, act="relu6")
    channels = 32
    for expand, co, count, first in plan[:3] if small else plan:
        for block in range(count):
            stride, wide = first if not block else 1, expand * channels
            y = net.conv(x, channels, wide, 1, act="relu6") if expand > 1 else x
            y = net.conv(y, wide, wide, 3, stride=stride, groups=wide, act="relu6")
            y = net.conv(y, wide, co, 1, act="")
            x = net.op("Add", x, y) if stride == 1 and co == channels else y
            channels = co
    x = net.conv(x, channels, last, 1, act="relu6")
    return net.model([net.head(x, last, 10 if small else 1000)])


def squeezenet(small: bool = False) -> Any:
    """Fire modules: a 1x1 convolution, and side by side a 1x1 and a 3x3 one of it, concatenated."""
    net = Net()
    size, plan, classes = (64, (16, 32), 10) if small else (224, (16, 32, 48, 64), 1000)

    def conv(x: str, ci: int, co: int, k: int, stride: int = 1) -> str:
        w, b = net.weight(co, ci, k, k, fan=ci * k * k // 2 or 1), net.near(0.0, co)
        pads = [k // 2 if stride == 1 else 0] * 4
        return net.op("Relu", net.op("Conv", x, w, b, strides=[stride] * 2, pads=pads, kernel_shape=[k, k]))

    x, channels = conv(net.input("image", (1, 3, size, size)), 3, 64, 3, stride=2), 64
    for number, width in enumerate(plan):
        if number < 3:
            x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2])
        for _ in range(2):
            y = conv(x, channels, width, 1)
            x = net.op("Concat", conv(y, width, 4 * width, 1), conv(y, width, 4 * width, 3), axis=1)
            channels = 8 * width
    return net.model([net.op("Flatten", net.op("GlobalAveragePool", conv(x, channels, classes, 1)))])


def densenet(small: bool = False) -> Any:
    """Dense blocks: each layer reads all before it, normalised, and adds its own features."""
    net = Net()
    size, plan, growth = (32, (2, 3), 8) if small else (224, (6, 12, 24, 16), 32)

    def norm(x: str, channels: int) -> str:
        return net.op("Relu", net.op("BatchNormalization", x, *(net.near(v, channels) for v in (1.0, 0.0, 0.0, 1.0))))

    def conv(x: str, ci: int, co: int, k: int) -> str:
        return net.op("Conv", x, net.weight(co, ci, k, k, fan=ci * k * k // 2), pads=[k // 2] * 4, kernel_shape=[k, k])

    channels = 2 * growth
    x = net.conv(net.input("image", (1, 3, size, size)), 3, channels, 7, stride=2)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for number, count in enumerate(plan):
        features = [x]
        for _ in range(count):
            joined = net.op("Concat", *features, axis=1) if len(features) > 1 else x
            y = conv(norm(joined, channels), channels, 4 * growth, 1)
            features.append(conv(norm(y, 4 * growth), 4 * growth, growth, 3))
            channels += growth
        x = norm(net.op("Concat", *features, axis=1), channels)
        if number < len(plan) - 1:
            x, channels = conv(x, channels, channels // 2, 1), channels // 2
            x = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    return net.model([net.head(x, channels, 10 if small else 1000)])


def bert(small: bool = False) -> Any:
    """An encoder: embeddings, attention with a mask, GELU, layer norms."""
    net = Net()
    rows, width, heads, layers, words = (32, 64, 2, 2, 100) if small else (128, 768, 12, 12, 30522)
    depth = width // heads
    ids, mask = net.input("ids", (1, rows), TensorProto.INT64), net.input("mask", (1, 1, 1, rows))

    def norm(x: str) -> str:
        return net.op("LayerNormalization", x, net.near(1.0, width), net.near(0.0, width), axis=-1)

    def split(x: str) -> str:
        return net.op("Transpose", net.shaped(x, 1, rows, heads, depth), perm=[0, 2, 1, 3])

    x = norm(net.op("Add", net.op("Gather", net.weight(words, width), ids), net.weight(1, rows, width)))
    for _ in range(layers):
        q, k, v = (split(net.dense(x, width, width)) for _ in range(3))
        scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.op("Add", net.op("Div", scores, net.constant(depth**0.5)), mask)
        mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
        merged = net.shaped(net.op("Transpose", mixed, perm=[0, 2, 1, 3]), 1, rows, width)
        x = norm(net.op("Add", net.dense(merged, width, width), x))
        h = net.dense(x, width, 4 * width)
        inner = net.op("Add", net.op("Erf", net.op("Div", h, net.constant(2**0.5))), net.constant(1.0))
        h = net.op("Mul", net.op("Mul", h, inner), net.constant(0.5))
        x = norm(net.op("Add", net.dense(h, 4 * width, width), x))
    return net.model([x])


def decoder(small: bool = False) -> Any:
    """One step of a language model with cached keys and values: RMS norms, rotary embeddings, grouped heads, SwiGLU."""
    net = Net()
    past, width, heads, shared, layers = (31, 64, 4, 2, 2) if small else (255, 1024, 16, 4, 8)
    depth, hidden, words = width // heads, (96 if small else 2816), (100 if small else 32000)
    ids = net.input("ids", (1, 1), TensorProto.INT64)
    caches: list[str] = []

    def norm(x: str) -> str:
        mean = net.op("ReduceMean", net.op("Pow", x, net.constant(2.0)), axes=[-1], keepdims=1)
        root = net.op("Sqrt", net.op("Add", mean, net.constant(1e-6)))
        return net.op("Mul", net.op("Div", x, root), net.near(1.0, width))

    angles = past / 10000 ** (np.arange(depth // 2) / (depth // 2))
    cos, sin = (net.constant(np.tile(f(angles), 2).reshape(1, 1, 1, depth)) for f in (np.cos, np.sin))

    def rotated(x: str) -> str:
        first, second = net.op("Split", x, outputs=2, axis=3)
        turned = net.op("Concat", net.op("Neg", second), first, axis=3)
        return net.op("Add", net.op("Mul", x, cos), net.op("Mul", turned, sin))

    def split(x: str, count: int) -> str:
        return net.op("Transpose", net.shaped(x, 1, 1, count, depth), perm=[0, 2, 1, 3])

    def repeated(x: str) -> str:
        wide = net.op("Unsqueeze", x, net.constant([2], np.int64))
        shape = (1, shared, heads // shared, past + 1, depth)
        return net.shaped(net.op("Expand", wide, net.constant(shape, np.int64)), 1, heads, past + 1, depth)

    x = net.op("Gather", net.weight(words, width), ids)
    for layer in range(layers):
        y = norm(x)
        q = rotated(split(net.dense(y, width, width, bias=False), heads))
        k = rotated(split(net.dense(y, width, shared * depth, bias=False), shared))
        v = split(net.dense(y, width, shared * depth, bias=False), shared)
        kept = [net.input(f"past_{n}{layer}", (1, shared, past, depth)) for n in "kv"]
        k, v = (net.op("Concat", before, new, axis=2) for before, new in zip(kept, (k, v), strict=True))
        caches += [k, v]
        scores = net.op("MatMul", q, net.op("Transpose", repeated(k), perm=[0, 1, 3, 2]))
        weights = net.op("Softmax", net.op("Mul", scores, net.constant(depth**-0.5)), axis=-1)
        mixed = net.op("Transpose", net.op("MatMul", weights, repeated(v)), perm=[0, 2, 1, 3])
        x = net.op("Add", net.dense(net.shaped(mixed, 1, 1, width), width, width, bias=False), x)
        y = norm(x)
        gate = net.dense(y, width, hidden, bias=False)
        gate = net.op("Mul", gate, net.op("Sigmoid", gate))
        y = net.op("Mul", gate, net.dense(y, width, hidden, bias=False))
        x = net.op("Add", net.dense(y, hidden, width, bias=False), x)
    return net.model([net.dense(norm(x), width, words, bias=False), *caches])


NETWORKS: dict[str, Callable[[bool], Any]] = {
    "resnet50": resnet50, "mobilenet": mobilenet, "squeezenet": squeezenet, "densenet": densenet, "bert": bert,
    "decoder": decoder,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("-o", "--output", help="the file; NETWORK.onnx unless given")
    parser.add_argument("--small", action="store_true", help="a network of the same form for a quick try")
    given = parser.parse_args()
    file = given.output or f"{given.network}.onnx"
    onnx.save(NETWORKS[given.network](given.small), file)
    print(file)


if __name__ == "__main__":
    main()
