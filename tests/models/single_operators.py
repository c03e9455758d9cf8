"""Models of one operator, drawn over element types, attributes and operator sets 7 to 23."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import ModelProto, defs, helper, numpy_helper
from onnx.defs import SchemaError

Array = np.ndarray[Any, Any]
OPSETS = range(7, 24)
REALS, WHOLE = (
    ("float32", "float64", "float16"),
    ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64"),
)


@dataclass(frozen=True, eq=False)
class Fixed:
    """An input that a model has as a constant: axes, shapes."""

    array: Array


@dataclass(eq=False)
class Drawn:
    """``inputs``: arrays, :class:`Fixed` ones and ``None`` for what is absent."""

    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1


@dataclass(frozen=True, eq=False)
class Variant:
    """One model and its inputs by name."""

    number: int
    label: str
    model: ModelProto
    inputs: dict[str, Array]


class Draw:
    """What a variant is drawn with. ``since``: the version of the operator."""

    def __init__(self, seed: int, operator: str, opset: int) -> None:
        self.random = np.random.default_rng(seed)
        self.operator, self.opset = operator, opset
        self.since = 1 if "." in operator else defs.get_schema(operator, opset, "").since_version

    def of(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def often(self) -> bool:
        return bool(self.random.random() < 0.7)

    def seldom(self) -> bool:
        return bool(self.random.random() < 0.3)

    def whole(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        return tuple(self.whole(1, 5) for _ in range(self.whole(least, most)))

    def broadcast(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that stretches to ``shape``."""
        kept = shape[self.whole(0, len(shape)) :] if self.seldom() else shape
        return tuple(1 if self.seldom() else n for n in kept)

    def array(self, shape: tuple[int, ...], dtype: str, special: bool = True, nan: bool = True) -> Array:
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return self.random.integers(0, 2, shape).astype(kind)
        if kind.kind in "iu":
            limits = np.iinfo(kind)
            if special and self.often():
                return self.random.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
            return self.random.integers(max(limits.min, -9), 10, shape).astype(kind)
        made = np.asarray(2 * self.random.standard_normal(shape)).astype(kind)
        if special and self.seldom() and made.size:
            at = self.random.integers(0, made.size, 3)
            values = (np.inf, -np.inf, -0.0, 0.0, np.finfo(kind).max, *((np.nan,) if nan else ()))
            made.reshape(-1)[at] = [self.of(*values) for _ in range(3)]
        return made

    def dtype(self, *among: str) -> str:
        return str(self.of(*(among or (*REALS, "float32", "float32", *WHOLE))))

    def axis(self, rank: int, negative: bool = True) -> int:
        return self.whole(-rank if negative else 0, rank - 1)

    def axes(self, rank: int, negative: bool = True) -> list[int]:
        """Some axes, each once."""
        chosen = self.random.permutation(rank)[: self.whole(1, rank)].tolist()
        return [a - rank if negative and self.seldom() else a for a in chosen]


Recipe = Callable[[Draw], Drawn]
RECIPES: dict[str, Recipe] = {}


def recipe(*operators: str) -> Callable[[Recipe], Recipe]:
    def decorate(fn: Recipe) -> Recipe:
        RECIPES.update(dict.fromkeys(operators, fn))
        return fn

    return decorate


# --------------------------------------------------------------------------- elementwise


@recipe(
    "Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Erf", "Sqrt", "Exp", "Log", "Floor", "Ceil", "Sin", "Cos", "Reciprocal",
    "HardSwish", "Softplus", "Sign", "Round", "Identity", "Softsign", "IsNaN", "Sinh", "Mish",
)  # fmt: skip
def _unary(d: Draw) -> Drawn:
    return Drawn([d.array(d.shape(), d.dtype())])


@recipe("LeakyRelu", "Elu", "HardSigmoid", "Selu", "Celu", "ThresholdedRelu", "Gelu")
def _with_numbers(d: Draw) -> Drawn:
    names = {"HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma"), "Gelu": ()}.get(d.operator, ("alpha",))
    attributes: dict[str, Any] = {n: d.of(0.25, 0.1, 1.5) for n in names if d.often()}
    if d.operator == "Gelu" and d.often():
        attributes["approximate"] = d.of("none", "tanh")
    return Drawn([d.array(d.shape(), d.dtype(*REALS, "float32"))], attributes)


@recipe("Not", "And", "Or", "Xor")
def _logical(d: Draw) -> Drawn:
    shape = d.shape()
    one = [d.array(shape, "bool")]
    return Drawn(one if d.operator == "Not" else [*one, d.array(d.broadcast(shape), "bool")])


@recipe("Add", "Sub", "Mul", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "PRelu")
def _binary(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype()
    return Drawn([d.array(shape, dtype), d.array(d.broadcast(shape), dtype)])


@recipe("Div", "Mod")
def _quotient(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype()
    attributes = {"fmod": int(np.dtype(dtype).kind == "f" or d.seldom())} if d.operator == "Mod" else {}
    by = d.array(d.broadcast(shape), dtype, special=False)
    return Drawn([d.array(shape, dtype, special=False), np.where(by == 0, by.dtype.type(3), by)], attributes)


@recipe("Pow")
def _power(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype("float32", "float64", "int32", "int64")
    other = d.dtype("float32", "float64", "int32", "int64") if d.since >= 12 else dtype
    if d.often():
        exponent = d.of(-2, -1, 0, 1, 2, 3, 5) if other[0] == "i" else d.of(-2.0, -0.5, 0.5, 0.25, 1.0, 2.0, 3.0, 7.0)
        if dtype[0] == "i":
            exponent = abs(exponent)
        return Drawn([d.array(shape, dtype, dtype[0] == "f"), Fixed(np.array(exponent, other))])
    base = np.abs(d.array(shape, dtype, special=False)) + np.dtype(dtype).type(1)
    return Drawn([base, np.abs(d.array(d.broadcast(shape), other, special=False) % 5)])


@recipe("Max", "Min", "Sum", "Mean")
def _variadic(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype()
    return Drawn([d.array(d.broadcast(shape) if k else shape, dtype) for k in range(d.whole(1, 3))])


@recipe("Where")
def _where(d: Draw) -> Drawn:
    shape, dtype = d.shape(), d.dtype(*REALS, *WHOLE, "bool")
    branches: list[Any] = [d.array(() if d.seldom() else d.broadcast(shape), dtype) for _ in range(2)]
    if d.seldom():
        branches = [Fixed(b) for b in branches]
    return Drawn([d.array(shape, "bool"), *branches])


@recipe("Clip")
def _clip(d: Draw) -> Drawn:
    dtype = d.dtype() if d.since >= 11 else "float32"
    low, high = (d.of(-3, -1, 0), d.of(1, 2, 6)) if dtype[0] != "u" else (d.of(0, 1), d.of(2, 6))
    x = d.array(d.shape(), dtype)
    if d.since < 11:
        return Drawn([x], {k: float(v) for k, v in (("min", low), ("max", high)) if d.often()})
    bounds = [Fixed(np.array(v, dtype)) if d.often() else None for v in (low, high)]
    return Drawn([x, *bounds])


@recipe("Cast")
def _cast(d: Draw) -> Drawn:
    source, to = d.dtype(*REALS, *WHOLE, "bool"), d.dtype(*REALS, *WHOLE, "bool")
    x = d.array(d.shape(), source, special=not (np.dtype(source).kind == "f" and np.dtype(to).kind in "iu"))
    if np.dtype(source).kind == "f" and np.dtype(to).kind == "u":
        x = np.abs(x)
    return Drawn([x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))})


# --------------------------------------------------------------------------- products


@recipe("MatMul")
def _matmul(d: Draw) -> Drawn:
    batch, dtype = d.shape(0, 2), d.dtype(*REALS, "float32", "int32", "int64")
    m, k, n = d.whole(1, 6), d.whole(1, 9), d.whole(1, 6)
    a = d.of((k,), (m, k), (*batch, m, k))
    b = d.of((k,), (k, n), (*batch, k, n), (*d.broadcast(batch), k, n))
    return Drawn([d.array(a, dtype, special=False), d.array(b, dtype, special=False)])


@recipe("Gemm")
def _gemm(d: Draw) -> Drawn:
    m, k, n = d.whole(1, 6), d.whole(1, 9), d.whole(1, 6)
    attributes: dict[str, Any] = {a: d.of(0.5, 2.0, 1.0) for a in ("alpha", "beta") if d.seldom()}
    attributes |= {a: d.whole(0, 1) for a in ("transA", "transB") if d.often()}
    dtype = d.dtype("float32", "float64", "float16")
    a = (k, m) if attributes.get("transA") else (m, k)
    b = (n, k) if attributes.get("transB") else (k, n)
    inputs = [d.array(a, dtype, special=False), d.array(b, dtype, special=False)]
    if d.since < 11 or d.often():
        inputs.append(d.array(d.of((n,), (m, n), (1, n), (m, 1), (1,), ()), dtype, special=False))
    return Drawn(inputs, attributes)


def _window(d: Draw, rank: int, dilated: bool = True) -> tuple[tuple[int, ...], dict[str, Any]]:
    kernel = tuple(d.whole(1, 3) for _ in range(rank))
    attributes: dict[str, Any] = {}
    if d.often():
        attributes["strides"] = [d.whole(1, 3) for _ in range(rank)]
    if dilated and d.seldom():
        attributes["dilations"] = [d.whole(1, 2) for _ in range(rank)]
    if d.seldom():
        attributes["auto_pad"] = d.of("SAME_UPPER", "SAME_LOWER", "VALID")
        attributes.pop("dilations", None)
    elif d.often():
        attributes["pads"] = [d.whole(0, k - 1) for k in (*kernel, *kernel)]
    return kernel, attributes


@recipe("Conv", "ConvTranspose")
def _conv(d: Draw) -> Drawn:
    rank = d.of(1, 2, 2, 3)
    kernel, attributes = _window(d, rank)
    group = d.of(1, 1, 2)
    channels, features = group * d.whole(1, 3), group * d.whole(1, 3)
    if group > 1:
        attributes["group"] = group
    dtype = d.dtype("float32", "float32", "float64", "float16")
    space = tuple(d.whole(5, 8) for _ in range(rank))
    weight = (features, channels // group, *kernel) if d.operator == "Conv" else (channels, features // group, *kernel)
    inputs = [d.array((d.whole(1, 2), channels, *space), dtype, False), d.array(weight, dtype, False)]
    return Drawn([*inputs, *([d.array((features,), dtype, False)] if d.often() else [])], attributes)


@recipe("MaxPool", "AveragePool", "LpPool")
def _pool(d: Draw) -> Drawn:
    rank = d.of(1, 2, 2, 3)
    largest = d.operator == "MaxPool"
    kernel, attributes = _window(d, rank, d.since >= (10 if largest else 19))
    if d.operator == "AveragePool" and d.seldom():
        attributes["count_include_pad"] = 1
    if d.since >= 10 and d.operator != "LpPool" and d.seldom():
        attributes["ceil_mode"] = 1
    dtype = d.dtype(
        "float32", "float32", "float64", "float16", *(("int8", "uint8") if largest and d.since >= 12 else ())
    )
    shape = (d.whole(1, 2), d.whole(1, 3), *(d.whole(5, 8) for _ in range(rank)))
    positions = largest and d.since >= 8 and d.seldom()
    if positions and d.often():
        attributes["storage_order"] = 1
    return Drawn(
        [d.array(shape, dtype, largest, nan=False)], {"kernel_shape": kernel, **attributes}, 2 if positions else 1
    )


@recipe("GlobalAveragePool", "GlobalMaxPool")
def _global(d: Draw) -> Drawn:
    return Drawn([d.array(d.shape(3, 5), d.dtype(*REALS), False)])


# --------------------------------------------------------------------------- reductions, norms


@recipe(
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSumExp",
)  # fmt: skip
def _reduce(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    dtype = d.dtype(*REALS, "float32", "int32", "int64", "int8", "uint8")
    x = d.array(shape, dtype, d.operator in ("ReduceMax", "ReduceMin"), nan=False)  # onnxruntime loses some NaNs
    attributes: dict[str, Any] = {"keepdims": d.whole(0, 1)} if d.often() else {}
    axes = d.axes(len(shape), d.since >= 11) if d.often() else None
    if d.since < (13 if d.operator == "ReduceSum" else 18):
        return Drawn([x], attributes | ({} if axes is None else {"axes": axes}))
    if axes is None and d.seldom():
        attributes["noop_with_empty_axes"] = 1
    return Drawn([x, *([] if axes is None else [Fixed(np.array(axes, np.int64))])], attributes)


@recipe("ArgMax", "ArgMin")
def _arg(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    return Drawn([d.array(shape, d.dtype("float32", "int32"), False)], {"axis": d.axis(len(shape), d.since >= 11)})


@recipe("Softmax", "LogSoftmax", "Hardmax")
def _softmax(d: Draw) -> Drawn:
    shape = d.shape(1 if d.since >= 13 else 2, 4)
    attributes = {"axis": d.axis(len(shape), d.since >= 11)} if d.often() else {}
    return Drawn([d.array(shape, d.dtype(*REALS), False)], attributes)


@recipe("BatchNormalization", "InstanceNormalization")
def _norm(d: Draw) -> Drawn:
    shape, dtype = d.shape(3, 4), d.dtype("float32", "float32", "float64", "float16")
    inputs: list[Array] = [d.array(shape, dtype, False), *(d.array(shape[1:2], dtype, False) for _ in range(2))]
    if d.operator == "BatchNormalization":
        inputs += [
            d.array(shape[1:2], dtype, False),
            np.abs(d.array(shape[1:2], dtype, False)) + np.dtype(dtype).type(0.5),
        ]
    elif np.prod(shape[2:]) < 2:
        return _norm(d)
    return Drawn(inputs, {"epsilon": d.of(1e-3, 0.1)} if d.often() else {})


@recipe("LayerNormalization", "RMSNormalization")
def _layer(d: Draw) -> Drawn:
    shape, dtype = (*d.shape(1, 2), d.whole(3, 6)), d.dtype("float32", "float32", "float64", "float16")
    axis = d.axis(len(shape))
    rest = shape[axis % len(shape) :]
    bias = [d.array(rest, dtype, False)] if d.operator == "LayerNormalization" and d.often() else []
    attributes = {"axis": axis, **({"epsilon": 0.01} if d.seldom() else {})}
    return Drawn([d.array(shape, dtype, False), d.array(rest, dtype, False), *bias], attributes)


@recipe("CumSum")
def _cumsum(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    attributes = {a: 1 for a in ("exclusive", "reverse") if d.seldom()}
    return Drawn([d.array(shape, d.dtype("float32", "int64"), False), Fixed(np.array(d.axis(len(shape))))], attributes)


# --------------------------------------------------------------------------- moves


def _any(d: Draw, shape: tuple[int, ...]) -> Array:
    return d.array(shape, d.dtype(*REALS, "float32", *WHOLE, "bool"))


def _int64(*values: Any) -> Fixed:
    return Fixed(np.array(values, np.int64))


@recipe("Reshape")
def _reshape(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    total = int(np.prod(shape))
    first = d.of(*(n for n in range(1, total + 1) if total % n == 0))
    wanted = d.of((total,), (first, total // first), (first, -1), (-1,), (1, total, 1), (0, -1))
    return Drawn([_any(d, shape), _int64(*wanted)])


@recipe("Flatten")
def _flatten(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    axis = d.whole(-len(shape) if d.since >= 11 else 0, len(shape))
    return Drawn([_any(d, shape)], {"axis": axis} if d.often() else {})


@recipe("Squeeze", "Unsqueeze")
def _squeeze(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    axis = d.whole(0, len(shape))
    wider = (*shape[:axis], 1, *shape[axis:])
    axes = [axis - len(wider) if d.since >= 11 and d.seldom() else axis]
    x = _any(d, shape if d.operator == "Unsqueeze" else wider)
    if d.operator == "Squeeze" and d.seldom():
        return Drawn([x])
    return Drawn([x], {"axes": axes}) if d.since < 13 else Drawn([x, _int64(*axes)])


@recipe("Transpose")
def _transpose(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    return Drawn([_any(d, shape)], {"perm": d.random.permutation(len(shape)).tolist()} if d.often() else {})


@recipe("Concat")
def _concat(d: Draw) -> Drawn:
    shape, dtype = d.shape(1, 3), d.dtype()
    axis = d.axis(len(shape), d.since >= 11)
    sizes = [d.whole(0 if d.seldom() else 1, 4) for _ in range(d.whole(1, 3))]
    at = axis % len(shape)
    return Drawn([d.array((*shape[:at], n, *shape[at + 1 :]), dtype) for n in sizes], {"axis": axis})


@recipe("Split")
def _split(d: Draw) -> Drawn:
    shape, parts = d.shape(1, 3), [d.whole(1, 3) for _ in range(d.whole(1, 3))]
    axis = d.axis(len(shape), d.since >= 11)
    at = axis % len(shape)
    given = d.often()
    if not given:
        parts = [parts[0]] * len(parts)
    x = _any(d, (*shape[:at], sum(parts), *shape[at + 1 :]))
    attributes: dict[str, Any] = {"axis": axis}
    if given and d.since >= 13:
        return Drawn([x, _int64(*parts)], attributes, len(parts))
    if given:
        attributes["split"] = parts
    elif d.since >= 18:
        attributes["num_outputs"] = len(parts)
    return Drawn([x], attributes, len(parts))


@recipe("Slice")
def _slice(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    axes = sorted(a % len(shape) for a in d.axes(len(shape), False))
    starts = [d.whole(-shape[a], shape[a] - 1) for a in axes]
    ends = [d.of(np.iinfo(np.int64).max, shape[a], -1, 1 + shape[a] // 2) for a in axes]
    if d.since < 10:
        named = {"axes": axes} if axes != list(range(len(axes))) or d.often() else {}
        return Drawn([_any(d, shape)], {"starts": starts, "ends": ends, **named})
    steps = [d.of(1, 1, 2, -1) if end < np.iinfo(np.int64).max else 1 for end in ends]  # backwards it means the start
    return Drawn(
        [_any(d, shape), _int64(*starts), _int64(*ends), _int64(*axes), *([_int64(*steps)] if d.often() else [])]
    )


@recipe("Expand")
def _expand(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    return Drawn([_any(d, d.broadcast(shape)), _int64(*(1 if d.seldom() else n for n in shape))])


@recipe("Pad")
def _pad(d: Draw) -> Drawn:
    shape = d.shape(1, 4)
    mode = d.of("constant", "constant", "constant", "reflect", "edge")
    low = -1 if d.seldom() and mode == "constant" else 0
    pads = [d.whole(low if n > 2 else 0, min(2, n - 1) if mode == "reflect" else 2) for n in (*shape, *shape)]
    attributes: dict[str, Any] = {"mode": mode} if mode != "constant" or d.seldom() else {}
    if d.since < 11:
        x = d.array(shape, "float32")
        return Drawn([x], attributes | {"pads": pads} | ({"value": 1.5} if d.often() else {}))
    x = d.array(shape, d.dtype(*REALS, "int32", "int64", "int8", "uint8", *(("bool",) if d.since >= 13 else ())))
    value = x.reshape(-1)[0] if x.dtype.kind == "b" else np.array(d.of(0, 3, 100)).astype(x.dtype)
    if x.dtype == np.int64:
        value = np.array(2**53 + 1)
    return Drawn([x, _int64(*pads), *([Fixed(np.asarray(value))] if d.often() else [])], attributes)


# --------------------------------------------------------------------------- models


def variants(start: int = 0) -> Iterator[Variant]:
    """One after the other without an end; each number has its own, whatever was drawn before."""
    operators = list(RECIPES)
    number = start
    while True:
        made = variant(number, operators[number % len(operators)])
        number += 1
        if made is not None:
            yield made


def variant(number: int, operator: str) -> Variant | None:
    """The variant of a number; ``None`` where its operator set lacks the operator."""
    random = np.random.default_rng([number, 1])
    opset = int(random.choice(OPSETS))
    try:
        draw = Draw(number, operator, opset)
        if "." not in operator and defs.get_schema(operator, opset, "").deprecated:
            return None
    except SchemaError:
        return None
    drawn = RECIPES[operator](draw)
    folded = random.random() < 0.1
    inputs: dict[str, Array] = {}
    constants: dict[str, Array] = {}
    names = []
    for k, given in enumerate(drawn.inputs):
        names.append("" if given is None else f"x{k}")
        if isinstance(given, Fixed):
            constants[f"x{k}"] = given.array
        elif given is not None:
            constant = folded or (k > 0 and random.random() < 0.3)
            (constants if constant else inputs)[f"x{k}"] = np.asarray(given)
    outputs = [f"y{k}" for k in range(drawn.outputs)]
    domain, _, name = operator.rpartition(".")
    node = helper.make_node(name, names, outputs, domain=domain, **drawn.attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    sets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=sets, ir_version=min(10, 4 + opset // 3))
    types = ", ".join(
        f"{a.dtype}{list(a.shape)}{'' if n in inputs else ' constant'}" for n, a in {**inputs, **constants}.items()
    )
    return Variant(number, f"{number}: {operator}-{opset}({types}) {drawn.attributes}", model, inputs)
