"""Elementwise programs whose innermost axis is short: complex numbers, pixels, quaternions, butterflies; of odd sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.testing.catalogue import enter


def complex_product(n: int = 211, dtype: str = "float32") -> Program:
    """Of interleaved complex numbers."""
    a, b = te.input("a", (n, 2), dtype), te.input("b", (n, 2), dtype)
    return te.program(
        te.compute(
            (n, 2),
            lambda i, c: te.select(
                c == 0, a[i, 0] * b[i, 0] - a[i, 1] * b[i, 1], a[i, 0] * b[i, 1] + a[i, 1] * b[i, 0]
            ),
        )
    )[0]


def complex_scale(m: int = 5, n: int = 37, dtype: str = "float16") -> Program:
    """Complex numbers times a real of each place, plus a complex number of each row: reads of three kinds."""
    z, x, y = te.input("z", (m, n, 2), dtype), te.input("x", (n,)), te.input("y", (m, 2))
    value = te.compute((m, n, 2), lambda i, j, c: te.cast(z[i, j, c], "float32") * x[j] + y[i, c], dtype)
    return te.program(value)[0]


def magnitude(n: int = 211) -> Program:
    """A read in pairs beside an output of one number each."""
    z = te.input("z", (n, 2))
    return te.program(te.compute((n,), lambda i: te.sqrt(z[i, 0] * z[i, 0] + z[i, 1] * z[i, 1])))[0]


def grey(h: int = 7, w: int = 45, dtype: str = "float32") -> Program:
    """Of pixels of three colours."""
    x = te.input("x", (h, w, 3), dtype)

    def colour(i: te.Expr, j: te.Expr, c: int) -> te.Expr:
        return te.cast(x[i, j, c], "float32")

    return te.program(
        te.compute((h, w), lambda i, j: 0.299 * colour(i, j, 0) + 0.587 * colour(i, j, 1) + 0.114 * colour(i, j, 2))
    )[0]


def colours_turned(h: int = 7, w: int = 45) -> Program:
    """Blue, green and red from red, green and blue, with a bias of each."""
    x, b = te.input("x", (h, w, 3)), te.input("b", (3,))
    return te.program(te.compute((h, w, 3), lambda i, j, c: x[i, j, 2 - c] * 2.0 + b[c]))[0]


def channels_last(c: int = 3, dtype: str = "float32") -> Program:
    """Planes to pixels, elements moved only."""
    x = te.input("x", (c, 5, 33), dtype)
    return te.program(te.compute((5, 33, c), lambda i, j, k: x[k, i, j]))[0]


def channels_first(c: int = 3, dtype: str = "uint8") -> Program:
    """Pixels to planes, elements moved only."""
    x = te.input("x", (5, 33, c), dtype)
    return te.program(te.compute((c, 5, 33), lambda k, i, j: x[i, j, k]))[0]


def image_padded(dtype: str = "float32") -> Program:
    """Pixels with a border."""
    x = te.input("x", (5, 29, 3), dtype)
    inside = te.compute(
        (7, 34, 3),
        lambda i, j, c: te.select((i >= 1) & (i < 6) & (j >= 2) & (j < 31), x[i - 1, j - 2, c], 0.0),
    )
    return te.program(inside)[0]


def quaternion_product(n: int = 77, dtype: str = "float32") -> Program:
    a, b = te.input("a", (n, 4), dtype), te.input("b", (n, 4), dtype)
    signs = ((1, -1, -1, -1), (1, 1, 1, -1), (1, -1, 1, 1), (1, 1, -1, 1))
    order = ((0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0))

    def part(i: te.Expr, c: int) -> te.Expr:
        terms = [a[i, k] * b[i, order[c][k]] * float(signs[c][k]) for k in range(4)]
        return terms[0] + terms[1] + terms[2] + terms[3]

    return te.program(
        te.compute(
            (n, 4),
            lambda i, c: te.select(
                c == 0, part(i, 0), te.select(c == 1, part(i, 1), te.select(c == 2, part(i, 2), part(i, 3)))
            ),
        )
    )[0]


def butterfly(m: int = 3, half: int = 35) -> Program:
    """One stage of a radix-2 transform of interleaved complex numbers; ``half`` is how far its partners lie apart."""
    x, w = te.input("x", (m, 2, half, 2)), te.input("w", (half, 2))

    def turned(i: te.Expr, j: te.Expr, c: te.Expr) -> te.Expr:
        re = x[i, 1, j, 0] * w[j, 0] - x[i, 1, j, 1] * w[j, 1]
        im = x[i, 1, j, 0] * w[j, 1] + x[i, 1, j, 1] * w[j, 0]
        return te.select(c == 0, re, im)

    t = te.compute((m, half, 2), turned)
    return te.program(
        te.compute(
            (m, 2, half, 2),
            lambda i, s, j, c: te.select(s == 0, x[i, 0, j, c] + t[i, j, c], x[i, 0, j, c] - t[i, j, c]),
        )
    )[0]


def clipped(n: int = 53) -> Program:
    """A condition on what is read, on the place, and whole numbers."""
    x = te.input("x", (n, 3), "int32")
    return te.program(
        te.compute((n, 3), lambda i, c: te.select(x[i, 0] > te.cast(i, "int32"), x[i, c], x[i, 2 - c] * 3))
    )[0]


def mixed_widths(n: int = 53) -> Program:
    """Complex numbers of two precisions."""
    a, b = te.input("a", (n, 2)), te.input("b", (n, 2), "float64")
    return te.program(te.compute((n, 2), lambda i, c: te.cast(a[i, 1 - c], "float64") * b[i, c]))[0]


def pairs_of_an_odd_row(n: int = 35) -> Program:
    """Neighbours that run past the end where they are taken as pairs."""
    x = te.input("x", (2 * n + 1,))
    return te.program(te.compute((n,), lambda i: x[2 * i] * 0.25 + x[2 * i + 1] * 0.5 + x[2 * i + 2] * 0.25))[0]


def grey_sum(h: int = 7, w: int = 45, dtype: str = "float32") -> Program:
    """Pixels times a weight of each colour, summed."""
    x, weight = te.input("x", (h, w, 3), dtype), te.input("w", (3,))
    return te.program(te.compute((h, w), lambda i, j: te.sum(3, lambda c: te.cast(x[i, j, c], "float32") * weight[c])))[
        0
    ]


def colour_matrix(n: int = 101) -> Program:
    """Pixels in other colours, with a bias."""
    x, m, b = te.input("x", (n, 3)), te.input("m", (3, 3)), te.input("b", (3,))
    y = te.compute((n, 3), lambda i, c: te.sum(3, lambda k: x[i, k] * m[k, c]))
    return te.program(te.compute((n, 3), lambda i, c: te.maximum(y[i, c] + b[c], 0.0)))[0]


def brightest(n: int = 77, dtype: str = "int32") -> Program:
    x = te.input("x", (n, 3), dtype)
    return te.program(te.compute((n,), lambda i: te.max(3, lambda c: x[i, c])))[0]


def normalised(n: int = 77) -> Program:
    """Quaternions of length 1."""
    x = te.input("x", (n, 4))
    square = te.compute((n,), lambda i: te.sum(4, lambda c: x[i, c] * x[i, c]))
    return te.program(te.compute((n, 4), lambda i, c: x[i, c] * te.rsqrt(square[i] + 1e-6)))[0]


def softmax_of_four(n: int = 77) -> Program:
    """Three reductions, one after another."""
    x = te.input("x", (n, 4))
    top = te.compute((n,), lambda i: te.max(4, lambda c: x[i, c]))
    e = te.compute((n, 4), lambda i, c: te.exp(x[i, c] - top[i]))
    total = te.compute((n,), lambda i: te.sum(4, lambda c: e[i, c]))
    return te.program(te.compute((n, 4), lambda i, c: e[i, c] / total[i]))[0]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "complex_product": complex_product,
    "complex_product_double": partial(complex_product, 53, "float64"),
    "complex_scale": complex_scale,
    "magnitude": magnitude,
    "grey": grey,
    "grey_bytes": partial(grey, dtype="uint8"),
    "colours_turned": colours_turned,
    "channels_last": channels_last,
    "channels_last_halves": partial(channels_last, 4, "float16"),
    "channels_first": channels_first,
    "channels_first_pairs": partial(channels_first, 2, "float32"),
    "image_padded": image_padded,
    "quaternion_product": quaternion_product,
    "quaternion_product_double": partial(quaternion_product, 53, "float64"),
    "butterfly": butterfly,
    "butterfly_first": partial(butterfly, 51, 1),
    "butterfly_second": partial(butterfly, 27, 2),
    "grey_sum": grey_sum,
    "grey_sum_halves": partial(grey_sum, dtype="float16"),
    "colour_matrix": colour_matrix,
    "brightest": brightest,
    "normalised": normalised,
    "softmax_of_four": softmax_of_four,
    "clipped": clipped,
    "mixed_widths": mixed_widths,
    "pairs_of_an_odd_row": pairs_of_an_odd_row,
}
enter("short axes", PROGRAMS)
