"""How far roundings of a kernel carry, as a multiple of what the direct sum of as many products is granted.

The analysis is that of :mod:`tilewright.verifying.tolerance`, roundings independent of sign. A sum of K products in
float32 is granted ``2 u sqrt(K) (|sum| + 5 S)``, S the root of the sum of the products' squares. Here C = K / 9 of them
are summed at each point of a tile, one after the other, and what their roundings come to in an output is
:func:`~.transforms.growth` times what they come to in the direct sum of 9 C. Weights are transformed in float64 and
rounded once; what an element of an input tile, a sum and an output go through in their two passes adds the roundings of
:data:`PASSES` sums of the same size, which do not grow with C: beside the sums' own they are as 1 to the root of C.
"""

from __future__ import annotations

import math
from functools import lru_cache

from tilewright.kernels.templates.cpu_winograd.transforms import growth, transforms

PASSES = 4
"""One pass over rows and one over columns, of the input and of the output."""
LEAST = 1.25
"""Smallest multiple, above 1 in any case: whole numbers are not summed exactly wherever the direct sum does."""
SEQUENCE = 0.5
"""Share of a sum's grant that one summed term by term needs, as these are: the grant is for terms in any order."""
MOST = 4.0
"""Largest multiple that a kernel may ask for: the usual points of F(4, 3) would need more."""


@lru_cache(maxsize=256)
def rounding(outputs: int, channels: int) -> float:
    """The multiple for F(outputs x outputs, 3 x 3) over so many channels; never below :data:`LEAST`."""
    return max(LEAST, SEQUENCE * growth(transforms(outputs)) * (1 + PASSES / math.sqrt(channels)))
