"""Convolutions and their padding as ONNX states them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.extent import larger, varies
from tilewright.graph.operations.handlers import Left, OnnxBuild


def pads_of(build: OnnxBuild, node: Any, a: dict[str, Any], kernel: list[int]) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial axis. Raises :class:`Left` where ``auto_pad`` comes to less than none: ONNX
    does not say which elements windows then leave out, and runtimes differ."""
    rank = len(kernel)
    auto = a.get("auto_pad", b"NOTSET").decode()
    if auto in ("NOTSET", ""):
        pads = list(a.get("pads", [0] * 2 * rank))
        return pads[:rank], pads[rank:]
    if auto == "VALID":
        return [0] * rank, [0] * rank
    strides, gaps = a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    before, after = [], []
    for n, k, s, d in zip(build.shape(node.input[0])[2:], kernel, strides, gaps, strict=True):
        span = d * (k - 1) + 1
        total = (-(-n // s) - 1) * s + span - n
        if total < -1 if not varies(n) else span < s - 1:
            raise Left("auto_pad is negative")
        total = larger(total, 0)
        small, large = total // 2, total - total // 2
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
    return before, after


def padded(
    build: OnnxBuild, x: str, before: list[int], after: list[int], value: float, most: tuple[int, ...] = ()
) -> tuple[str, tuple[int, ...]]:
    """The input with what padding is not the same on both sides, or more than ``most``, around it, and the rest."""
    both = [0 if varies(b, e) else min(b, e) for b, e in zip(before, after, strict=True)]
    if before == after and not varies(before) and all(b <= m for b, m in zip(both, most, strict=False)):
        return x, tuple(both)
    flat = [n for b, e in reversed(list(zip(before, after, strict=True))) for n in (b, e)]
    return build.add("pad", [x], pad=tuple(flat), value=value), (0,) * len(both)


def kernel_of(build: OnnxBuild, weight: str) -> list[int]:
    """The sizes of a convolution's window. Raises :class:`Left` where it has more axes than kernels do."""
    kernel = list(build.shape(weight)[2:])
    if len(kernel) not in (1, 2, 3):
        raise Left(f"it has {len(kernel)} spatial axes")
    return kernel


def convolved(
    build: OnnxBuild, a: dict[str, Any], operands: Sequence[str], padding: tuple[int, ...], output: str | None
) -> str:
    """The convolution of operands that have its padding around them but for what ``padding`` says."""
    ones = [1] * len(padding)
    return build.add(
        f"conv{len(padding)}d", operands, output, stride=tuple(a.get("strides", ones)), padding=padding,
        dilation=tuple(a.get("dilations", ones)), groups=a.get("group", 1),
    )  # fmt: skip
