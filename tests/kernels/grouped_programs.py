"""Products with gathered matrices, of every form that the template tells apart."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.kernels import nn, te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def _program(out: te.TensorRef) -> Program:
    return te.program(out)[0]


def experts(m: int = 29, n: int = 37, k: int = 19, groups: int = 5) -> Program:
    x, w, g = te.input("x", (m, k)), te.input("w", (groups, k, n)), te.input("g", (m,), "int32")
    return _program(nn.grouped_matmul(x, w, g))


def turned_experts() -> Program:
    """Matrices as linear layers keep them, more of them than rows, in float64."""
    x, w = te.input("x", (7, 20), "float64"), te.input("w", (9, 33, 20), "float64")
    g = te.input("g", (7,), "int64")
    return _program(te.compute((7, 33), lambda i, j: te.sum(20, lambda r: x[i, r] * w[g[i], j, r])))


def routed() -> Program:
    """Two experts a token, each with a bias and a gate: rows of two axes, one of which the token's row lacks."""
    x, w = te.input("x", (11, 24)), te.input("w", (4, 24, 18))
    b, gate = te.input("b", (4, 18)), te.input("gate", (11, 2))
    g = te.input("g", (11, 2), "int32")
    y = te.compute((11, 2, 18), lambda t, e, j: te.sum(24, lambda r: x[t, r] * w[g[t, e], r, j]))
    return _program(
        te.compute((11, 2, 18), lambda t, e, j: gate[t, e] * te.maximum(y[t, e, j] + b[g[t, e], j], 0.0)),
    )  # fmt: skip


def tokens() -> Program:
    """Rows that an index chooses as well, every other element of them, and a scale that all share."""
    x, w, scale = te.input("x", (8, 40)), te.input("w", (3, 20, 16)), te.input("scale", (20,))
    source, g = te.input("source", (13,), "int32"), te.input("g", (13,), "int32")
    return _program(
        te.compute(
            (13, 16), lambda i, j: te.sum(20, lambda r: x[source[i], 2 * r] * scale[r] * w[g[i] * 2 + 1, r, j])
        )
    )  # fmt: skip


def frames() -> Program:
    """Several rows of a product for each index."""
    x, w, g = te.input("x", (6, 5, 12)), te.input("w", (3, 12, 17)), te.input("g", (6,), "int32")
    return _program(
        te.compute((6, 5, 17), lambda i, s, j: te.sum(12, lambda r: x[i, s, r] * w[g[i], r, j]))
    )  # fmt: skip


def half_experts(m: int = 21, n: int = 24, k: int = 32) -> Program:
    x, w = te.input("x", (m, k), "bfloat16"), te.input("w", (3, k, n), "bfloat16")
    return _program(nn.cast(nn.grouped_matmul(x, w, te.input("g", (m,), "int32")), "bfloat16"))


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f for f in (experts, turned_experts, routed, tokens, frames, half_experts)
}
enter("grouped", PROGRAMS)


def _half(x: te.TensorRef, w: te.TensorRef, g: te.TensorRef, k: int) -> te.TensorRef:
    """The sums of 16-bit rows with matrices as linear layers keep them."""
    return te.compute(
        (x.shape[0], w.shape[1]),
        lambda i, j: te.sum(k, lambda r: te.cast(x[i, r], "float32") * te.cast(w[g[i], j, r], "float32")),
    )


def half_odd() -> Program:
    """Rows of odd length, and more groups than rows."""
    x, w = te.input("x", (7, 19), "float16"), te.input("w", (9, 33, 19), "float16")
    return _program(_half(x, w, te.input("g", (7,), "int64"), 19))


def half_routed() -> Program:
    """Two experts a token, each with a bias and a gate."""
    x, w = te.input("x", (17, 136), "bfloat16"), te.input("w", (4, 136, 24), "bfloat16")
    b, gate, g = te.input("b", (4, 24)), te.input("gate", (17, 2)), te.input("g", (17, 2), "int32")
    y = te.compute(
        (17, 2, 24),
        lambda t, e, j: te.sum(136, lambda r: te.cast(x[t, r], "float32") * te.cast(w[g[t, e], r, j], "float32")),
    )
    return _program(
        te.compute(
            (17, 2, 24), lambda t, e, j: te.cast(gate[t, e] * te.maximum(y[t, e, j] + b[g[t, e], j], 0.0), "bfloat16")
        )
    )  # fmt: skip


def half_frames() -> Program:
    """Several rows of a product for each index."""
    x, w, g = te.input("x", (6, 5, 16), "float16"), te.input("w", (3, 16, 24), "float16"), te.input("g", (6,), "int32")
    return _program(
        te.compute(
            (6, 5, 24),
            lambda i, s, j: te.sum(16, lambda r: te.cast(x[i, s, r], "float32") * te.cast(w[g[i], r, j], "float32")),
        )
    )  # fmt: skip


def rounded_experts() -> Program:
    """float32 rounded to TF32."""
    x, w, g = te.input("x", (21, 36)), te.input("w", (3, 36, 20)), te.input("g", (21,), "int32")
    return _program(
        te.compute((21, 20), lambda i, j: te.sum(36, lambda r: te.round_tf32(x[i, r]) * te.round_tf32(w[g[i], r, j])))
    )  # fmt: skip


def cut_experts() -> Program:
    """float32 cut to TF32."""
    x, w, g = te.input("x", (21, 36)), te.input("w", (3, 20, 36)), te.input("g", (21,), "int32")
    return _program(
        te.compute(
            (21, 20), lambda i, j: te.sum(36, lambda r: te.truncate_tf32(x[i, r]) * te.truncate_tf32(w[g[i], j, r]))
        )
    )  # fmt: skip


def byte_experts() -> Program:
    x, w, g = te.input("x", (25, 64), "int8"), te.input("w", (3, 40, 64), "int8"), te.input("g", (25,), "int32")
    return _program(
        te.compute(
            (25, 40), lambda i, j: te.sum(64, lambda r: te.cast(x[i, r], "int32") * te.cast(w[g[i], j, r], "int32"))
        )
    )  # fmt: skip


def quantised_experts() -> Program:
    """Matrices of bytes, with a scale for each column of each group, beside 16-bit rows."""
    x, w = te.input("x", (19, 48), "float16"), te.input("w", (3, 40, 48), "int8")
    scale, g = te.input("scale", (3, 40)), te.input("g", (19,), "int32")
    return _program(
        te.compute(
            (19, 40),
            lambda i, j: te.sum(
                48, lambda r: te.cast(x[i, r], "float32") * (te.cast(w[g[i], j, r], "float32") * scale[g[i], j])
            ),
        )
    )  # fmt: skip


def eight_bit_experts() -> Program:
    """8-bit reals, both with k contiguous."""
    x, w = te.input("x", (19, 64), "float8_e4m3fn"), te.input("w", (3, 24, 64), "float8_e4m3fn")
    g = te.input("g", (19,), "int32")
    return _program(nn.cast(_half(x, w, g, 64), "bfloat16"))


TENSOR_CORES: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (half_odd, half_routed, half_frames, rounded_experts, cut_experts, byte_experts, quantised_experts)
}
"""Such as matrix units multiply."""
