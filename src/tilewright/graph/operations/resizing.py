"""Resizing, whose source positions and weights importers compute, and sampling at positions that a tensor holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.extent import bounds, divides, varies
from tilewright.graph.operations.handlers import Array, Attributes, Build, Call, Left, OnnxBuild, aten, onnx
from tilewright.graph.operations.table import register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, INDEX, const
from tilewright.kernels.nn.dims import one_dim, value
from tilewright.kernels.nn.quantize import round_half_even

WRITTEN_OUT = 16
"""Most taps of an element, over all axes, that are written out in one sum; beyond, each axis is resampled by its own
reduction."""


def _resample(input: te.TensorRef, *tables: te.TensorRef, dims: Sequence[int]) -> te.TensorRef:
    """Weighted sums of ``input``'s elements along the axes ``dims``.

    ``tables``: for each of ``dims`` the source positions (size, taps) of an element's taps, and weights of equal shape.
    """
    axes = [one_dim("resample", d, len(input.shape)) for d in dims]
    if len(tables) != 2 * len(axes) or input.dtype not in FLOATS:
        raise UsageError(f"resample: {len(tables)} tables, {input.dtype}", "Give two an axis, and reals")
    places, weights = tables[::2], tables[1::2]
    taps = [p.shape[1] for p in places]
    sizes = {d: p.shape[0] for d, p in zip(axes, places, strict=True)}
    shape = [sizes.get(d, n) for d, n in enumerate(input.shape)]

    def term(i: tuple[te.Expr, ...], t: Sequence[te.Expr]) -> te.Expr:
        at, factor = list(i), None
        for d, place, weight, k in zip(axes, places, weights, t, strict=True):
            at[d] = place[i[d], k]
            w = value(weight[i[d], k])
            factor = w if factor is None else factor * w
        x = value(input[tuple(at)])
        return x if factor is None else x * te.cast(factor, x.dtype)

    def point(*i: te.Expr) -> te.Expr | te.Reduction:
        if len(axes) == 1 and taps[0] > WRITTEN_OUT:
            return te.sum(taps[0], lambda t: term(i, (t,)))
        total = None
        for t in itertools.product(*map(range, taps)):
            x = term(i, [const(k, INDEX) for k in t])
            total = x if total is None else total + x
        assert total is not None
        return total

    return te.compute(shape, point)


def _repeat_interleave(input: te.TensorRef, repeats: int, dim: int) -> te.TensorRef:
    """Each element along an axis, repeated ``repeats`` times."""
    d = one_dim("repeat_interleave", dim, len(input.shape))
    shape = (*input.shape[:d], input.shape[d] * repeats, *input.shape[d + 1 :])
    return te.compute(shape, lambda *i: input[(*i[:d], i[d] // repeats, *i[d + 1 :])])


register("resample", "gather", _resample)
register("repeat_interleave", "move", _repeat_interleave)


# --------------------------------------------------------------------------- positions and weights


@dataclass(frozen=True, eq=False)
class Axis:
    """How an axis is resized: source positions ``places`` (size, taps) within the axis, and weights.

    ``weights`` is ``None`` where each new element copies a source element. ``outside`` (size,): new elements outside of
    the source, or ``None``. ``repeats``: each source element is repeated this number of times, for any size; ``places``
    is then empty.
    """

    dim: int
    places: Array
    weights: Array | None
    outside: Array | None = None
    repeats: int = 0


def nearest(dim: int, at: Array, size: int) -> Axis:
    """Nearest-neighbour resizing of an axis of ``size``; ``at`` holds positions, which are clamped to the axis."""
    return Axis(dim, np.clip(at, 0, size - 1).astype(np.int64)[:, None], None)


def repeated(dim: int, at: Callable[[int], Array], count: int, size: int) -> Axis:
    """Nearest-neighbour resizing of an axis of symbolic size, as a repetition; ``at`` returns the positions for a
    count.

    Raises :class:`Left` where the positions do not repeat each element equally often.
    """
    if not divides(size, count):
        raise Left("which elements are nearest depends on the size")
    most, repeats = bounds(size)[1], count // size
    places = np.clip(at(most * repeats), 0, most - 1)
    if not np.array_equal(places, np.arange(most * repeats) // repeats):
        raise Left("which elements are nearest depends on the size")
    return Axis(dim, np.zeros((0, 1), np.int64), None, repeats=repeats)


def filtered(
    dim: int, at: Array, size: int, kernel: Callable[[Array], Array], reach: int, stretch: float = 1.0,
    excluded: bool = False,
) -> Axis:  # fmt: skip
    """Weighted means of the elements around the positions ``at``, by ``kernel`` of the distances.

    ``reach``: the kernel's radius in elements; ``stretch``: the factor that widens it. Positions beyond the axis are
    clamped, or ``excluded`` from the mean.
    """
    far = int(np.ceil(reach * stretch))
    places = np.floor(at).astype(np.int64)[:, None] + np.arange(1 - far, far + 1)
    weights = kernel(np.abs((at[:, None].astype(np.float64) - places) / stretch))
    if excluded:
        weights = np.where((places < 0) | (places >= size), 0.0, weights)
    if excluded or stretch != 1:
        weights = weights / weights.sum(1, keepdims=True)
    return Axis(dim, np.clip(places, 0, size - 1), weights.astype(at.dtype))


def triangle(x: Array) -> Array:
    """The kernel of linear interpolation, as a function of distances."""
    kernel: Array = np.clip(1.0 - x, 0.0, 1.0)
    return kernel


def cubic(a: float) -> Callable[[Array], Array]:
    """The kernel of cubic convolution, as a function of distances."""

    def kernel(x: Array) -> Array:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = a * (((x - 5) * x + 8) * x - 4)
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return kernel


def resized(build: Build, x: str, axes: Sequence[Axis], output: str) -> None:
    """Adds the operations that resize a value. Axes without weights become moves or gathers."""
    weighted = [r for r in axes if r.weights is not None]
    if weighted and build.spec(x).dtype not in FLOATS:
        raise Left(f"how means of {build.spec(x).dtype} are rounded is not settled")
    steps: list[tuple[str, list[str], dict[str, Any]]] = []
    for r in axes:
        if r.weights is None:
            steps += _taken(build, r, build.shape(x)[r.dim])
    tables = [(r.dim, [build.constant(r.places), build.constant(r.weights)]) for r in weighted if r.weights is not None]
    if np.prod([r.places.shape[1] for r in weighted]) <= WRITTEN_OUT and weighted:
        steps.append(("resample", [t for _, pair in tables for t in pair], {"dims": tuple(d for d, _ in tables)}))
    else:
        steps += [("resample", pair, {"dims": (d,)}) for d, pair in tables]
    for k, (operation, more, attributes) in enumerate(steps):
        x = build.add(operation, [x, *more], output if k == len(steps) - 1 else None, **attributes)
    if not steps:
        build.same(x, output)


def _taken(build: Build, r: Axis, size: int) -> list[tuple[str, list[str], dict[str, Any]]]:
    """The operation that selects the source elements of an axis; none where the axis stays as it is."""
    if r.repeats:
        return [("repeat_interleave", [], {"repeats": r.repeats, "dim": r.dim})]
    at = r.places[:, 0]
    count = len(at)
    if np.array_equal(at, np.arange(size)):
        return []
    if count % size == 0 and np.array_equal(at, np.arange(count) // (count // size)):
        return [("repeat_interleave", [], {"repeats": count // size, "dim": r.dim})]
    step = int(at[1] - at[0]) if count > 1 else 1
    if step > 0 and np.array_equal(at, at[0] + step * np.arange(count)):
        return [("slice", [], {"dim": r.dim, "start": int(at[0]), "end": int(at[-1]) + 1, "step": step})]
    return [("index_select", [build.constant(at)], {"dim": r.dim})]


# --------------------------------------------------------------------------- ATen


@aten(*(
    f"{name}{vec}"
    for name in (
        *(f"{kind}{rank}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3)),
        "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
        "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
    )
    for vec in ("", ".vec")
))  # fmt: skip
def _upsampled(build: Build, call: Call) -> None:
    """Resizing at positions computed as PyTorch does: in float64 for float64 means, in float32 otherwise."""
    x, name = call.operand("input"), call.operator
    shape, out = build.shape(x), call.spec.shape
    rank = len(shape) - 2
    factors = call.arguments.get("scale_factors") or [
        call.arguments.get(n) for n in (["scales"] if rank == 1 else ["scales_d", "scales_h", "scales_w"][3 - rank :])
    ]
    aligned = bool(call.arguments.get("align_corners", False))
    wide = build.spec(x).dtype == "float64" and "nearest" not in name
    single: Any = np.float64 if wide else np.float32
    axes = []
    for k, factor in enumerate(factors):
        d, size, count = k + 2, shape[k + 2], out[k + 2]
        if varies(size, count):
            axes.append(_repeated_by_pytorch(name, d, size, count, aligned, factor, single))
            continue
        i = np.arange(count, dtype=single)
        if aligned:
            step = single(size - 1) / single(count - 1) if count > 1 else single(0)
        else:
            step = single(1 / factor) if factor else single(size) / single(count)
        if "nearest" in name:
            axes.append(nearest(d, np.floor((i + single(0.5)) * step if "exact" in name else i * step), size))
            continue
        smoothed = name.endswith("_aa")  # antialiasing aligns corners by the step alone
        at = i * step if aligned and not smoothed else (i + single(0.5)) * step - single(0.5)
        if smoothed:
            kernel, reach = (cubic(-0.5), 2) if "cubic" in name else (triangle, 1)
            axes.append(filtered(d, at, size, kernel, reach, max(float(step), 1.0), excluded=True))
        elif "cubic" in name:
            axes.append(filtered(d, at, size, cubic(-0.75), 2))
        else:
            axes.append(filtered(d, np.maximum(at, single(0)), size, triangle, 1))
    resized(build, x, axes, call.output)


def _repeated_by_pytorch(
    name: str, d: int, size: int, count: int, aligned: bool, factor: float | None, single: Any
) -> Axis:  # fmt: skip
    """Resizing of an axis of symbolic size. Raises :class:`Left` where it is not a repetition."""
    if "nearest" not in name or aligned:
        raise Left("its weights depend on the size")
    shift = single(0.5 if "exact" in name else 0.0)
    step = single(1 / factor) if factor else single(1 / (count // size)) if divides(size, count) else single(1)
    return repeated(d, lambda n: np.floor((np.arange(n, dtype=single) + shift) * step), count, size)


# --------------------------------------------------------------------------- ONNX

ROUNDED: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
}


def _nearest_of(rounded: Callable[[Array], Array], mode: str, scale: Any, count: int) -> Array:
    return rounded(_positions(mode, count, 0, scale, (0.0, 1.0)))


def _positions(mode: str, count: int, size: int, scale: Any, roi: Sequence[float]) -> Any:
    """Positions in an axis of ``size`` of a resized axis' ``count`` elements, in float32 as in onnxruntime."""
    single = np.float32
    i = np.arange(count, dtype=single)
    half: Array = (i + single(0.5)) / scale - single(0.5)
    if mode == "asymmetric":
        return i / scale
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and count > 1):
        return half
    if mode == "half_pixel_symmetric":
        return single(size / 2) * (1 - single(count) / (single(scale) * single(size))) + half
    if mode == "align_corners":
        return i * single(size - 1) / single(count - 1) if count > 1 else 0 * i
    if mode == "tf_half_pixel_for_nn":
        return (i + single(0.5)) / scale
    if mode == "tf_crop_and_resize":
        start, end = map(single, roi)
        if count == 1:
            return 0 * i + single(0.5) * (start + end) * single(size - 1)
        return start * single(size - 1) + i * (end - start) * single(size - 1) / single(count - 1)
    return 0 * i  # pytorch_half_pixel


def _scales(build: OnnxBuild, node: Any, a: Attributes, axes: Sequence[int]) -> tuple[list[Any], list[int]]:
    """Scale and new size of each axis."""
    shape = [build.shape(node.input[0])[d] for d in axes]
    if "scales" in a:  # Upsample before operator set 9
        given, sizes = np.array(a["scales"], np.float32), ""
    else:
        names = [*node.input, "", "", ""]
        scale, sizes = (names[1], "") if node.op_type == "Upsample" or build.opset < 11 else (names[2], names[3])
        given = build.known(scale) if scale and (not sizes or 0 not in build.shape(scale)) else np.zeros(0, np.float32)
    if given.size:
        return list(given), [_scaled(s, n) for s, n in zip(given, shape, strict=True)]
    wanted = list(build.numbers(sizes))
    factors = [_factor(m, n) for m, n in zip(wanted, shape, strict=True)]
    policy = a.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        one = min(factors) if policy == "not_larger" else max(factors)
        factors = [one] * len(factors)
        wanted = [int(np.floor(one * np.float32(n) + np.float32(0.5))) for n in shape]
    return factors, wanted


def _scaled(scale: Any, size: int) -> int:
    """The new size of an axis."""
    if not varies(size):
        return int(scale * np.float32(size))
    if not float(scale).is_integer():
        raise Left("which elements are nearest depends on the size")
    return size * int(scale)


def _factor(count: int, size: int) -> Any:
    """The scale of an axis."""
    if not varies(count, size):
        return np.float32(count) / np.float32(size)
    if not divides(size, count):
        raise Left("which elements are nearest depends on the size")
    return np.float32(count // size)


@onnx("Resize", "Upsample")
def _onnx_resize(build: OnnxBuild, node: Any, a: Attributes) -> None:
    """Resizing.

    Before operator set 11 positions are quotients, and the nearest element is rounded down, or up where the axis
    shrinks.
    """
    x = node.input[0]
    shape = build.shape(x)
    dims = [d % len(shape) for d in a.get("axes", range(len(shape)))]
    old = node.op_type == "Upsample" or build.opset < 11
    mode = a.get("mode", "nearest")
    placed = a.get("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    crops = placed == "tf_crop_and_resize"
    roi = build.known(node.input[1]).reshape(2, -1).T.tolist() if crops else [(0.0, 1.0)] * len(dims)
    axes, outside = [], []
    for d, scale, count, part in zip(dims, *_scales(build, node, a, dims), roi, strict=True):
        size = shape[d]
        how = ("ceil" if scale < 1 else "floor") if old else a.get("nearest_mode", "round_prefer_floor")
        if varies(size):
            if not (scale == 1 and count == size):
                if mode != "nearest" or placed not in ("asymmetric", "half_pixel") or crops:
                    raise Left("its weights depend on the size")
                at_of = partial(_nearest_of, ROUNDED[how], placed, scale)
                axes.append(repeated(d, at_of, count, size))
            continue
        if placed == "align_corners" and float(scale) * size % 1 and count > 1:
            raise Left("the standard and onnxruntime place corners of broken sizes differently")
        if crops and scale == 1 and tuple(part) != (0, 1):
            raise Left("of an axis that keeps its size, onnxruntime takes all where the standard crops")
        at = _positions(placed, count, size, scale, part)
        if crops:
            outside.append((d, (at < 0) | (at > size - 1)))
        elif scale == 1 and count == size:
            continue
        if mode == "nearest":
            axes.append(nearest(d, ROUNDED[how](at), size))
            continue
        kernel, reach = (triangle, 1) if mode == "linear" else (cubic(a.get("cubic_coeff_a", -0.75)), 2)
        stretch = max(1.0, 1 / float(scale)) if a.get("antialias") else 1.0
        axes.append(filtered(d, at, size, kernel, reach, stretch, bool(a.get("exclude_outside"))))
    missing = [(d, o) for d, o in outside if o.any()]
    if not missing:
        resized(build, x, axes, node.output[0])
        return
    mask: Array = np.zeros((1,) * len(shape), bool)
    for d, o in missing:
        mask = mask | o.reshape([-1 if k == d else 1 for k in range(len(shape))])
    made = f"{node.output[0]}/resized"
    resized(build, x, axes, made)
    beyond = build.constant(np.asarray(a.get("extrapolation_value", 0.0), build.spec(x).dtype))
    build.add("where", [build.constant(mask), beyond, made], node.output[0])


# --------------------------------------------------------------------------- grid sampling


MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
FAR = 2.0**30
"""Largest magnitude of a position that fits int32; positions beyond it, and NaN, become -2**30."""


def _grid_sample(
    input: te.TensorRef,
    grid: te.TensorRef,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> te.TensorRef:
    """Samples ``input`` (b, c, [d,] h, w) at ``grid`` (b, ..., 2 or 3): positions from -1 to 1, last axis first.

    A NaN position counts as far outside; where padding leaves no position outside, it counts as the first.
    """
    rank = len(input.shape) - 2
    if grid.shape[0] != input.shape[0] or len(grid.shape) != rank + 2 or grid.shape[-1] != rank:
        raise UsageError(f"grid_sample: grid {grid.shape} of {input.shape}", f"It is (b, ..., {rank})")
    if mode not in MODES or padding_mode not in PADDINGS or input.dtype not in FLOATS or grid.dtype != input.dtype:
        raise UsageError(f"grid_sample: {mode}, {padding_mode} of {input.dtype}", "See PyTorch's grid_sample")
    if mode == "bicubic" and (rank != 2 or padding_mode != "zeros"):
        raise UsageError(f"grid_sample: bicubic over {rank} axes with {padding_mode}", "It is for two, with zeros")
    space, out = input.shape[2:], grid.shape[1:-1]

    def within(x: te.Expr, size: int) -> te.Expr:
        """Maps a position into the axis as ``padding_mode`` says."""
        last = float(size - 1)
        if padding_mode == "reflection":
            low, span = (0.0, last) if align_corners else (-0.5, float(size))
            if span == 0:
                return x * 0.0
            away = te.abs(x - low)
            rounds = te.floor(away / span)
            rest = away - rounds * span
            odd = rounds - 2.0 * te.floor(rounds * 0.5)
            x = te.select(odd > 0.5, span - rest, rest) + low
        return x if padding_mode == "zeros" else te.select(x > 0.0, te.minimum(x, last), 0.0)

    def position(axis: int) -> te.TensorRef:
        size = space[axis]

        def at(b: te.Expr, *p: te.Expr) -> te.Expr:
            x = value(grid[(b, *p, te.cast(rank - 1 - axis, INDEX))])
            x = (x + 1.0) * ((size - 1) / 2) if align_corners else ((x + 1.0) * float(size) - 1.0) * 0.5
            x = within(x, size)
            near = round_half_even(x) if mode == "nearest" else x
            return te.select((near > -FAR) & (near < FAR), near, -FAR)

        return te.compute((input.shape[0], *out), at)

    positions = [position(d) for d in range(rank)]
    wholes = [
        te.compute(p.shape, lambda *i, p=p: te.cast(te.floor(p[i]), "int32")) for p in positions
    ]  # fmt: skip
    reach = {"nearest": [0], "bilinear": [0, 1], "bicubic": [-1, 0, 1, 2]}[mode]

    def weight(axis: int, i: Sequence[te.Expr], tap: int) -> te.Expr | None:
        if mode == "nearest":
            return None
        part = positions[axis][tuple(i)] - te.floor(positions[axis][tuple(i)])
        if mode == "bilinear":
            return part if tap else 1.0 - part
        return _cubic(part + float(-tap)) if tap <= 0 else _cubic(float(tap) - part)

    def point(b: te.Expr, c: te.Expr, *p: te.Expr) -> te.Expr:
        total = None
        for taps in itertools.product(reach, repeat=rank):
            places, inside, factor = [], None, None
            for d, tap in enumerate(taps):
                at = te.cast(wholes[d][(b, *p)], INDEX) + tap
                here = (at >= 0) & (at < space[d])
                inside = here if inside is None else inside & here
                places.append(at)
                w = weight(d, (b, *p), tap)
                factor = w if factor is None else factor if w is None else factor * w
            x = value(input[(b, c, *places)])
            assert inside is not None
            x = te.select(inside, x if factor is None else x * factor, 0.0)
            total = x if total is None else total + x
        assert total is not None
        return total

    return te.compute((*input.shape[:2], *out), point)


def _cubic(x: te.Expr) -> te.Expr:
    """The kernel of cubic convolution at a distance up to 2, with PyTorch's and ONNX's factor of -0.75."""
    near = ((x * 1.25 - 2.25) * x) * x + 1.0
    far = (((x - 5.0) * x + 8.0) * x - 4.0) * -0.75
    return te.select(x <= 1.0, near, far)


register("grid_sample", "gather", _grid_sample)


def _affine_grid(build: Build, theta: str, size: Sequence[int], aligned: bool, output: str) -> None:
    """Sampling positions of an image of ``size`` (b, c, ...), transformed by affine matrices (b, rank, rank + 1)."""
    kind = build.spec(theta).dtype
    b, _, *space = size
    rank, count = len(space), math.prod(space)
    rows = [(2 * np.arange(n) + 1) / n - 1 for n in space]
    if aligned:
        if 1 in space:
            raise Left(
                "where the only element of an axis lies if its corners are aligned, PyTorch, the standard and "
                "onnxruntime see differently"
            )
        rows = [np.linspace(-1, 1, n) for n in space]
    places = [g.reshape(-1) for g in np.meshgrid(*rows, indexing="ij")][::-1]
    base = build.constant(np.stack([*places, np.ones(count)]).astype(kind))
    made = build.add("permute", [build.add("matmul", [theta, base])], dims=(0, 2, 1))
    build.reshaped(made, (b, *space, rank), output)


@aten("grid_sampler_2d", "grid_sampler_3d")
def _aten_grid_sample(build: Build, call: Call) -> None:
    build.add(
        "grid_sample", [call.operand("input"), call.operand("grid")], call.output,
        mode=MODES[call["interpolation_mode"]], padding_mode=PADDINGS[call["padding_mode"]],
        align_corners=call["align_corners"],
    )  # fmt: skip


@aten("affine_grid_generator")
def _aten_affine_grid(build: Build, call: Call) -> None:
    _affine_grid(build, call.operand("theta"), call["size"], call["align_corners"], call.output)


@onnx("GridSample")
def _onnx_grid_sample(build: OnnxBuild, node: Any, a: Attributes) -> None:
    mode = a.get("mode", "bilinear")
    build.add(
        "grid_sample", node.input, node.output[0], padding_mode=a.get("padding_mode", "zeros"),
        mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode), align_corners=bool(a.get("align_corners")),
    )  # fmt: skip


@onnx("AffineGrid")
def _onnx_affine_grid(build: OnnxBuild, node: Any, a: Attributes) -> None:
    size = build.numbers(node.input[1])
    _affine_grid(build, node.input[0], size, bool(a.get("align_corners")), node.output[0])
