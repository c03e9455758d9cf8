"""Winograd's minimal filtering F(m, 3): its three matrices, made from interpolation points by Toom and Cook's method.

``m`` outputs of a filter of three taps are ``At ((G g) * (Bt d))`` for ``m + 2`` inputs ``d``: in two dimensions each
matrix is applied from both sides, and (m + 2)^2 products do the work of 9 m^2. (Winograd, Arithmetic Complexity of
Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.)

The points decide how rounding errors grow (Barabasz, Anderson, Soodhalter and Gregg, Error Analysis and Improving the
Accuracy of Winograd Convolution for Deep Neural Networks, 2020). The points of F(4, 3) here minimise :func:`growth`
among pairs of sixteenths. The usual points 0, 1, -1, 2, -2 have more than four times this growth. All entries of ``At``
and ``Bt`` are exact in float32.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce

from tilewright.kernels.families.winograd import TAPS

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS = {2: (Fraction(1),), 4: (Fraction(11, 16), Fraction(23, 16))}
"""Interpolation points by the number of outputs. Each point is used with both signs, in addition to 0 and infinity."""


@dataclass(frozen=True)
class Transforms:
    """The matrices of F(outputs, 3): ``output`` (At), ``filter`` (G), ``input`` (Bt).

    Rows 1 and 2 of ``filter`` and ``input`` and columns 1 and 2 of ``output`` belong to opposite points, as do 3 and 4.
    """

    outputs: int
    output: Matrix
    filter: Matrix
    input: Matrix

    @property
    def points(self) -> int:
        """Number of a tile's inputs along one axis, and of its products."""
        return len(self.input)


@lru_cache(maxsize=8)
def transforms(outputs: int) -> Transforms:
    """The matrices of F(outputs, 3); ``outputs`` in :data:`POINTS`."""
    points = [Fraction(0), *(s * p for p in POINTS[outputs] for s in (1, -1))]
    last = outputs - 1
    output = [[*(p**i for p in points), Fraction(int(i == last))] for i in range(outputs)]
    taps = [[p**k / _product(p - q for q in points if q != p) for k in range(TAPS)] for p in points]
    taps.append([Fraction(int(k == TAPS - 1)) for k in range(TAPS)])
    data = [[*_polynomial([q for q in points if q != p]), Fraction(0)] for p in points]
    data.append(_polynomial(points))
    return Transforms(outputs, *(tuple(map(tuple, x)) for x in (output, taps, data)))


def _product(factors: Iterable[Fraction]) -> Fraction:
    return reduce(operator.mul, factors, Fraction(1))


def _polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the product of (x - root), the constant first."""
    out = [Fraction(1)]
    for r in roots:
        out = [a - r * b for a, b in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)]
    return out


def growth(t: Transforms) -> float:
    """Rounding error from the sums of products, as a multiple of the direct sum's error, for the worst output.

    For random data, the sums at point i have the size b_i g_i, where b_i and g_i are norms of rows of ``input`` and
    ``filter``. Their roundings are in proportion, and output p adds them with the weights a_pi. The direct sum has nine
    terms of size 1 for each product. In two dimensions the multiple is the sum over i of (a_pi b_i g_i)^2, over nine.
    """
    sizes = [_square(b) * _square(g) for b, g in zip(t.input, t.filter, strict=True)]
    return float(max(sum(a * a * s for a, s in zip(row, sizes, strict=True)) for row in t.output)) / TAPS**2


def _square(row: Sequence[Fraction]) -> Fraction:
    return sum((x * x for x in row), Fraction(0))
