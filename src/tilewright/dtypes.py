"""Element types: one record each, which every layer asks.

:data:`DTYPES` holds them by name. A new element type is a record here and, where it has a C++ type of its own,
conversions to and from its values: ``kernels/codegen/headers/`` for CPUs, ``kernels/primitives/convert.py`` for GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class Agreement:
    """How far two correct results of an element type may lie apart, as a share of the largest magnitude.

    ``operator``: of one small operator; ``kernel``: of a tuned kernel, whatever its size; ``model``: of a network.
    """

    operator: float
    kernel: float
    model: float


@dataclass(frozen=True)
class DType:
    """An element type.

    ``bits`` are those of an element in memory. ``cpu`` and ``gpu`` are its C++ types there; OpenCL C is made of the
    C++ for GPUs; a type without ``gpu`` reaches a GPU as its bits alone. ``computed`` is the element type of
    arithmetic on values, ``accumulated`` that of sums of products. Of reals, ``digits`` counts significant bits (the
    implicit one included) and ``exponent`` bits of the exponent; without ``infinities``, the largest exponent has
    finite values too. ``storage`` is the NumPy dtype whose arrays hold the bit patterns of a type that NumPy lacks.
    A packed type, of less than 8 bits, has no C++ types: programs read its bytes as ``storage``, which has its sign.
    ``matrix`` ends the names of the matrix instructions that multiply the type (``mma_<matrix>``), float32 rounded to
    TF32. ``spellings`` are names in C and C++ of an element in kernels that users write.
    """

    name: str
    kind: Kind
    bits: int
    cpu: str
    gpu: str
    computed: str = ""
    accumulated: str = ""
    digits: int = 0
    exponent: int = 0
    infinities: bool = True
    storage: str = ""
    matrix: str = ""
    agreement: Agreement = Agreement(0.0, 0.0, 0.0)
    spellings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "computed", self.computed or self.name)
        object.__setattr__(self, "accumulated", self.accumulated or self.computed)

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory."""
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays: that of bit patterns, where NumPy lacks the type."""
        return np.dtype(self.storage or self.name)

    @property
    def per_byte(self) -> int:
        """Elements of a byte in memory: several of a packed type, of which only inputs are, along their last axis."""
        return 8 // self.bits if self.bits < 8 else 1

    @property
    def c(self) -> str:
        """Type of an element in C89: an unsigned whole number of its bits, for what that lacks and for conditions."""
        if self.kind == "bool" or "::" in self.cpu:
            return "unsigned char" if self.bits == 8 else "unsigned short"
        return self.cpu

    @property
    def stored_only(self) -> bool:
        """Whether values are computed in another type."""
        return self.computed != self.name

    # -- whole numbers

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of a type of whole numbers or conditions."""
        if self.kind == "bool":
            return 0, 1
        return (0, (1 << self.bits) - 1) if self.kind == "uint" else (-(1 << self.bits - 1), (1 << self.bits - 1) - 1)

    # -- reals

    @property
    def unit(self) -> float:
        """Unit roundoff: the largest relative error of rounding to a real type, 0.0 for other types."""
        return 2.0**-self.digits if self.kind == "float" else 0.0

    @property
    def least_exponent(self) -> int:
        """Exponent of the smallest normal value of a real type."""
        return 2 - (1 << self.exponent - 1)

    @property
    def half_step(self) -> float:
        """Half the distance between the smallest values of a real type, 0.0 where float64 cannot hold it."""
        return 2.0 ** (self.least_exponent - self.digits)

    @property
    def largest(self) -> float:
        """Largest finite value of a real type."""
        top = 1 - self.least_exponent + (not self.infinities)
        return (2.0 - 2.0 ** (1 - self.digits) * (1 if self.infinities else 2)) * 2.0**top

    @property
    def finite_codes(self) -> int:
        """Number of bit patterns of the finite values of a real type that are not negative."""
        most = 1 << self.bits - 1
        return most - (1 << self.digits - 1) if self.infinities else most - 1

    # -- matrix units

    @property
    def matrix_unit(self) -> str:
        """The matrix unit of a GPU that multiplies elements of this size, as bounds of kernels name it."""
        return _UNITS[self.bytes][0]

    @property
    def matrix_peak(self) -> str:
        """The target's limit that is that unit's dense peak: 8-bit reals are as fast as whole numbers."""
        return _UNITS[self.bytes][1]


_UNITS = {
    1: ("int8", "int8_tensor_ops"), 2: ("fp16", "fp16_tensor_flops"), 4: ("tf32", "tf32_tensor_flops"),
    8: ("fp64_tensor", "fp64_tensor_flops"),
}  # fmt: skip
"""By bytes of an operand's element."""

_HALF = ("unsigned short", "uint16_t", "short")
_BYTE = ("unsigned char", "uint8_t")

DTYPES = {
    d.name: d
    for d in (
        DType(
            "float64", "float", 64, "double", "double", digits=53, exponent=11, matrix="f64",
            agreement=Agreement(1e-11, 1e-9, 1e-9), spellings=("double",),
        ),
        DType(
            "float32", "float", 32, "float", "float", digits=24, exponent=8, matrix="tf32",
            agreement=Agreement(2e-4, 1e-3, 1e-4), spellings=("float",),
        ),
        DType(
            "float16", "float", 16, "tw::f16", "tw::f16", "float32", digits=11, exponent=5, matrix="f16",
            agreement=Agreement(2e-3, 3e-3, 1e-2), spellings=("tw::f16", "__half", "half", "_Float16", *_HALF),
        ),
        DType(
            "bfloat16", "float", 16, "tw::bf16", "tw::bf16", "float32", digits=8, exponent=8, storage="uint16",
            matrix="bf16", agreement=Agreement(2e-2, 2e-2, 8e-2),
            spellings=("tw::bf16", "__nv_bfloat16", "nv_bfloat16", "__bf16", *_HALF),
        ),
        DType(
            "float8_e4m3fn", "float", 8, "tw::f8e4m3", "", "float32", digits=4, exponent=4, infinities=False,
            storage="uint8", matrix="e4m3", agreement=Agreement(7e-2, 7e-2, 0.2),
        ),
        DType(
            "float8_e5m2", "float", 8, "tw::f8e5m2", "", "float32", digits=3, exponent=5, storage="uint8",
            matrix="e5m2", agreement=Agreement(0.14, 0.14, 0.4),
        ),
        DType("int64", "int", 64, "long", "long long", spellings=("long", "long long", "int64_t")),
        DType("int32", "int", 32, "int", "int", spellings=("int", "int32_t")),
        DType("int16", "int", 16, "short", "short", "int32", spellings=("short", "int16_t")),
        DType(
            "int8", "int", 8, "signed char", "signed char", "int32", matrix="s8",
            spellings=("signed char", "int8_t", "char"),
        ),
        DType("uint8", "uint", 8, "unsigned char", "unsigned char", "int32", spellings=("char", *_BYTE)),
        DType("int4", "int", 4, "", "", "int32", storage="int8"),
        DType("bool", "bool", 8, "bool", "unsigned char", spellings=("bool", "char", *_BYTE)),
    )
}  # fmt: skip
"""The element types of tensors, by name."""

POSITION = DType("index", "int", 64, "long", "long long")
"""What positions are computed in; no tensor holds them."""

VALUES = {d.name: d for d in (*DTYPES.values(), POSITION) if d.per_byte == 1}
"""The records of all types that values have, by name: of a packed type, elements are read as its computed type."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of arrays of an element type, which may be one that NumPy alone has."""
    return DTYPES[name].numpy if name in DTYPES else np.dtype(name)


C_BYTES = {ctype: d.bytes for d in DTYPES.values() for ctype in (d.cpu, d.gpu) if ctype}
"""Bytes of the C types of elements."""
