"""Tensors sampled at positions that another tensor holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.core import UsageError
from tilewright.graph.operations.handlers import Attributes, Build, Call, Left, OnnxBuild, aten, onnx
from tilewright.graph.operations.table import register
from tilewright.kernels import te
from tilewright.kernels.expression.expr import FLOATS, INDEX
from tilewright.kernels.nn.element import value
from tilewright.kernels.nn.quantize import round_half_even

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
FAR = 2.0**30
"""Beyond which positions are taken for one far outside: they become whole numbers of 32 bits."""


def _grid_sample(
    input: te.TensorRef,
    grid: te.TensorRef,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> te.TensorRef:
    """``input`` (b, c, [d,] h, w) at the positions ``grid`` (b, ..., 2 or 3), from -1 to 1, the last axis' first.

    NaN is taken for a position far outside, or where no position is outside, for the first.
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
        """A position as ``padding_mode`` has it."""
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
    """Positions of an image of ``size`` (b, c, ...), turned by matrices (b, rank, rank + 1)."""
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
    mode = a.get("mode", b"bilinear").decode()
    build.add(
        "grid_sample", node.input, node.output[0], padding_mode=a.get("padding_mode", b"zeros").decode(),
        mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode), align_corners=bool(a.get("align_corners")),
    )  # fmt: skip


@onnx("AffineGrid")
def _onnx_affine_grid(build: OnnxBuild, node: Any, a: Attributes) -> None:
    size = build.numbers(node.input[1])
    _affine_grid(build, node.input[0], size, bool(a.get("align_corners")), node.output[0])
