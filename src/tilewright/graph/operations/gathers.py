"""Gathers, which read at the positions in an index tensor, and scatters, which write there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import Build, Call, Left, OnnxBuild, aten, onnx
from tilewright.graph.operations.pointwise import broadcast_shape, element
from tilewright.graph.operations.table import register_all
from tilewright.kernels import nn, te
from tilewright.kernels.expression.expr import INDEX, INTEGERS, const
from tilewright.kernels.nn.dims import one_dim, value

Index = tuple[te.Expr, ...]


def _whole(op: str, *indices: te.TensorRef) -> None:
    for index in indices:
        if index.dtype not in INTEGERS:
            raise UsageError(f"{op}: index is {index.dtype}", "It holds whole numbers")


def _at(index: te.Expr, size: int, wrap: bool) -> te.Expr:
    """A position on an axis of ``size`` elements; ``wrap``: negative numbers count from the end."""
    at = te.cast(index, INDEX)
    if not wrap:
        return at
    return (at + size) % size if size != 1 else te.minimum(te.maximum(at, 0), 0)  # a program reads all inputs


# --------------------------------------------------------------------------- gathers


def _index_select(input: te.TensorRef, index: te.TensorRef, dim: int = 0, wrap: bool = False) -> te.TensorRef:
    """``input`` at the positions ``index`` along an axis. The axes of ``index``, of any rank, replace that axis."""
    _whole("index_select", index)
    d, rank = one_dim("index_select", dim, len(input.shape)), len(index.shape)
    shape = (*input.shape[:d], *index.shape, *input.shape[d + 1 :])

    def point(*i: te.Expr) -> te.Expr:
        return input[(*i[:d], _at(index[i[d : d + rank]], input.shape[d], wrap), *i[d + rank :])]

    return te.compute(shape, point)


def _gather(input: te.TensorRef, index: te.TensorRef, dim: int = 0, wrap: bool = False) -> te.TensorRef:
    """For each element of ``index``, the element of ``input`` at that position along ``dim``."""
    _whole("gather", index)
    d = one_dim("gather", dim, len(input.shape))
    return te.compute(
        index.shape, lambda *i: input[(*i[:d], _at(index[i], input.shape[d], wrap), *i[d + 1 :])]
    )  # fmt: skip


def _gather_nd(input: te.TensorRef, index: te.TensorRef, batch_dims: int = 0, wrap: bool = False) -> te.TensorRef:
    """``input`` at the coordinates in the last axis of ``index``, which address the axes after the first
    ``batch_dims``."""
    _whole("gather_nd", index)
    rank, chosen = len(index.shape) - 1, index.shape[-1]
    if batch_dims > rank or index.shape[:batch_dims] != input.shape[:batch_dims]:
        raise UsageError(
            f"gather_nd: {input.shape} has no {batch_dims} axes of {index.shape}", "The batch axes must agree"
        )
    if batch_dims + chosen > len(input.shape):
        raise UsageError(f"gather_nd: index names {chosen} axes of {input.shape}", "Name fewer axes")
    sizes = input.shape[batch_dims : batch_dims + chosen]

    def point(*i: te.Expr) -> te.Expr:
        places = [_at(index[(*i[:rank], const(k, INDEX))], n, wrap) for k, n in enumerate(sizes)]
        return input[(*i[:batch_dims], *places, *i[rank:])]

    return te.compute((*index.shape[:-1], *input.shape[batch_dims + chosen :]), point)


def _index(input: te.TensorRef, *indices: te.TensorRef, dims: Sequence[int]) -> te.TensorRef:
    """``input[...]`` with integer tensors, broadcast to one shape, as indices of the axes ``dims``.

    The broadcast axes stand in the place of ``dims`` if ``dims`` are consecutive, else in front, as in NumPy.
    """
    _whole("index", *indices)
    shape = broadcast_shape("index", [x.shape for x in indices])
    axes = list(dims)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    first, rank = axes[0] if together else 0, len(shape)
    others = [n for d, n in enumerate(input.shape) if d not in axes]

    def point(*i: te.Expr) -> te.Expr:
        chosen = i[first : first + rank]
        rest = iter((*i[:first], *i[first + rank :]))
        places = {
            d: _at(element(x, chosen, shape), input.shape[d], True) for d, x in zip(axes, indices, strict=True)
        }  # fmt: skip
        return input[tuple(places[d] if d in places else next(rest) for d in range(len(input.shape)))]

    return te.compute((*others[:first], *shape, *others[first:]), point)


# --------------------------------------------------------------------------- scatters

REDUCTIONS: dict[str, Callable[[te.Expr, te.Expr], te.Expr]] = {
    "sum": lambda x, y: x + y, "prod": lambda x, y: x * y, "max": te.maximum, "min": te.minimum,
}  # fmt: skip

Place = Callable[[Index, Index], Index]


def _scattered(
    input: te.TensorRef,
    dims: Sequence[int],
    sources: tuple[int, ...],
    place: Place,
    source: Callable[[Index, Index], te.Expr],
    reduce: str,
    fixed: bool,
) -> te.TensorRef:
    """``input`` with the element ``source(i, r)`` stored at ``place(i, r)`` along ``dims``, for index ``i`` and source
    index ``r``.

    ``reduce``: how sources are combined with the element in place; for ``""`` the last source replaces it. ``fixed``:
    whether places are independent of the index on the remaining axes.
    """
    if reduce:
        if reduce not in REDUCTIONS:
            raise UsageError(f"scatter: reduce cannot be {reduce!r}", f"Use {', '.join(REDUCTIONS)}")
        joined = te.compute(
            input.shape,
            lambda *i: te.scatter(
                reduce, [i[d] for d in dims], sources, lambda *r: (place(i, r), value(source(i, r)))
            ),
        )  # fmt: skip
        return te.compute(input.shape, lambda *i: REDUCTIONS[reduce](value(input[i]), joined[i]), dtype=input.dtype)
    axes = list(dims) if fixed else list(range(len(input.shape)))

    def number(r: Index) -> te.Expr:
        flat: te.Expr = const(0, INDEX)
        for x, n in zip(r, sources, strict=True):
            flat = flat * n + x
        return te.cast(flat, "int64")

    def landed(*i: te.Expr) -> te.Reduction:
        full = dict(zip(axes, i, strict=True))
        whole = tuple(full.get(d, const(0, INDEX)) for d in range(len(input.shape)))
        return te.scatter("max", [full[d] for d in dims], sources, lambda *r: (place(whole, r), number(r)))

    last = te.compute([input.shape[d] for d in axes], landed)

    def point(*i: te.Expr) -> te.Expr:
        found = last[tuple(i[d] for d in axes)]
        flat, r = te.cast(found, INDEX), []
        for k, n in enumerate(sources):
            inner = math.prod(sources[k + 1 :])
            r.append(flat // inner % n if k else flat // inner)
        return te.select(found >= 0, source(i, tuple(r)), input[i])

    return te.compute(input.shape, point, dtype=input.dtype)


def _scatter(
    input: te.TensorRef, index: te.TensorRef, src: te.TensorRef, dim: int = 0, reduce: str = "", wrap: bool = False
) -> te.TensorRef:
    """``input`` with each element of ``src`` at the position that ``index``, of at most its shape, gives along an
    axis."""
    _whole("scatter", index)
    d = one_dim("scatter", dim, len(input.shape))
    if len(index.shape) != len(input.shape) or any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
        raise UsageError(
            f"scatter: index {index.shape} of input {input.shape}, src {src.shape}", "Their axes must agree"
        )
    beside = [k for k, (n, m) in enumerate(zip(index.shape, input.shape, strict=True)) if k != d and n < m]

    def own(i: Index, r: te.Expr) -> Index:
        """The source index for ``i``, clamped to the last source on axes where ``index`` is shorter than ``input``."""
        return tuple(
            r if k == d else te.minimum(x, index.shape[k] - 1) if k in beside else x for k, x in enumerate(i)
        )  # fmt: skip

    made = _scattered(
        input, (d,), (index.shape[d],), lambda i, r: (_at(index[own(i, r[0])], input.shape[d], wrap),),
        lambda i, r: src[own(i, r[0])], reduce, False,
    )  # fmt: skip
    if not beside:
        return made

    def point(*i: te.Expr) -> te.Expr:
        inside = i[beside[0]] < index.shape[beside[0]]
        for k in beside[1:]:
            inside = inside & (i[k] < index.shape[k])
        return te.select(inside, made[i], input[i])

    return te.compute(input.shape, point)


def _scatter_nd(
    input: te.TensorRef, index: te.TensorRef, src: te.TensorRef, reduce: str = "", wrap: bool = False
) -> te.TensorRef:
    """``input`` with slices of ``src`` at the coordinates that the last axis of ``index`` gives for the first axes."""
    _whole("scatter_nd", index)
    count = index.shape[-1]
    if count > len(input.shape) or src.shape != (*index.shape[:-1], *input.shape[count:]):
        raise UsageError(
            f"scatter_nd: index {index.shape} of input {input.shape}, src {src.shape}", "Their axes must agree"
        )
    return _scattered(
        input, range(count), index.shape[:-1] or (1,),
        lambda i, r: tuple(
            _at(index[(*r[: len(index.shape) - 1], const(k, INDEX))], input.shape[k], wrap) for k in range(count)
        ),
        lambda i, r: src[(*r[: len(index.shape) - 1], *i[count:])], reduce, True,
    )  # fmt: skip


def _index_add(
    input: te.TensorRef, index: te.TensorRef, source: te.TensorRef, dim: int = 0, alpha: float = 1.0
) -> te.TensorRef:
    return nn.index_add(input, dim, index, source, alpha)


def _index_put(
    input: te.TensorRef, values: te.TensorRef, *indices: te.TensorRef, accumulate: bool = False
) -> te.TensorRef:
    """``input`` with ``values`` at the coordinates that integer tensors, broadcast to one shape, give for its first
    axes."""
    _whole("index_put", *indices)
    shape, count = broadcast_shape("index_put", [x.shape for x in indices]), len(indices)
    whole = (*shape, *input.shape[count:])
    broadcast_shape("index_put", [values.shape, whole])
    return _scattered(
        input, range(count), shape or (1,),
        lambda i, r: tuple(
            _at(element(x, r[: len(shape)], shape), input.shape[k], True) for k, x in enumerate(indices)
        ),
        lambda i, r: element(values, (*r[: len(shape)], *i[count:]), whole), "sum" if accumulate else "", True,
    )  # fmt: skip


def _one_hot(input: te.TensorRef, values: te.TensorRef, num_classes: int, dim: int = -1) -> te.TensorRef:
    """A one-hot encoding on a new axis: ``values[1]`` at the position ``input``, ``values[0]`` elsewhere."""
    d = one_dim("one_hot", dim, len(input.shape) + 1)
    kind = "int64" if input.dtype in INTEGERS else input.dtype

    def point(*i: te.Expr) -> te.Expr:
        x = te.cast(input[(*i[:d], *i[d + 1 :])], kind)
        here = te.cast(i[d], kind)
        return te.select((x == here) | (x == here - num_classes), values[1], values[0])

    return te.compute((*input.shape[:d], num_classes, *input.shape[d:]), point)


register_all(
    "gather", index_select=_index_select, gather=_gather, gather_nd=_gather_nd, index=_index, scatter=_scatter,
    scatter_nd=_scatter_nd, index_add=_index_add, index_put=_index_put, one_hot=_one_hot,
)  # fmt: skip


def _reducible(build: Build, name: str, reduce: str) -> None:
    """Raises ``Left`` for a reducing scatter of conditions."""
    if reduce and build.spec(name).dtype == "bool":
        raise Left("it combines conditions")


# --------------------------------------------------------------------------- ATen


@aten("index_select", "gather", "embedding")
def _aten_gather(build: Build, call: Call) -> None:
    if call.operator == "embedding":
        build.add("index_select", [call.operand("weight"), call.operand("indices")], call.output, dim=0)
        return
    build.add(call.operator, [call.operand("input"), call.operand("index")], call.output, dim=call["dim"])


def _indices(build: Build, given: Sequence[Union[str, None]]) -> dict[int, str]:
    """Index tensors by axis. Raises ``Left`` for an index tensor of conditions."""
    found = {d: str(x) for d, x in enumerate(given) if x is not None}
    if any(build.spec(x).dtype not in INTEGERS for x in found.values()):
        raise Left("how many elements conditions choose is known only when it runs")
    return found


@aten("index.Tensor", "_unsafe_index.Tensor")
def _aten_index(build: Build, call: Call) -> None:
    found = _indices(build, call["indices"])
    build.add("index", [call.operand("input"), *found.values()], call.output, dims=tuple(found))


@aten("index_put", "_unsafe_index_put")
def _aten_index_put(build: Build, call: Call) -> None:
    found = _indices(build, call["indices"])
    if list(found) != list(range(len(found))):
        raise Left("its indices are not those of the first axes")
    _reducible(build, call.operand("input"), "sum" if call["accumulate"] else "")
    operands = [call.operand("input"), call.operand("values"), *found.values()]
    build.add("index_put", operands, call.output, accumulate=call["accumulate"])


@aten("scatter.src", "scatter.value", "scatter_add", "scatter_reduce.two", "index_add")
def _aten_scatter(build: Build, call: Call) -> None:
    x, index = call.operand("input"), call.operand("index")
    reduce = str(call.arguments.get("reduce", "sum" if call.operator.endswith("_add") else ""))
    reduce = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if reduce and reduce not in REDUCTIONS:
        raise Left(f"it takes the {reduce}")
    _reducible(build, x, reduce)
    if not call.arguments.get("include_self", True):
        raise Left("it leaves out what is there")
    if call.operator == "index_add":
        build.add("index_add", [x, index, call.operand("source")], call.output, dim=call["dim"], alpha=call["alpha"])
        return
    if "src" in call.arguments:
        source = call.operand("src")
    else:
        filled = build.constant(np.full((1,) * len(build.shape(index)), call["value"], build.spec(x).dtype))
        source = build.add("expand", [filled], shape=build.shape(index))
    build.add("scatter", [x, index, source], call.output, dim=call["dim"], reduce=reduce)


# --------------------------------------------------------------------------- ONNX


def _places(build: OnnxBuild, index: str, sizes: Sequence[int]) -> tuple[str, bool]:
    """The index, and whether it may hold negative numbers; a constant index is converted to count from 0.

    ``sizes``: of the axis, or of the axes that the last axis of the index addresses.
    """
    if index not in build.constants:
        return index, True
    array = build.known(index)
    if array.size and array.min() < 0:
        return build.constant(np.where(array < 0, array + np.asarray(sizes, array.dtype), array)), False
    return index, False


@onnx("Gather")
def _onnx_gather(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    """A gather; a constant index of consecutive positions becomes a slice."""
    table, index = node.input
    shape = build.shape(table)
    axis = a.get("axis", 0) % len(shape)
    index, wrap = _places(build, index, (shape[axis],))
    flat = build.known(index).reshape(-1) if index in build.constants else np.zeros(0)
    if flat.size and (np.diff(flat) == 1).all():
        first = int(flat[0])
        rows = build.add("slice", [table], dim=axis, start=first, end=first + flat.size)
        out = (*shape[:axis], *build.shape(index), *shape[axis + 1 :])
        build.reshaped(rows, out, node.output[0])
        return
    build.add("index_select", [table, index], node.output[0], dim=axis, wrap=wrap)


@onnx("GatherElements")
def _onnx_gather_elements(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x, index = node.input
    axis = a.get("axis", 0) % len(build.shape(x))
    index, wrap = _places(build, index, (build.shape(x)[axis],))
    build.add("gather", [x, index], node.output[0], dim=axis, wrap=wrap)


@onnx("GatherND")
def _onnx_gather_nd(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x, index = node.input
    batch = a.get("batch_dims", 0)
    index, wrap = _places(build, index, build.shape(x)[batch : batch + build.shape(index)[-1]])
    build.add("gather_nd", [x, index], node.output[0], batch_dims=batch, wrap=wrap)


@onnx("Scatter", "ScatterElements", "ScatterND")
def _onnx_scatter(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    x, index, updates = node.input
    shape = build.shape(x)
    reduce = {"none": "", "add": "sum", "mul": "prod"}.get(*[a.get("reduction", "none")] * 2)
    _reducible(build, x, reduce)
    if node.op_type == "ScatterND":
        index, wrap = _places(build, index, shape[: build.shape(index)[-1]])
        build.add("scatter_nd", [x, index, updates], node.output[0], reduce=reduce, wrap=wrap)
        return
    axis = a.get("axis", 0) % len(shape)
    index, wrap = _places(build, index, (shape[axis],))
    build.add("scatter", [x, index, updates], node.output[0], dim=axis, reduce=reduce, wrap=wrap)


@onnx("OneHot")
def _onnx_one_hot(build: OnnxBuild, node: Any, a: dict[str, Any]) -> None:
    index, depth, values = node.input
    build.add(
        "one_hot", [index, values], node.output[0], num_classes=int(build.known(depth).item()), dim=a.get("axis", -1)
    )  # fmt: skip
