"""Models of one operator that gathers, resizes, fills, quantises or is onnxruntime's own, drawn as the others are."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper
from single_operators import REALS, WHOLE, Draw, Drawn, Fixed, recipe

# --------------------------------------------------------------------------- elements that indices choose


def _any(d: Draw, shape: tuple[int, ...]) -> Any:
    return d.array(shape, d.dtype(*REALS, "float32", *WHOLE, "bool"))


def _int64(*values: Any) -> Fixed:
    return Fixed(np.array(values, np.int64))


@recipe("Gather", "GatherElements")
def _gather(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    axis = d.axis(len(shape)) if d.often() else 0
    size = shape[axis % len(shape)]
    low = -size if d.since >= 11 else 0
    places = d.of((), (1,), (3,), (2, 2)) if d.operator == "Gather" else shape
    index = d.random.integers(low, size, places).astype(d.of("int64", "int32"))
    table, fixed = _any(d, shape), d.of(0, 1, 2)
    return Drawn([Fixed(table) if fixed == 1 else table, Fixed(index) if fixed == 2 else index], {"axis": axis})


@recipe("GatherND")
def _gather_nd(d: Draw) -> Drawn:
    shape = d.shape(2, 4)
    batch = d.whole(0, 1) if d.since >= 12 else 0
    sizes = shape[batch : d.whole(batch + 1, len(shape))]
    places = (*shape[:batch], *d.shape(0, 2))
    index = np.stack([d.random.integers(-n, n, places) for n in sizes], -1).astype(np.int64)
    return Drawn([_any(d, shape), index], {"batch_dims": 1} if batch else {})


def _reduction(d: Draw, dtype: str) -> dict[str, Any]:
    if d.since < 16 or dtype == "bool":
        return {}
    return {"reduction": d.of("none", "add", "mul", *(("max", "min") if d.since >= 18 else ()))}


@recipe("Scatter", "ScatterElements")
def _scatter(d: Draw) -> Drawn:
    shape, dtype = d.shape(1, 3), d.dtype(*REALS, "float32", "int32", "int64", "uint8")
    axis = d.axis(len(shape), d.since >= 11)
    at = axis % len(shape)
    count = d.whole(1, shape[at])
    beside = [d.whole(1, n) if d.seldom() else n for n in shape]
    index = np.argsort(d.random.random((*beside[:at], shape[at], *beside[at + 1 :])), at).take(range(count), at)
    reduction = _reduction(d, dtype) if d.operator == "ScatterElements" else {}
    if d.since >= 11 and d.seldom():
        index = index - shape[at]
    if reduction:  # several in one place
        index[...] = index % (1 + shape[at] // 2) if index.min() >= 0 else index
    return Drawn([d.array(shape, dtype, False), index, d.array(index.shape, dtype, False)], {"axis": axis, **reduction})


@recipe("ScatterND")
def _scatter_nd(d: Draw) -> Drawn:
    shape, dtype = d.shape(1, 3), d.dtype(*REALS, "float32", "int32", "int64", "bool")
    count = d.whole(1, len(shape))
    total = int(np.prod(shape[:count]))
    reduction = _reduction(d, dtype)
    flat = d.random.choice(total, d.whole(1, total), replace=bool(reduction) and reduction["reduction"] != "none")
    index = np.stack(np.unravel_index(flat, shape[:count]), -1).astype(np.int64)
    if d.seldom():
        index = index - np.array(shape[:count])
    updates = d.array((len(flat), *shape[count:]), dtype, False)
    return Drawn([d.array(shape, dtype, False), Fixed(index) if d.seldom() else index, updates], reduction)


@recipe("OneHot")
def _one_hot(d: Draw) -> Drawn:
    shape = d.shape(1, 2)
    index = d.random.integers(-5, 6, shape).astype(d.of("int64", "int32", "float32"))
    values = np.array([d.of(0, 2), d.of(1, 5)], d.of("float32", "int64"))
    return Drawn(
        [index, Fixed(np.array(d.of(4, [4]), np.int64)), Fixed(values) if d.often() else values],
        {"axis": d.whole(-len(shape) - 1, len(shape))},
    )


# --------------------------------------------------------------------------- other sizes


@recipe("Upsample", "Resize")
def _resize(d: Draw) -> Drawn:
    rank = d.of(1, 2, 2, 2, 3)
    space = [d.whole(1, 6) for _ in range(rank)]
    mode = d.of("nearest", "nearest", "linear", *(("cubic",) if d.since >= 11 and rank == 2 else ()))
    x = d.array(
        (d.whole(1, 2), 2, *space),
        "float32" if mode == "cubic" else d.dtype("float32", "float32", "uint8", "float16"),
        False,
    )
    factors = [d.of(0.5, 0.6, 0.3, 1, 1.5, 2, 2, 3, 2.3) for _ in space]
    factors = [f if int(f * n) else 1 for f, n in zip(factors, space, strict=True)]
    scales = np.array([1, 1, *factors], np.float32)
    attributes: dict[str, Any] = {"mode": mode}
    if d.operator == "Upsample":
        scales = np.maximum(scales, 1)
        return (
            Drawn([x], attributes | {"scales": scales.tolist()})
            if d.since < 9
            else Drawn([x, Fixed(scales)], attributes)
        )
    if d.since < 11:
        return Drawn([x, Fixed(scales)], attributes)
    modes = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"]
    if d.since >= 19:
        modes.append("half_pixel_symmetric")
    placed = d.of(*modes)
    attributes["coordinate_transformation_mode"] = placed
    if mode == "nearest" and d.often():
        attributes["nearest_mode"] = d.of("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic" and d.often():
        attributes["cubic_coeff_a"] = d.of(-0.5, -0.75)
    if mode == "cubic" and d.seldom() and placed != "tf_crop_and_resize":
        attributes["exclude_outside"] = 1
    if (
        d.since >= 18
        and mode != "nearest"
        and rank == 2
        and x.dtype == np.float32
        and placed != "tf_crop_and_resize"
        and d.often()
    ):
        attributes["antialias"] = 1
    roi: Any = None if d.since >= 13 else Fixed(np.zeros(0, np.float32))
    if placed == "tf_crop_and_resize":
        attributes["extrapolation_value"] = 7.0
        begin = [d.of(0.0, 0.25, -0.3) for _ in space]
        roi = Fixed(np.array([0, 0, *begin, 1, 1, *(b + d.of(0.5, 1.0, 1.2) for b in begin)], np.float32))
    if d.often():
        return Drawn([x, roi, Fixed(scales)], attributes)
    sizes = [*x.shape[:2], *(d.whole(1, 9) for _ in space)]
    if d.since >= 18 and d.often():
        attributes["keep_aspect_ratio_policy"] = d.of("stretch", "not_larger", "not_smaller")
        attributes["axes"] = list(range(2, 2 + rank))
        sizes = sizes[2:]
        if placed == "tf_crop_and_resize":
            roi = Fixed(np.array([*roi.array[2 : 2 + rank], *roi.array[-rank:]], np.float32))
    absent = None if d.since >= 13 else Fixed(np.zeros(0, np.float32))
    return Drawn([x, roi, absent, _int64(*sizes)], attributes)


@recipe("GridSample")
def _grid(d: Draw) -> Drawn:
    rank = d.of(2, 2, 3) if d.since >= 20 else 2
    space, out = [d.whole(1, 5) for _ in range(rank)], [d.whole(1, 4) for _ in range(rank)]
    modes = ("linear", "nearest", "cubic") if d.since >= 20 else ("bilinear", "nearest", "bicubic")
    mode = d.of(*modes[: 2 if rank == 3 else 3])
    padding = "zeros" if "cubic" in mode else d.of("zeros", "border", "reflection")
    grid = d.random.uniform(-1.6, 1.6, (2, *out, rank)).astype(np.float32)
    x = d.array((2, 2, *space), "float32", False)
    return Drawn([x, grid], {"mode": mode, "padding_mode": padding, "align_corners": d.whole(0, 1)})


@recipe("AffineGrid")
def _affine(d: Draw) -> Drawn:
    space = [d.whole(1, 4) for _ in range(d.of(2, 3))]
    theta = d.array((2, len(space), len(space) + 1), "float32", False)
    return Drawn([theta, _int64(2, 3, *space)], {"align_corners": d.whole(0, 1)})


# --------------------------------------------------------------------------- repeated, regrouped, filled


@recipe("Tile")
def _tile(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    return Drawn([_any(d, shape), _int64(*(d.whole(1, 3) for _ in shape))])


@recipe("DepthToSpace", "SpaceToDepth")
def _depth(d: Draw) -> Drawn:
    attributes: dict[str, Any] = {"blocksize": 2}
    if d.operator == "DepthToSpace" and d.since >= 11 and d.often():
        attributes["mode"] = d.of("DCR", "CRD")
    return Drawn([d.array((1, 4 * d.whole(1, 2), 2 * d.whole(1, 3), 2), "float32")], attributes)


@recipe("ReverseSequence")
def _reverse_sequence(d: Draw) -> Drawn:
    shape, batch = d.shape(2, 4), d.whole(0, 1)
    if len(shape) < 2:
        return _reverse_sequence(d)
    lengths = d.random.integers(1, shape[1 - batch] + 1, shape[batch]).astype(np.int64)
    return Drawn([_any(d, shape), lengths], {"batch_axis": batch, "time_axis": 1 - batch})


@recipe("CenterCropPad")
def _center(d: Draw) -> Drawn:
    shape = d.shape(1, 3)
    axes = d.axes(len(shape))
    return Drawn([d.array(shape, "float32"), _int64(*(d.whole(1, 7) for _ in axes))], {"axes": axes})


@recipe("Dropout")
def _dropout(d: Draw) -> Drawn:
    x = d.array(d.shape(), d.dtype(*REALS))
    outputs = d.of(1, 2)
    if d.since < 12:
        return Drawn([x], {"ratio": 0.25} if d.often() else {}, outputs)
    ratio = Fixed(np.array(0.25, np.float32)) if d.often() else None
    return Drawn([x, ratio, Fixed(np.array(False))] if d.seldom() else [x, *([ratio] if ratio else [])], {}, outputs)


@recipe("Shape", "Size")
def _shape(d: Draw) -> Drawn:
    shape = d.shape(0, 4)
    attributes = {"start": d.whole(-2, 1), "end": d.whole(0, 3)} if d.since >= 15 and d.operator == "Shape" else {}
    return Drawn([_any(d, shape)], attributes)


@recipe("ConstantOfShape")
def _filled(d: Draw) -> Drawn:
    value = {"value": numpy_helper.from_array(d.array((1,), d.dtype(), False))} if d.often() else {}
    return Drawn([Fixed(np.array(d.shape(0, 3), np.int64))], value)


@recipe("EyeLike")
def _eye(d: Draw) -> Drawn:
    shape = (d.whole(1, 4), d.whole(1, 4))
    attributes = {"dtype": d.of(1, 7)} if d.often() else {}
    return Drawn([d.array(shape, d.dtype("float32", "int64"))], {**attributes, "k": d.whole(-2, 2)})


@recipe("Range")
def _range(d: Draw) -> Drawn:
    dtype = d.dtype("float32", "int64", "int32")
    return Drawn([Fixed(np.array(v, dtype)) for v in (d.whole(0, 3), d.whole(5, 9), d.whole(1, 3))])


# --------------------------------------------------------------------------- quantised


def _scale(d: Draw, shape: tuple[int, ...] = (), dtype: str = "float32") -> Fixed:
    return Fixed(np.asarray(d.random.uniform(0.01, 0.2, shape)).astype(dtype))


def _zero(d: Draw, dtype: str, shape: tuple[int, ...] = ()) -> Fixed:
    low, high = (100, 150) if dtype == "uint8" else (-20, 20)
    return Fixed(np.asarray(d.random.integers(low, high, shape)).astype(dtype))


@recipe("QuantizeLinear", "DequantizeLinear")
def _quantised(d: Draw) -> Drawn:
    dtype, shape = d.of("int8", "uint8"), d.shape(1, 3)
    kind = d.dtype("float32", "float32", "float16") if d.since >= 19 else "float32"
    x = d.array(shape, dtype if d.operator[0] == "D" else kind, d.operator[0] == "D")
    attributes: dict[str, Any] = {}
    sizes: tuple[int, ...] = ()
    if d.since >= 13 and d.often():
        attributes["axis"] = d.axis(len(shape))
        sizes = (shape[attributes["axis"]],)
        if d.since >= 21 and d.often():
            attributes["block_size"] = 2
            at = attributes["axis"] % len(shape)
            sizes = (*shape[:at], -(-shape[at] // 2), *shape[at + 1 :])
    return Drawn(
        [x, _scale(d, sizes, kind), *([_zero(d, dtype, sizes)] if d.often() or dtype == "int8" else [])], attributes
    )


@recipe("com.microsoft.DynamicQuantizeMatMul")
def _dynamic_matmul(d: Draw) -> Drawn:
    k, n = d.whole(1, 9), d.whole(1, 5)
    kind, wide = d.of("uint8", "int8"), d.of((1,), (n,))
    bias = [d.array((n,), "float32", False)] if d.often() else []
    operands = [d.array((d.whole(1, 5), k), "float32", False), Fixed(d.array((k, n), kind))]
    return Drawn([*operands, _scale(d, wide), _zero(d, kind, wide), *bias])


@recipe("DynamicQuantizeLinear")
def _dynamic(d: Draw) -> Drawn:
    return Drawn([d.array(d.shape(1, 3), "float32", False)], {}, 3)


@recipe("MatMulInteger", "QLinearMatMul", "com.microsoft.MatMulIntegerToFloat")
def _matmul_integer(d: Draw) -> Drawn:
    m, k, n = d.whole(1, 5), d.whole(1, 9), d.whole(1, 5)
    x, w = d.dtype("uint8", "int8"), d.dtype("int8", "uint8")
    lead = d.shape(0, 1)
    operands: list[Any] = [d.array((*lead, m, k), x), d.array((k, n), w)]
    if d.operator == "MatMulInteger":
        zeros = [_zero(d, x), _zero(d, w, d.of((), (n,)))]
        return Drawn([*operands, *zeros[: d.whole(0, 2)]])
    wide = d.of((), (n,))
    if d.operator == "QLinearMatMul":
        first, second = ([operands[0], _scale(d), _zero(d, x)], [operands[1], _scale(d, wide), _zero(d, w, wide)])
        return Drawn([*first, *second, Fixed(np.array(0.3, np.float32)), _zero(d, x)])
    bias = [d.array((n,), "float32", False)] if d.often() else []
    return Drawn([*operands, _scale(d), _scale(d, wide), _zero(d, x), _zero(d, w), *bias])


@recipe("ConvInteger", "QLinearConv")
def _conv_integer(d: Draw) -> Drawn:
    channels, features, dtype = d.whole(1, 3), d.whole(1, 3), d.of("uint8", "int8")
    kind = d.of("int8", "uint8")
    x, w = d.array((1, channels, 5, 6), dtype), d.array((features, channels, 3, 2), kind)
    attributes: dict[str, Any] = {"pads": [d.whole(0, 1) for _ in range(4)]} if d.often() else {}
    if d.seldom():
        attributes["strides"] = [2, 1]
    if d.operator == "ConvInteger":
        return Drawn([x, w, *[_zero(d, dtype), _zero(d, kind)][: d.whole(0, 2)]], attributes)
    wide = d.of((), (features,))
    bias = [Fixed(d.array((features,), "int32", False))] if d.often() else []
    zero = Fixed(np.zeros(wide, kind)) if kind == "int8" else Fixed(np.full(wide, 128, kind))
    inputs = [
        x,
        _scale(d),
        _zero(d, dtype),
        Fixed(w),
        _scale(d, wide),
        zero,
        Fixed(np.array(0.5, np.float32)),
        _zero(d, dtype),
    ]
    return Drawn([*inputs, *bias], attributes)


@recipe("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def _qlinear_binary(d: Draw) -> Drawn:
    dtype, shape = d.of("uint8", "int8"), d.shape(1, 3)
    x, y = d.array(shape, dtype), d.array(d.broadcast(shape), dtype)
    return Drawn(
        [
            x,
            _scale(d),
            _zero(d, dtype),
            y,
            _scale(d),
            _zero(d, dtype),
            Fixed(np.array(0.2, np.float32)),
            _zero(d, dtype),
        ]
    )


# --------------------------------------------------------------------------- norms, sums of products


@recipe("LRN")
def _lrn(d: Draw) -> Drawn:
    x = d.array((d.whole(1, 2), d.whole(1, 6), *d.shape(1, 2)), "float32", False)
    return Drawn(
        [x], {"size": d.of(1, 3, 5), "alpha": d.of(0.1, 1e-4), "bias": d.of(1.0, 2.0), "beta": d.of(0.5, 0.75)}
    )


@recipe("LpNormalization", "GlobalLpPool", "MeanVarianceNormalization", "Mean", "Hardmax")
def _rows(d: Draw) -> Drawn:
    shape = tuple(d.whole(2, 5) for _ in range(4))
    dtype = d.dtype("float32", "float32", "float64", "float16")
    attributes: dict[str, Any] = {"p": d.of(1, 2)} if d.operator[-4:] == "Pool" or "Lp" in d.operator else {}
    if d.operator in ("LpNormalization", "Hardmax") and d.often():
        attributes["axis"] = d.axis(4, d.operator != "Hardmax" or d.since >= 11)
    if d.operator == "MeanVarianceNormalization" and d.often():
        attributes["axes"] = d.axes(4, d.since >= 13)
    return Drawn(
        [d.array(shape, dtype, False) for _ in range(d.whole(1, 3) if d.operator == "Mean" else 1)], attributes
    )


@recipe("GroupNormalization")
def _groups(d: Draw) -> Drawn:
    groups, each = d.whole(1, 3), d.whole(1, 3)
    of = (groups,) if d.since < 21 else (groups * each,)
    x = d.array((2, groups * each, d.whole(2, 4), d.whole(1, 4)), "float32", False)
    weights = [d.array(of, "float32", False) for _ in range(2)]
    return Drawn([x, *weights], {"num_groups": groups, **({"epsilon": 0.01} if d.often() else {})})


@recipe("Einsum")
def _einsum(d: Draw) -> Drawn:
    equation, shapes = d.of(
        ("ij,jk->ik", [(3, 4), (4, 5)]), ("bij,bjk", [(2, 3, 4), (2, 4, 5)]), ("ii->i", [(4, 4)]), ("ii", [(3, 3)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]), ("...i,...i", [(2, 3, 4), (1, 4)]), ("ij->ji", [(2, 5)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("i,j->ij", [(3,), (4,)]), ("b...->...", [(2, 3, 4)]),
    )  # fmt: skip
    dtype = d.of("float32", "float64")
    return Drawn([d.array(s, dtype, False) for s in shapes], {"equation": equation})


# --------------------------------------------------------------------------- onnxruntime's own


def _reals(d: Draw, *shape: int) -> Any:
    return (0.5 * d.array(shape, "float32", False)).astype(np.float32)


@recipe("com.microsoft.FusedMatMul")
def _fused_matmul(d: Draw) -> Drawn:
    m, k, n = d.whole(1, 5), d.whole(1, 5), d.whole(1, 5)
    attributes: dict[str, Any] = {name: d.whole(0, 1) for name in ("transA", "transB")}
    x = _reals(d, 2, *((k, m) if attributes["transA"] else (m, k)))
    y = _reals(d, *((n, k) if attributes["transB"] else (k, n)))
    return Drawn([x, y], attributes | ({"alpha": 0.25} if d.often() else {}))


@recipe("com.microsoft.FusedConv", "com.microsoft.FusedGemm")
def _fused_product(d: Draw) -> Drawn:
    kind, numbers = d.of(("Relu", []), ("LeakyRelu", [0.2]), ("Tanh", []), ("Sigmoid", []), ("Clip", [-0.5, 0.5]))
    if d.operator.endswith("Conv"):
        added = [_reals(d, 3), _reals(d, 1, 3, 4, 4)][: d.whole(0, 2)]
        more = {"activation_params": numbers} if numbers else {}
        return Drawn([_reals(d, 1, 2, 6, 6), _reals(d, 3, 2, 3, 3), *added], {"activation": kind, **more})
    kind, more = d.of(("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}))
    return Drawn([_reals(d, 3, 4), _reals(d, 5, 4), _reals(d, 5)], {"transB": 1, "activation": kind, **more})


@recipe("com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.BiasGelu", "com.microsoft.QuickGelu")
def _gelus(d: Draw) -> Drawn:
    bias = [_reals(d, 5)] if d.operator.endswith("BiasGelu") or (d.operator.endswith("FastGelu") and d.often()) else []
    attributes = {"alpha": 1.5} if d.operator.endswith("QuickGelu") and d.often() else {}
    return Drawn([_reals(d, 2, 3, 5), *bias], attributes)


@recipe(
    "com.microsoft.SkipLayerNormalization",
    "com.microsoft.SkipSimplifiedLayerNormalization",
    ".SimplifiedLayerNormalization",
)
def _skip(d: Draw) -> Drawn:
    x, weight, rest = _reals(d, 2, 3, 8), _reals(d, 8), [_reals(d, 8), _reals(d, 8)]
    epsilon = {"epsilon": d.of(1e-5, 0.01)}
    if d.operator == ".SimplifiedLayerNormalization":
        return Drawn([x, weight], {"axis": -1, **epsilon})
    skip = _reals(d, *d.of((2, 3, 8), (1, 3, 8), (3, 8)))
    return Drawn([x, skip, weight, *rest[: d.whole(0, 1 if "Simplified" in d.operator else 2)]], epsilon)


@recipe("com.microsoft.EmbedLayerNormalization")
def _embed(d: Draw) -> Drawn:
    words = d.random.integers(0, 7, (2, 4)).astype(np.int32)
    segments = d.random.integers(0, 2, (2, 4)).astype(np.int32) if d.often() else None
    tables = [_reals(d, 7, 8), _reals(d, 5, 8), None if segments is None else _reals(d, 2, 8)]
    mask = [(d.random.random((2, 4)) < 0.7).astype(np.int32)] if d.often() else []
    return Drawn(
        [words, segments, *(None if t is None else Fixed(t) for t in tables), _reals(d, 8), _reals(d, 8), *mask],
        {"epsilon": 1e-5},
        2,
    )


def _key_mask(d: Draw, keys: int) -> Any:
    if d.often():
        return (d.random.random((2, keys)) < 0.7).astype(np.int32)
    return d.random.integers(1, keys + 1, (2,)).astype(np.int32)


@recipe("com.microsoft.Attention")
def _attention(d: Draw) -> Drawn:
    inputs: list[Any] = [_reals(d, 2, 4, 8), _reals(d, 8, 24), _reals(d, 24)]
    attributes: dict[str, Any] = {"num_heads": 2}
    if d.often():
        inputs.append(_key_mask(d, 4))
    elif d.often():
        attributes["unidirectional"] = 1
    if d.seldom():
        attributes["scale"] = 0.3
    return Drawn(inputs, attributes)


@recipe("com.microsoft.MultiHeadAttention")
def _multi(d: Draw) -> Drawn:
    inputs: list[Any] = [_reals(d, 2, 3, 8), _reals(d, 2, 5, 8), _reals(d, 2, 5, 8)]
    inputs += [_reals(d, 24) if d.often() else None, _key_mask(d, 5) if d.often() else None]
    if d.seldom():
        inputs.append(_reals(d, d.of(1, 2), 2, 3, 5))
    return Drawn(inputs, {"num_heads": 2, **({"scale": 0.3} if d.seldom() else {})})


@recipe("com.microsoft.GroupQueryAttention")
def _grouped_query(d: Draw) -> Drawn:
    s, size = d.whole(2, 5), 16
    inputs: list[Any] = [_reals(d, 1, s, 4 * size), _reals(d, 1, s, 2 * size), _reals(d, 1, s, 2 * size), None, None]
    inputs += [Fixed(np.full(1, s - 1, np.int32)), Fixed(np.array(s, np.int32))]
    attributes: dict[str, Any] = {"num_heads": 4, "kv_num_heads": 2}
    if d.often():
        attributes |= {"do_rotary": 1, "rotary_interleaved": d.whole(0, 1)}
        inputs += [_reals(d, 9, size // 2), _reals(d, 9, size // 2)]
    return Drawn(inputs, attributes, 3)


@recipe("RotaryEmbedding", "com.microsoft.RotaryEmbedding")
def _rotary(d: Draw) -> Drawn:
    width = d.of(8, 4)
    shape = d.of((2, 3, 4, 8), (2, 4, 24)) if d.operator == "RotaryEmbedding" or width == 8 else (2, 3, 4, 8)
    attributes: dict[str, Any] = {"interleaved": d.whole(0, 1)}
    if width == 4:
        attributes |= {"rotary_embedding_dim": 4, "num_heads": 3}
    elif len(shape) == 3:
        attributes["num_heads"] = 3
    x, places = _reals(d, *shape), d.random.integers(0, 6, (2, 4)).astype(np.int64)
    tables = [_reals(d, 6, width // 2), _reals(d, 6, width // 2)]
    if d.operator == "RotaryEmbedding":
        if d.seldom():
            return Drawn([x, _reals(d, 2, 4, width // 2), _reals(d, 2, 4, width // 2)], attributes)
        return Drawn([x, *tables, places], attributes)
    return Drawn([x, Fixed(np.array([1], np.int64)) if d.seldom() else places, *tables], attributes)
