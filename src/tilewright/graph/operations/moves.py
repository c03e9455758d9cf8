"""Operations that move elements and compute nothing: reshapes, permutations, slices, concatenations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.core import Extent, UsageError
from tilewright.extent import divides, larger, smaller, varies
from tilewright.graph.operations.handlers import Build, Call, Left, OnnxBuild, aten, aten_named, axes_of, joined, onnx
from tilewright.graph.operations.table import OPERATIONS, register, register_all
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import INDEX, const
from tilewright.kernels.nn.dims import broadcast, one_dim, several_dims, stretched

VIEWS = ("reshape",)
"""Operations that keep the elements' order, so that they need no kernel."""


def _reshape(input: te.TensorRef, shape: Sequence[int]) -> te.TensorRef:
    """Reshapes, with runs of axes of equal products matched, so that indices need the fewest divisions."""
    new, old = tuple(shape), input.shape
    if math.prod(new) != math.prod(old):
        raise UsageError(f"reshape: {old} does not become {new}", "Both shapes must have the same number of elements")
    pieces = _pieces(old, new)

    def point(*i: te.Expr) -> te.Expr:
        index: list[te.Expr] = [const(0, INDEX)] * len(old)
        for olds, news in pieces:
            flat: te.Expr | None = None
            for d in news:
                flat = i[d] if flat is None else flat * new[d] + i[d]
            if flat is None:
                continue
            inner = 1
            for d in reversed(olds):
                whole = flat if inner == 1 else flat // inner
                index[d] = whole if d == olds[0] else whole % old[d]
                inner *= old[d]
        return input[tuple(index)]

    return te.compute(new, point)


def _pieces(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes longer than 1 of both shapes with equal products, as short as possible."""
    a = [d for d, n in enumerate(old) if n != 1]
    b = [d for d, n in enumerate(new) if n != 1]
    out = []
    while a or b:
        olds, news = [a.pop(0)], [b.pop(0)]
        x, y = old[olds[0]], new[news[0]]
        while x != y:
            if a and (not b or _shorter(x, y)):
                olds.append(a.pop(0))
                x *= old[olds[-1]]
            else:
                news.append(b.pop(0))
                y *= new[news[-1]]
        out.append((olds, news))
    return out


def _shorter(x: int, y: int) -> bool:
    """Whether the run of ``x`` elements is extended next, rather than the run of ``y``."""
    return divides(x, y) if isinstance(x, Extent) or isinstance(y, Extent) else x < y


def _expand(input: te.TensorRef, shape: Sequence[int]) -> te.TensorRef:
    broadcast("expand", "input", input.shape, shape)
    return te.compute(tuple(shape), lambda *i: stretched(input, i))


def _slice(input: te.TensorRef, dim: int, start: int, end: int, step: int = 1) -> te.TensorRef:
    """Elements ``start``, ``start + step``, ... below ``end``, counted from 0, within the axis."""
    d = one_dim("slice", dim, len(input.shape))
    size = input.shape[d]
    end = smaller(end, size)
    if step < 1 or not 0 <= start < end:
        raise UsageError(
            f"slice: {start}:{end}:{step} selects nothing from an axis of {size}", "Select at least one element"
        )
    count = -(-(end - start) // step)
    shape = (*input.shape[:d], count, *input.shape[d + 1 :])
    return te.compute(shape, lambda *i: input[(*i[:d], i[d] * step + start, *i[d + 1 :])])


def _cat(*tensors: te.TensorRef, dim: int = 0) -> te.TensorRef:
    return nn.cat(tensors, dim)


def _flip(input: te.TensorRef, dims: Sequence[int]) -> te.TensorRef:
    flipped = set(several_dims("flip", tuple(dims), len(input.shape))) if dims else set()
    return te.compute(
        input.shape,
        lambda *i: input[tuple(input.shape[d] - 1 - x if d in flipped else x for d, x in enumerate(i))],
    )


def _roll(input: te.TensorRef, shifts: Sequence[int], dims: Sequence[int]) -> te.TensorRef:
    moved = dict.fromkeys(range(len(input.shape)), 0)
    for shift, dim in zip(shifts, dims, strict=True):
        moved[one_dim("roll", dim, len(input.shape))] += shift

    def point(*i: te.Expr) -> te.Expr:
        back = [-moved[d] % n for d, n in enumerate(input.shape)]
        return input[tuple((x + b) % n if b else x for x, b, n in zip(i, back, input.shape, strict=True))]

    return te.compute(input.shape, point)


def _triangle(name: str, keeps: Callable[[te.Expr, te.Expr], te.Expr]) -> Callable[..., te.TensorRef]:
    def apply(input: te.TensorRef, diagonal: int = 0) -> te.TensorRef:
        if len(input.shape) < 2:
            raise UsageError(f"{name}: input has shape {input.shape}", "It is a matrix, or several")
        zero = const(0, input.dtype) if input.dtype != "bool" else const(False, "bool")
        return te.compute(
            input.shape, lambda *i: te.select(keeps(i[-1] - i[-2], const(diagonal, INDEX)), input[i], zero)
        )

    return apply


def _pad_edge(input: te.TensorRef, pad: Sequence[int], mode: str) -> te.TensorRef:
    """Padding by elements of the input: ``mode`` ``reflect`` mirrors without the edge, ``replicate`` repeats it,
    ``circular`` wraps around.

    ``pad`` has the form that :func:`nn.pad` takes.
    """
    rank = len(input.shape)
    pairs = [(0, 0)] * (rank - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    for n, (before, after) in zip(input.shape, pairs, strict=True):
        most = {"reflect": n - 1, "circular": n}.get(mode, before + after)
        if max(before, after) > most or (min(before, after) < 0 and n + before + after < 1):
            raise UsageError(f"pad: {before} and {after} around {n} elements ({mode})", f"At most {most}")

    def at(x: te.Expr, n: int, before: int, after: int) -> te.Expr:
        if not before and not after:
            return x
        place = x - before
        if mode == "circular":
            return (place + n) % n
        if mode == "replicate":
            return te.minimum(te.maximum(place, 0), n - 1)
        low = te.maximum(place, 0 - place) if before > 0 else place
        return te.minimum(low, 2 * (n - 1) - low) if after > 0 else low

    shape = tuple(n + b + a for n, (b, a) in zip(input.shape, pairs, strict=True))
    return te.compute(
        shape, lambda *i: input[tuple(at(x, n, b, a) for x, n, (b, a) in zip(i, input.shape, pairs, strict=True))]
    )


def _diagonal(input: te.TensorRef, offset: int = 0, dim1: int = 0, dim2: int = 1) -> te.TensorRef:
    rank = len(input.shape)
    a, b = one_dim("diagonal", dim1, rank), one_dim("diagonal", dim2, rank)
    rows, columns = max(-offset, 0), max(offset, 0)
    length = min(input.shape[a] - rows, input.shape[b] - columns)
    rest = [d for d in range(rank) if d not in (a, b)]
    if length < 1:
        raise UsageError(f"diagonal: offset={offset} of {input.shape}", "Write an offset within the shape")

    def point(*i: te.Expr) -> te.Expr:
        at = dict(zip(rest, i[:-1], strict=True)) | {a: i[-1] + rows, b: i[-1] + columns}
        return input[tuple(at[d] for d in range(rank))]

    return te.compute((*(input.shape[d] for d in rest), length), point)


def _unfold(input: te.TensorRef, dimension: int, size: int, step: int) -> te.TensorRef:
    """Windows of ``size`` elements along an axis, ``step`` apart; the window becomes the last axis."""
    d = one_dim("unfold", dimension, len(input.shape))
    count = (input.shape[d] - size) // step + 1
    shape = (*input.shape[:d], count, *input.shape[d + 1 :], size)
    return te.compute(shape, lambda *i: input[(*i[:d], i[d] * step + i[-1], *i[d + 1 : -1])])


def _slice_scatter(
    input: te.TensorRef, src: te.TensorRef, dim: int, start: int, end: int, step: int = 1
) -> te.TensorRef:
    """``input`` with ``src`` in place of the elements that ``slice`` selects."""
    d = one_dim("slice_scatter", dim, len(input.shape))

    def point(*i: te.Expr) -> te.Expr:
        place = i[d] - start
        here = (place >= 0) & (i[d] < end)
        here = here if step == 1 else here & (place % step == 0)
        at = place if step == 1 else place // step
        return te.select(here, src[(*i[:d], at, *i[d + 1 :])], input[i])

    return te.compute(input.shape, point)


def _as_strided(
    input: te.TensorRef, size: Sequence[int], stride: Sequence[int], storage_offset: int = 0
) -> te.TensorRef:
    """Elements of a row-major tensor by their offsets in memory: ``storage_offset + i*stride[0] + ...``."""
    last = storage_offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if min(storage_offset, last) < 0 or max(storage_offset, last) >= math.prod(input.shape):
        raise UsageError(f"as_strided: element {last} of {math.prod(input.shape)}", "Stay within the tensor")

    def point(*i: te.Expr) -> te.Expr:
        flat: te.Expr = const(storage_offset, INDEX)
        for x, s in zip(i, stride, strict=True):
            flat = flat + x * s
        inner = [math.prod(input.shape[d + 1 :]) for d in range(len(input.shape))]
        return input[tuple(flat // n if d == 0 else flat // n % input.shape[d] for d, n in enumerate(inner))]

    return te.compute(tuple(size), point)


for _name, _state in (
    ("flip", _flip), ("as_strided", _as_strided), ("diagonal", _diagonal), ("unfold", _unfold),
    ("tril", _triangle("tril", lambda x, d: x <= d)), ("triu", _triangle("triu", lambda x, d: x >= d)),
):  # fmt: skip
    aten_named(register(_name, "move", _state), _name)

register_all(
    "move", reshape=_reshape, permute=nn.permute, expand=_expand, slice=_slice, cat=_cat, pad=nn.pad,
    pad_edge=_pad_edge, roll=_roll, slice_scatter=_slice_scatter,
)  # fmt: skip
aten_named(OPERATIONS["pad"], "constant_pad_nd")


# --------------------------------------------------------------------------- ATen


@aten(
    "view", "_unsafe_view", "reshape", "unsqueeze", "squeeze.dim", "squeeze.dims", "squeeze", "_reshape_copy", "alias"
)
def _viewed(build: Build, call: Call) -> None:
    build.reshaped(call.operand("input"), call.spec.shape, call.output)


@aten("clone", "contiguous", "lift_fresh_copy", "detach")
def _copied(build: Build, call: Call) -> None:
    """An unchanged value; the importer decides its memory layout."""
    build.same(call.operand("input"), call.output)


@aten("expand")
def _expanded(build: Build, call: Call) -> None:
    build.add("expand", [call.operand("input")], call.output, shape=call.spec.shape)


@aten("t", "transpose.int")
def _transposed(build: Build, call: Call) -> None:
    rank = len(build.shape(call.operand("input")))
    dims = list(range(rank))
    if rank > 1:
        first, second = (0, 1) if "dim0" not in call.arguments else (call["dim0"] % rank, call["dim1"] % rank)
        dims[first], dims[second] = dims[second], dims[first]
    build.add("permute", [call.operand("input")], call.output, dims=tuple(dims))


@aten("permute")
def _permuted(build: Build, call: Call) -> None:
    rank = len(call.spec.shape)
    build.add("permute", [call.operand("input")], call.output, dims=tuple(d % rank for d in call["dims"]))


@aten("cat", "concat", "concatenate")
def _joined(build: Build, call: Call) -> None:
    """A concatenation; empty tensors are left out."""
    tensors, dtype = [str(t) for t in call["tensors"]], call.spec.dtype
    if len(tensors) > 1:
        tensors = [t if build.spec(t).dtype == dtype else build.add("to", [t], dtype=dtype) for t in tensors]
    joined(build, tensors, call["dim"], call.output)


@aten("stack")
def _stacked(build: Build, call: Call) -> None:
    tensors = [str(t) for t in call["tensors"]]
    rank = len(call.spec.shape)
    dim = call["dim"] % rank
    shape = build.shape(tensors[0])
    joined(build, [build.reshaped(t, (*shape[:dim], 1, *shape[dim:])) for t in tensors], dim, call.output)


def _along(build: Build, call: Call) -> tuple[str, int, int]:
    """A call's input, its axis ``dim`` counted from 0, and that axis' size."""
    x = call.operand("input")
    dim = call["dim"] % len(build.shape(x))
    return x, dim, build.shape(x)[dim]


def _part(build: Build, x: str, dim: int, start: int, end: int, step: int = 1, output: str | None = None) -> str:
    """A slice of an axis; the value itself where the slice covers the axis."""
    if (start, smaller(end, build.shape(x)[dim]), step) == (0, build.shape(x)[dim], 1):
        return x if output is None else build.same(x, output)
    return build.add("slice", [x], output, dim=dim, start=start, end=end, step=step)


@aten("slice.Tensor", "narrow")
def _sliced(build: Build, call: Call) -> None:
    x, dim, size = _along(build, call)
    if "length" in call.arguments:
        start, end, step = call["start"], call["start"] + call["length"], 1
    else:
        start, end, step = slice(call["start"], call["end"], call["step"]).indices(size)
    _part(build, x, dim, start, end, step, call.output)


@aten("select.int")
def _selected(build: Build, call: Call) -> None:
    x, dim, size = _along(build, call)
    at = call["index"] % size
    build.reshaped(_part(build, x, dim, at, at + 1), call.spec.shape, call.output)


@aten("split.Tensor", "split_with_sizes", "unbind.int", "chunk", "split.sizes")
def _parted(build: Build, call: Call) -> None:
    """A part of a split axis."""
    x, dim, size = _along(build, call)
    sizes = next((call[n] for n in ("split_sizes", "split_size") if n in call.arguments), 1)
    if "chunks" in call.arguments:
        sizes = -(-size // call["chunks"])
    if varies(size, sizes):
        raise Left("how long its parts are depends on the size")
    if isinstance(sizes, int):
        sizes = [min(sizes, size - k) for k in range(0, size, sizes)]
    start = sum(sizes[: call.result])
    if call.operator == "unbind":
        build.reshaped(_part(build, x, dim, start, start + 1), call.spec.shape, call.output)
    else:
        _part(build, x, dim, start, start + sizes[call.result], 1, call.output)


@aten(*(f"{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)))
def _padded_edges(build: Build, call: Call) -> None:
    mode = "reflect" if call.operator.startswith("reflection") else "replicate"
    build.add("pad_edge", [call.operand("input")], call.output, pad=tuple(call["padding"]), mode=mode)


@aten("select_scatter")
def _select_scattered(build: Build, call: Call) -> None:
    x, dim, size = _along(build, call)
    at, shape = call["index"] % size, build.shape(x)
    row = build.reshaped(call.operand("src"), (*shape[:dim], 1, *shape[dim + 1 :]))
    build.add("slice_scatter", [x, row], call.output, dim=dim, start=at, end=at + 1)


@aten("slice_scatter")
def _slice_scattered(build: Build, call: Call) -> None:
    x, dim, size = _along(build, call)
    start, end, step = slice(call["start"], call["end"], call["step"]).indices(size)
    build.add("slice_scatter", [x, call.operand("src")], call.output, dim=dim, start=start, end=end, step=step)


@aten("roll")
def _rolled(build: Build, call: Call) -> None:
    """``roll``; without axes the flattened tensor is rolled."""
    x = call.operand("input")
    if call["dims"]:
        build.add("roll", [x], call.output, shifts=tuple(call["shifts"]), dims=tuple(call["dims"]))
        return
    row = build.reshaped(x, (math.prod(call.spec.shape),))
    moved = build.add("roll", [row], shifts=tuple(call["shifts"]), dims=(0,))
    build.reshaped(moved, call.spec.shape, call.output)


# --------------------------------------------------------------------------- ONNX


@onnx("Reshape")
def _onnx_reshape(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    old = build.shape(node.input[0])
    wanted = list(build.numbers(node.input[1]))
    if not a.get("allowzero"):
        wanted = [old[d] if n == 0 else n for d, n in enumerate(wanted)]
    if -1 in wanted:
        place = wanted.index(-1)
        wanted[place] = math.prod(old) // math.prod(n for n in wanted if n != -1)
    build.reshaped(node.input[0], wanted, node.output[0])


@onnx("Flatten")
def _onnx_flatten(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    old = build.shape(node.input[0])
    axis = a.get("axis", 1)
    axis = axis + len(old) if axis < 0 else axis
    build.reshaped(node.input[0], (math.prod(old[:axis]), math.prod(old[axis:])), node.output[0])


@onnx("Squeeze", "Unsqueeze")
def _onnx_squeeze(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    old = build.shape(node.input[0])
    axes = axes_of(build, node, a)
    if node.op_type == "Squeeze":
        # Sizes that may be 1 never decide whether an axis is squeezed.
        gone = {d % len(old) for d in axes} if axes is not None else {d for d, n in enumerate(old) if n <= 1}
        shape = tuple(n for d, n in enumerate(old) if d not in gone)
    else:
        rank = len(old) + len(axes or ())
        ones = {d % rank for d in axes or ()}
        rest = iter(old)
        shape = tuple(1 if d in ones else next(rest) for d in range(rank))
    build.reshaped(node.input[0], shape, node.output[0])


@onnx("Transpose")
def _onnx_transpose(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    rank = len(build.shape(node.input[0]))
    build.add("permute", node.input, node.output[0], dims=tuple(a.get("perm", range(rank)[::-1])))


@onnx("Concat")
def _onnx_concat(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    joined(build, node.input, a["axis"], node.output[0])


@onnx("Split")
def _onnx_split(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x = node.input[0]
    axis = a.get("axis", 0) % len(build.shape(x))
    size = build.shape(x)[axis]
    if "split" in a:  # before operator set 13
        parts = tuple(a["split"])
    elif len(node.input) > 1 and node.input[1]:
        parts = build.numbers(node.input[1])
    else:
        each = -(-size // len(node.output))
        parts = tuple(smaller(each, size - k * each) for k in range(len(node.output)))
    start = 0
    for part, output in zip(parts, node.output, strict=True):
        if output:
            build.add("slice", [x], output, dim=axis, start=start, end=start + part)
        start += part


def part_of(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """Begin and stop of a slice of an axis; negative positions count from its end, and both are clamped to it."""
    if not varies((start, end, size)):
        begin, stop, _ = slice(start, end, step).indices(size)
        return begin, stop
    low, high = (0, size) if step > 0 else (-1, size - 1)
    begin, stop = (larger(low, smaller(high, n + size if n < 0 else n)) for n in (start, end))
    return begin, stop


@onnx("Slice")
def _onnx_slice(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x = node.input[0]
    shape = build.shape(x)
    if "starts" in a:  # before operator set 10
        starts, ends = tuple(a["starts"]), tuple(a["ends"])
        given = [a.get("axes"), None]
    else:
        starts, ends = build.numbers(node.input[1]), build.numbers(node.input[2])
        given = [build.numbers(n) if n else None for n in (*node.input[3:5], "", "")]
    axes, steps = given[0] or tuple(range(len(starts))), given[1] or (1,) * len(starts)
    taken, flipped = [], set()
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis %= len(shape)
        begin, stop = part_of(start, end, step, shape[axis])
        if step < 0:  # slice forwards, then flip
            count = max(0, -(-(begin - stop) // -step))
            begin, stop, step = begin + (count - 1) * step, begin + 1, -step
            flipped.add(axis)
        if (begin, stop, step) != (0, shape[axis], 1):
            taken.append((axis, begin, stop, step))
    for k, (axis, begin, stop, step) in enumerate(taken):
        output = node.output[0] if k == len(taken) - 1 and not flipped else None
        x = build.add("slice", [x], output, dim=axis, start=begin, end=stop, step=step)
    if flipped:
        build.add("flip", [x], node.output[0], dims=tuple(sorted(flipped)))
    elif not taken:
        build.same(x, node.output[0])


@onnx("Expand")
def _onnx_expand(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    own, wanted = build.shape(node.input[0]), build.numbers(node.input[1])
    rank = max(len(own), len(wanted))
    own, wanted = ((*(1,) * (rank - len(s)), *s) for s in (own, wanted))
    shape = tuple(a if b == 1 else b for a, b in zip(own, wanted, strict=True))
    build.add("expand", node.input[:1], node.output[0], shape=shape)


@onnx("Pad")
def _onnx_pad(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    stated = a.get("mode", "constant")
    pads = tuple(a["pads"]) if "pads" in a else build.numbers(node.input[1])  # an attribute before operator set 11
    rank = len(build.shape(node.input[0]))
    if len(node.input) > 3 and node.input[3]:
        axes = [d % rank for d in build.numbers(node.input[3])]
        both = {d: (pads[k], pads[len(axes) + k]) for k, d in enumerate(axes)}
        pads = tuple(both.get(d, (0, 0))[side] for side in (0, 1) for d in range(rank))
    flat = tuple(n for d in reversed(range(rank)) for n in (pads[d], pads[rank + d]))
    if stated != "constant":
        mode = {"edge": "replicate", "wrap": "circular"}.get(stated, stated)
        build.add("pad_edge", node.input[:1], node.output[0], pad=flat, mode=mode)
        return
    value = build.known(node.input[2]).item() if len(node.input) > 2 and node.input[2] else a.get("value", 0)
    build.add("pad", node.input[:1], node.output[0], pad=flat, value=value)


@onnx("Trilu")
def _onnx_trilu(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    diagonal = build.known(node.input[1]).item() if len(node.input) > 1 and node.input[1] else 0
    build.add("triu" if a.get("upper", 1) else "tril", node.input[:1], node.output[0], diagonal=diagonal)
