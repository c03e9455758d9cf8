"""Tensor Core products of a warp by operand type: m16n8kK, where K is 32 bytes of an operand's row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tilewright.kernels.expression.numerics import decode, encode, round_tf32
from tilewright.kernels.primitives import mma
from tilewright.kernels.primitives.convert import truncated
from tilewright.kernels.primitives.mma import Format
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, floats, words

# --------------------------------------------------------------------------- float64

# Tensor Core product of float64: m16n8k8, which compute capability 8.0 composes of m8n8k4.
#
# With ``g = lane / 4`` and ``t = lane % 4``, registers have the layout of TF32 in :mod:`~.mma`, with a double each (PTX
# ISA, "Matrix Fragments for mma.m16n8k8" and "for mma.m8n8k4", type ``.f64``):
#
# - ``a``: register ``i`` holds row ``g + 8 (i % 2)``, column ``t + 4 (i / 2)``;
# - ``b``: register ``i`` holds column ``g``, row ``t + 4 i``;
# - ``c``: value ``i`` is row ``g + 8 (i / 2)``, column ``2 t + i % 2``.
#
# Each multiply-add is rounded once, to nearest; their order is undefined.
_PTX = """
TW_DEVICE void mma_f64(double (&c)[4], const double (&a)[4], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
    TW_UNROLL
    for (int i = 0; i < 4; i++)
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+d"(c[i % 2 * 2]), "+d"(c[i % 2 * 2 + 1]) : "d"(a[i]), "d"(b[i / 2]));
#endif
}
"""

_F64_TOLERANCE = 2.0**-49
"""Largest relative error of any order, with room: eight multiply-adds, each rounded to 53 bits."""
_SPECIAL = np.array(
    [0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x8000000000000000, 1, 0x8000000000000001,
     0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FF0000000000000,
     0x3FF0000000000001, 0xBFEFFFFFFFFFFFFF, 0, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], np.uint64,
).view(np.float64)  # fmt: skip


def _f64_values(count: int, seed: int) -> Array:
    """Values between -2 and 2 that use all of their bits."""
    high, low = words(count, seed), words(count, seed + 100)
    return np.asarray((high + low / 2.0**32) / 2.0**30 - 2.0)


_F64 = Format(1, lambda x: np.asarray(x, np.float64), lambda bits: bits, "float64")

_MMA_F64 = Primitive(
    "mma_f64",
    "Tensor Core product, 16x8x8, float64 operands and sums",
    80,
    _PTX,
    mma.emulated("mma_f64", 1, "r", "double", "double"),
    ("mma_f64",),
    mma.float_cases(
        "mma_f64", _F64, _f64_values, _SPECIAL, _F64_TOLERANCE, (1 << 20, 1 << 20), _SPECIAL[::-1], huge=1e308
    ),
)


# --------------------------------------------------------------------------- types of operands


ROUNDING = 2.0**11
"""Factor by which the rounding error of a sum of 8-bit floats may exceed float32's.

Hopper keeps about 14 bits of the sum (DeepSeek-V3 Technical Report, arXiv:2412.19437, section 3.3.2).
"""
_TOLERANCE = 2.0**-11
"""Tolerance of one instruction's sum of 32 terms of 8-bit floats, relative to the terms' sizes."""


@dataclass(frozen=True)
class Operands:
    """An operand type of Tensor Cores.

    ``value``: C++ of the value of ``{bits}``, which may need the definitions ``before``. ``c``: the C++ type of
    ``sums``. ``special``: 16 bit patterns.
    """

    name: str
    what: str
    format: Format
    value: str
    special: Array
    before: str = ""
    sums: str = "float sums"
    c: str = "float"

    @property
    def depth(self) -> int:
        """K of one instruction."""
        return 8 * self.format.per_word


def _format(per_word: int, dtype: str) -> Format:
    """The format of a floating-point type that NumPy lacks."""
    return Format(per_word, lambda x: encode(x, dtype), lambda bits: decode(bits, dtype).astype(np.float64))


def _float8(name: str, dtype: str, value: str, special: list[int], before: str = "") -> Operands:
    what, sums = f"8-bit reals ({name})", "float sums of about 14 bits"
    return Operands(name, what, _format(4, dtype), value, np.array(special, np.uint8), before, sums)


def _dense(x: Array) -> Array:
    return np.ascontiguousarray(x, np.float32)


def _tf32(bits: Array) -> Array:
    return truncated(bits.view(np.float32)).astype(np.float64)


F16 = Operands(
    "f16", "float16 operands",
    Format(2, lambda x: x.astype(np.float16).view(np.uint16), lambda bits: bits.view(np.float16).astype(np.float64)),
    "to_float(f16{{{bits}}})",
    np.array(
        [0x7C00, 0xFC00, 0x7E00, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400,
         0x7BFF, 0xFBFF, 0x3C00, 0x3C01, 0xBBFF, 0x0000, 0x7C01, 0xFFFF], np.uint16,
    ),
)  # fmt: skip
BF16 = Operands(
    "bf16", "bfloat16 operands",
    _format(2, "bfloat16"),
    "to_float(bf16{{{bits}}})",
    np.array(
        [0x7F80, 0xFF80, 0x7FC0, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080,
         0x7F7F, 0xFF7F, 0x3F80, 0x3F81, 0xBF7F, 0x0000, 0x7F81, 0xFFFF], np.uint16,
    ),
)  # fmt: skip
# PTX leaves the effect of an operand's low 13 bits open; the hardware ignores them.
TF32 = Operands(
    "tf32", "TF32 operands (floats, whose low 13 bits are ignored)",
    Format(1, lambda x: _dense(round_tf32(x)).view(np.uint32), _tf32),
    "bits_float({bits} & 0xffffe000u)",
    np.array(
        [0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0x00002000, 0x80002000, 0x007FE000, 0x00800000,
         0x7F7FE000, 0xFF7FE000, 0x3F800000, 0x3F802000, 0xBF7FE000, 0x00000000, 0x7F802000, 0xFFFFE000], np.uint32,
    ),
)  # fmt: skip
# Sums wrap around, since the instruction does not ask for saturation.
S8 = Operands(
    "s8", "signed 8-bit operands",
    Format(4, lambda x: x.astype(np.int8).view(np.uint8), lambda bits: bits.view(np.int8).astype(np.float64)),
    "(signed char){bits}", np.array([], np.uint8), sums="32-bit sums that wrap", c="int",
)  # fmt: skip
E4M3 = _float8(
    "e4m3", "float8_e4m3fn", "e4m3_({bits})",
    [0x7F, 0xFF, 0x7E, 0x80, 0x01, 0x81, 0x07, 0x08, 0xFE, 0x38, 0x39, 0xB7, 0x00, 0x40, 0x0F, 0x70],
    """
#ifndef TW_E4M3_
#define TW_E4M3_
TW_DEVICE double e4m3_(u8 b) {
    const int e = b >> 3 & 15, m = b & 7;
    if ((b & 127) == 127) return __builtin_nan("");
    const double v = e ? __builtin_ldexp(8.0 + m, e - 10) : __builtin_ldexp((double)m, -9);
    return b & 128 ? -v : v;
}
#endif
""",
)  # fmt: skip
E5M2 = _float8(
    "e5m2", "float8_e5m2", "to_float(f16{{(u16)({bits} << 8)}})",
    [0x7C, 0xFC, 0x7E, 0x80, 0x01, 0x81, 0x03, 0x04, 0x7B, 0xFB, 0x3C, 0x3D, 0xBB, 0x00, 0x7D, 0xFF],
)  # fmt: skip


# --------------------------------------------------------------------------- products of a warp


def _unrounded() -> tuple[Array, ...]:
    """Values that use all of their bits; whole numbers with bits below TF32's, whose products are exact."""
    a, b = floats(128, 26).reshape(16, 8), floats(64, 27).reshape(8, 8)
    a[8:] = np.float32(4096.75) + np.arange(64, dtype=np.float32).reshape(8, 8)
    raw = Format(1, lambda x: _dense(x).view(np.uint32), _tf32)
    return mma.fragments(a, b, floats(128, 28).reshape(16, 8).astype(np.float32), raw)


def _any_bits() -> tuple[Array, ...]:
    return words(128, 30), words(64, 31), words(128, 32).view(np.int32) >> 8


def _wrap() -> tuple[Array, ...]:
    # 32 products of 128 x 128 beyond both ends of the range.
    a, b = np.full((16, 32), -128.0), np.full((32, 8), -128.0)
    b[:, ::2] = 127
    c = np.full((16, 8), 2**31 - 1, np.int32)
    c[:, ::2] = -(2**31)
    return mma.fragments(a, b, c, S8.format)


def _wrapped(x0: Array, x1: Array, x2: Array) -> Array:
    a, b, c = (x.astype(np.int64) for x in mma.matrices(x0, x1, x2, S8.format))
    return (a @ b + c).astype(np.uint32).view(np.int32)[mma.c_positions()].reshape(-1)


def _product(operands: Operands, cases: tuple[Conformance, ...], least_cc: int = 80) -> Primitive:
    name, depth, width, c = f"mma_{operands.name}", operands.depth, operands.format.per_word, operands.c
    one, total = operands.name, "s32" if c == "int" else "f32"
    bits = {1: "r", 2: "(u16)(r >> (16 * e))", 4: "(u8)(r >> (8 * e))"}[width]
    return Primitive(
        name,
        f"Tensor Core product, 16x8x{depth}, {operands.what}, {operands.sums}",
        least_cc,
        mma.ptx(name, f"m16n8k{depth}", f"{total}.{one}.{one}.{total}", c),
        operands.before + mma.emulated(name, width, operands.value.format(bits=bits), c),
        (name,),
        cases,
    )


def _reals(
    operands: Operands,
    least_cc: int = 80,
    tolerance: float = mma.TOLERANCE,
    more: Callable[[], tuple[Array, ...]] | None = None,
) -> Primitive:
    """The product of a floating-point type. ``more``: inputs of a further case, whose values are not rounded to the
    type."""
    cases = mma.float_cases(f"mma_{operands.name}", operands.format, floats, operands.special, tolerance)
    if more is not None:
        last = cases[-1]
        cases = (*cases, replace(last, name="unrounded", inputs=more))
    return _product(operands, cases, least_cc)


_BODY = mma.body("mma_s8", "int32")

PRIMITIVES = (
    _reals(F16),
    _reals(BF16),
    _reals(TF32, more=_unrounded),
    _MMA_F64,
    _product(
        S8,
        (
            Conformance("random", _BODY, _any_bits, "int32", 128, _wrapped),
            Conformance("wrap", _BODY, _wrap, "int32", 128, _wrapped),
        ),
    ),
    _reals(E4M3, 89, _TOLERANCE),
    _reals(E5M2, 89, _TOLERANCE),
)  # fmt: skip
