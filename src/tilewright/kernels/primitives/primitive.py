"""A primitive: one hardware operation as PTX and as plain C++, with kernels that compare both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Conformance:
    """A small kernel that uses a primitive and stores its results.

    ``body`` is the kernel's text. In it, ``x0``, ``x1``, ... point to the arrays that ``inputs()`` returns (identical
    on every machine), and ``out`` points to ``size`` elements of ``dtype``. Data of 16 bits or less is passed as
    unsigned integers. The kernel runs ``threads`` threads in each of ``blocks`` blocks, in clusters of ``cluster``
    blocks, with ``shared`` bytes of shared memory.

    ``expected`` computes the output with NumPy (``None``: only a recording has it). Outputs are compared bit for bit,
    and any NaN equals any other NaN. ``scale`` is for arithmetic whose order the hardware leaves open: it returns the
    magnitude of the rounded sums, an array like the output. The allowed difference is then ``tolerance * scale``.
    """

    name: str
    body: str
    inputs: Callable[[], tuple[Array, ...]]
    dtype: str
    size: int
    expected: Callable[..., Array] | None = None
    scale: Callable[..., Array] | None = None
    tolerance: float = 0.0
    threads: int = 32
    blocks: int = 1
    cluster: int = 1
    shared: int = 0
    maps: tuple[dict[str, Any], ...] = ()
    """Tensor maps (:func:`tilewright.core.tensor_map`), in front of the other parameters as ``map0``, ``map1``, ..."""


@dataclass(frozen=True)
class Primitive:
    """A hardware operation behind C++ functions in namespace ``tw``.

    ``ptx`` defines the functions for GPUs of compute capability ``least_cc`` to ``most_cc`` (80 means 8.0).
    ``emulated`` defines the same functions in plain C++. Each of its functions has a last parameter ``int line =
    __builtin_LINE()``, the kernel's line in reports. ``provides``: the functions' names.
    """

    name: str
    summary: str
    least_cc: int
    ptx: str
    emulated: str
    provides: tuple[str, ...]
    conformance: tuple[Conformance, ...] = ()
    most_cc: int = 999

    def known_to(self, cc: int) -> bool:
        """Whether GPUs of a compute capability have the operation."""
        return self.least_cc <= cc <= self.most_cc


def words(count: int, seed: int) -> NDArray[np.uint32]:
    """``count`` pseudo-random 32-bit words, equal under every NumPy (splitmix64's upper halves)."""
    z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)


def floats(count: int, seed: int, low: float = -2.0, high: float = 2.0) -> NDArray[np.float32]:
    """``count`` pseudo-random values between ``low`` and ``high``."""
    unit = words(count, seed).astype(np.float64) / 2.0**32
    return (low + unit * (high - low)).astype(np.float32)


SPECIAL = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001,
    0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x33000000, 0x33000001,
    0x33800000, 0x387FC000, 0x387FE000, 0x38800000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x47800000,
    0x3F801000, 0x3F802000, 0x3F803000, 0x3F800FFF, 0x3F808000, 0x3F818000, 0x3F80FFFF, 0x7F7FF000,
)  # fmt: skip
"""Floats, as bits, at the limits of rounding and range tests.

They are both zeros, infinities, NaN (quiet and signalling), denormals, the ends of the range, and ties of 16-bit and
TF32 rounding.
"""


def special() -> NDArray[np.float32]:
    """:data:`SPECIAL` as 32 floats."""
    return np.array(SPECIAL, np.uint32).view(np.float32)
