"""The tolerance of a Winograd kernel, as a multiple of the tolerance of the direct sum.

The analysis follows :mod:`tilewright.verifying.tolerance`: roundings are independent of sign. The tolerance of a sum of
K products in float32 is ``2 u sqrt(K) (|sum| + 5 S)``, where S is the root of the sum of the products' squares. A
Winograd kernel sums C = K / 9 products at each point of a tile, one after another. The roundings of these sums reach an
output :func:`~.transforms.growth` times as large as the roundings of the direct sum of 9 C products.

Weights are transformed in float64 and rounded once. The input and output transforms add the roundings of
:data:`PASSES` sums of the same size. Their ratio to the roundings of the sums is 1 to the root of C, since they do not
grow with C.
"""

from __future__ import annotations

import math
from functools import lru_cache

from tilewright.kernels.templates.cpu_winograd.transforms import growth, transforms

PASSES = 4
"""Passes of the transforms: one over rows and one over columns, of the input and of the output."""
LEAST = 1.25
"""Least multiple. It exceeds 1, because sums of whole numbers that are exact in the direct sum may be rounded here."""
SEQUENCE = 0.5
"""Share of a sum's tolerance that suffices for a sum term by term: the tolerance covers sums in any order."""
MOST = 4.0
"""Greatest multiple for which a kernel is accepted: the usual points of F(4, 3) would need more."""


@lru_cache(maxsize=256)
def rounding(outputs: int, channels: int) -> float:
    """The multiple, at least :data:`LEAST`, for F(outputs x outputs, 3 x 3) over ``channels`` channels."""
    return max(LEAST, SEQUENCE * growth(transforms(outputs)) * (1 + PASSES / math.sqrt(channels)))
