"""Recurrent layers after their input products: RNN, GRU and LSTM, one layer in one direction.

``gates``: the input products of all steps, (steps, rows, gates x features), with input biases added. ``weight`` is
(gates x features, features) and ``bias`` (gates x features), both in PyTorch's order of gates. ``h0`` and ``c0``,
(rows, features), are zeros unless given. A result holds the states after every step: (states, steps, rows, features).
The states are ``h``, and for an LSTM ``h`` and ``c``. ``reverse``: the steps run from the last to the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.core import OperatorError
from tilewright.kernels import te
from tilewright.kernels.expression.expr import Expr, axis, const
from tilewright.kernels.expression.program import Mix, Monoid, Step, left, mixed, right
from tilewright.kernels.nn.activation import activate
from tilewright.kernels.te.declarations import defined
from tilewright.kernels.te.tensors import Definition

REALS = ("float32", "float64")

TIME, ROW, FEATURE, TERM = axis("i1"), axis("i2"), axis("i3"), axis("r0")


def rnn(
    gates: te.TensorRef, weight: te.TensorRef, bias: te.TensorRef | None = None, h0: te.TensorRef | None = None,
    *, nonlinearity: str = "tanh", reverse: bool = False,
) -> te.TensorRef:  # fmt: skip
    """States of an RNN layer: ``h' = f(x + W h + b)``, (1, steps, rows, features), ``f`` being ``tanh`` or ``relu``.

    The arguments are those of this module. Raises ``OperatorError`` for another ``nonlinearity``, and for shapes or
    dtypes that do not fit.
    """
    functions: dict[str, Callable[[Expr], Expr]] = {"tanh": te.tanh, "relu": lambda x: te.maximum(x, 0.0)}
    if nonlinearity not in functions:
        raise OperatorError(f"an RNN knows no {nonlinearity!r}", "Use tanh or relu")
    layer = _Layer("rnn", 1, gates, weight, bias, reverse)
    return layer.states((h0,), lambda h: (functions[nonlinearity](layer.gate(0, h)),))


def gru(
    gates: te.TensorRef, weight: te.TensorRef, bias: te.TensorRef | None = None, h0: te.TensorRef | None = None,
    *, reset_after: bool = True, reverse: bool = False,
) -> te.TensorRef:  # fmt: skip
    """States of a GRU layer with the gates r, z and n: ``h' = (1 - z) n + z h``, (1, steps, rows, features).

    ``n = tanh(x + r (W h + b))`` with ``reset_after``, else ``n = tanh(x + W (r h) + b)``. The arguments are those of
    this module. Raises ``OperatorError`` for shapes or dtypes that do not fit.
    """
    layer = _Layer("gru", 3, gates, weight, bias, reverse)

    def step(h: Expr) -> tuple[Expr, ...]:
        r, z = (activate(layer.gate(n, h), "sigmoid") for n in (0, 1))
        if reset_after:
            inner = layer.product(2, h)
            if bias is not None:
                inner = inner + layer.given(bias[2 * layer.features + FEATURE])
            n = te.tanh(layer.input(2) + r * inner)
        else:
            n = te.tanh(layer.gate(2, r * h))
        return ((1.0 - z) * n + z * h,)

    return layer.states((h0,), step)


def lstm(
    gates: te.TensorRef, weight: te.TensorRef, bias: te.TensorRef | None = None, h0: te.TensorRef | None = None,
    c0: te.TensorRef | None = None, *, reverse: bool = False,
) -> te.TensorRef:  # fmt: skip
    """States of an LSTM layer with the gates i, f, g and o: ``c' = f c + i g``, ``h' = o tanh(c')``.

    The result is (2, steps, rows, features): h, then c. The arguments are those of this module. Raises
    ``OperatorError`` for shapes or dtypes that do not fit.
    """
    layer = _Layer("lstm", 4, gates, weight, bias, reverse)

    def step(h: Expr, c: Expr) -> tuple[Expr, ...]:
        i, f, o = (activate(layer.gate(n, h), "sigmoid") for n in (0, 1, 3))
        cell = f * c + i * te.tanh(layer.gate(2, h))
        return o * te.tanh(cell), cell

    return layer.states((h0, c0), step)


@dataclass(eq=False)
class _Layer:
    """A layer whose step is being defined: collects its reads as elements and its products as mixes."""

    name: str
    count: int
    gates: te.TensorRef
    weight: te.TensorRef
    bias: te.TensorRef | None
    reverse: bool
    elements: list[Expr] = field(default_factory=list)
    mixes: list[Mix] = field(default_factory=list)

    def __post_init__(self) -> None:
        tensors = (self.gates, self.weight, *(() if self.bias is None else (self.bias,)))
        if self.gates.dtype not in REALS or any(t.dtype != self.gates.dtype for t in tensors):
            types = ", ".join(t.dtype for t in tensors)
            raise OperatorError(f"{self.name} of {types}", f"Its tensors are all {' or all '.join(REALS)}")
        wide = self.count * self.features
        found = [t.shape for t in tensors]
        wanted = [(*self.gates.shape[:2], wide), (wide, self.features), (wide,)]
        if len(self.gates.shape) != 3 or found != wanted[: len(found)]:
            raise OperatorError(
                f"{self.name} of gates, weight and bias {', '.join(map(str, found))}",
                f"With {self.features} features they are (steps, rows, {wide}), ({wide}, {self.features}), ({wide},)",
            )

    @property
    def features(self) -> int:
        return self.weight.shape[-1]

    def given(self, e: Expr) -> Expr:
        """A value that each step reads, registered as an element."""
        self.elements.append(e)
        return right(len(self.elements) - 1, e.dtype)

    def input(self, gate: int) -> Expr:
        """A gate's input product."""
        return self.given(self.gates[TIME, ROW, gate * self.features + FEATURE])

    def product(self, gate: int, value: Expr) -> Expr:
        """A gate's weights times a value."""
        self.mixes.append(Mix(self.weight[gate * self.features + FEATURE, TERM], value))
        return mixed(len(self.mixes) - 1, value.dtype)

    def gate(self, gate: int, value: Expr) -> Expr:
        """A gate before its activation."""
        place = gate * self.features + FEATURE
        read = self.gates[TIME, ROW, place]
        return self.given(read if self.bias is None else read + self.bias[place]) + self.product(gate, value)

    def states(
        self, first: tuple[te.TensorRef | None, ...], step: Callable[..., tuple[Expr, ...]]
    ) -> te.TensorRef:  # fmt: skip
        """The states after every step, for initial states ``first`` and the function ``step``."""
        dtype, (steps, rows, _) = self.gates.dtype, self.gates.shape
        for name, t in zip("hc", first, strict=False):
            if t is not None and (t.shape, t.dtype) != ((rows, self.features), dtype):
                raise OperatorError(
                    f"{self.name}'s first {name} is {t.shape} {t.dtype}", f"It is {(rows, self.features)} {dtype}"
                )
        zero = const(0.0, dtype)
        start = tuple(zero if t is None else t[ROW, FEATURE] for t in first)
        parts = tuple(left(n, dtype) for n in range(len(first)))
        after = step(*parts)
        monoid = Monoid("recurrence", (zero,) * len(first), after, parts[0])
        made = Definition(
            (self.features,), tuple(self.elements), monoid, 1, Step(start, tuple(self.mixes), self.reverse)
        )
        return defined(self.name, (len(first), steps, rows, self.features), dtype, made)
