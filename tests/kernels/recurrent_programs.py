"""Recurrent layers of every form that the template tells apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.nn import recurrent
from tilewright.testing.catalogue import enter

GATES = {"rnn": 1, "gru": 3, "lstm": 4}


def layer(
    kind: str, steps: int, rows: int, features: int, *, bias: bool = True, first: bool = True, constant: bool = True,
    dtype: str = "float32", **attributes: Any,
) -> Program:  # fmt: skip
    """A layer of given gates; ``first``: its first state is given too."""
    wide = GATES[kind] * features
    tensors = [te.input("gates", (steps, rows, wide), dtype), te.input("weight", (wide, features), dtype, constant)]
    optional = {"bias": te.input("bias", (wide,), dtype)} if bias else {}
    if first:
        optional |= {n: te.input(n, (rows, features), dtype) for n in ("h0", "c0")[: 1 + (kind == "lstm")]}
    return te.program(getattr(recurrent, kind)(*tensors, **optional, **attributes))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "tanh": lambda: layer("rnn", 5, 3, 20),
    "relu": lambda: layer("rnn", 4, 2, 8, nonlinearity="relu", first=False, bias=False),
    "gru": lambda: layer("gru", 4, 5, 17),
    "reset_before": lambda: layer("gru", 4, 2, 19, reset_after=False, reverse=True),
    "reset_before_plain": lambda: layer("gru", 2, 1, 32, reset_after=False, bias=False, first=False),
    "lstm": lambda: layer("lstm", 4, 3, 33),
    "lstm_backwards": lambda: layer("lstm", 3, 7, 16, reverse=True, constant=False),
    "lstm_double": lambda: layer("lstm", 3, 2, 9, dtype="float64", first=False),
    "lstm_one": lambda: layer("lstm", 1, 1, 1),
}
enter("recurrent", PROGRAMS)
