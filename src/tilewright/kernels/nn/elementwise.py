"""Element by element: a formula over tensors that stretch to one shape."""

from __future__ import annotations

from tilewright.core import UsageError
from tilewright.kernels import te
from tilewright.kernels.nn.dims import broadcast, stretched
from tilewright.kernels.nn.element import value
from tilewright.kernels.nn.formula import expression


def elementwise(fn: str, **inputs: te.TensorRef) -> te.TensorRef:
    """``nn.elementwise("gelu(x*2 + y)", x=a, y=b)``: the formula ``fn`` of every element (``nn.formula``).

    Shapes stretch to the largest, as in NumPy. 16-bit reals are computed in float32.
    """
    if not inputs:
        raise UsageError("elementwise: no inputs", "Name at least one, as in x=...")
    shape: tuple[int, ...] = ()
    for ref in inputs.values():
        longer, other = (ref.shape, shape) if len(ref.shape) >= len(shape) else (shape, ref.shape)
        padded = (*(1 for _ in range(len(longer) - len(other))), *other)
        shape = tuple(b if a == 1 else a for a, b in zip(longer, padded, strict=True))
    for name, ref in inputs.items():
        broadcast("elementwise", name, ref.shape, shape)
    element = value(next(iter(inputs.values()))[(0,) * len(next(iter(inputs.values())).shape)])

    def point(*i: te.Expr) -> te.Expr:
        known = {name: te.cast(value(stretched(ref, i)), element.dtype) for name, ref in inputs.items()}
        return expression("elementwise", fn, known, element.dtype)

    return te.compute(shape, point)


def add(input: te.TensorRef, other: te.TensorRef, *, alpha: float = 1.0) -> te.TensorRef:
    """``input + alpha * other``; shapes stretch as in NumPy."""
    return elementwise("x + y" if alpha == 1 else f"x + {alpha!r} * y", x=input, y=other)


def mul(input: te.TensorRef, other: te.TensorRef) -> te.TensorRef:
    """``input * other``; shapes stretch as in NumPy."""
    return elementwise("x * y", x=input, y=other)
