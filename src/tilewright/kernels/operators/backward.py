"""What the operators that are gradients share: how their inputs' shapes tell their sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.core import Value
from tilewright.kernels.operators.numeric import expected


def infer_pair(op: str) -> Callable[..., dict[str, Value]]:
    """``shape`` is that of two inputs."""

    def infer(shapes: Sequence[tuple[int, ...]], **_: object) -> dict[str, Value]:
        shape, *rest = shapes
        expected(op, rest, [shape])
        return {"shape": ",".join(map(str, shape))}

    return infer


def infer_norm(op: str) -> Callable[..., dict[str, Value]]:
    """``shape`` is that of the first two inputs; a third is as long as what is normalised."""

    def infer(
        shapes: Sequence[tuple[int, ...]], normalized_shape: tuple[int, ...] = (), weight: bool = True, **_: object
    ) -> dict[str, Value]:
        shape, *rest = shapes
        expected(op, rest, [shape, *[normalized_shape or shape[-1:]] * weight])
        return {"shape": ",".join(map(str, shape))}

    return infer
