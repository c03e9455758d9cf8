"""Element types: one record for each, which every layer consults.

:data:`DTYPES` holds the records by name. A new element type is a record here. If it has a C++ type of its own, it also
needs conversions: ``kernels/codegen/headers/`` for CPUs, ``kernels/primitives/convert.py`` for GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class Agreement:
    """Largest accepted differences between two correct results of an element type, relative to the largest magnitude.

    ``operator``: for one small operator; ``kernel``: for a tuned kernel of any size; ``model``: for a network.
    """

    operator: float
    kernel: float
    model: float


@dataclass(frozen=True)
class DType:
    """An element type.

    ``bits``: size of an element in memory. ``cpu`` and ``gpu``: its C++ types. OpenCL C derives from the GPU's C++; a
    type without ``gpu`` reaches a GPU as bit patterns only. ``computed``: element type of arithmetic on values.
    ``accumulated``: element type of sums of products. For reals, ``digits`` counts significant bits (the implicit one
    included) and ``exponent`` counts exponent bits; without ``infinities``, the largest exponent has finite values too.
    ``storage``: the NumPy dtype whose arrays hold the bit patterns of a type that NumPy lacks. A packed type, of less
    than 8 bits, has no C++ types: programs read its bytes as ``storage``, which has the packed type's sign. ``matrix``:
    suffix of the matrix instructions that multiply the type (``mma_<matrix>``); for float32 they round to TF32.
    ``spellings``: names of the type in C and C++ kernels that users write.
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
        """The NumPy dtype of arrays; for a type that NumPy lacks, the dtype of its bit patterns."""
        return np.dtype(self.storage or self.name)

    @property
    def per_byte(self) -> int:
        """Number of elements in a byte of memory: above 1 for packed types only.

        Only inputs may have a packed type; elements are packed along the last axis.
        """
        return 8 // self.bits if self.bits < 8 else 1

    @property
    def c(self) -> str:
        """C89 type of an element; conditions and types that C89 lacks are unsigned integers of equal size."""
        if self.kind == "bool" or "::" in self.cpu:
            return "unsigned char" if self.bits == 8 else "unsigned short"
        return self.cpu

    @property
    def stored_only(self) -> bool:
        """Whether arithmetic on the type's values uses another type."""
        return self.computed != self.name

    # -- whole numbers

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type or of bool."""
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
        """Half the distance between the smallest values of a real type, 0.0 where float64 cannot represent it."""
        return 2.0 ** (self.least_exponent - self.digits)

    @property
    def largest(self) -> float:
        """Largest finite value of a real type."""
        top = 1 - self.least_exponent + (not self.infinities)
        return (2.0 - 2.0 ** (1 - self.digits) * (1 if self.infinities else 2)) * 2.0**top

    @property
    def finite_codes(self) -> int:
        """Number of bit patterns of a real type's finite values, negative values excluded."""
        most = 1 << self.bits - 1
        return most - (1 << self.digits - 1) if self.infinities else most - 1

    # -- matrix units

    @property
    def matrix_unit(self) -> str:
        """Name, as in the bounds of kernels, of the GPU's matrix unit that multiplies elements of this size."""
        return _UNITS[self.bytes][0]

    @property
    def matrix_peak(self) -> str:
        """Name of the target's limit that holds the matrix unit's dense peak. 8-bit reals are as fast as int8."""
        return _UNITS[self.bytes][1]


_UNITS = {
    1: ("int8", "int8_tensor_ops"), 2: ("fp16", "fp16_tensor_flops"), 4: ("tf32", "tf32_tensor_flops"),
    8: ("fp64_tensor", "fp64_tensor_flops"),
}  # fmt: skip
"""Matrix unit and the target's limit of its peak, by bytes of an operand's element."""

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
"""Type of index arithmetic; no tensor has it."""

VALUES = {d.name: d for d in (*DTYPES.values(), POSITION) if d.per_byte == 1}
"""The records of all types that values in a program may have, by name. Elements of packed types are read as
``computed``."""


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of an element type's arrays; names that only NumPy knows are accepted too."""
    return DTYPES[name].numpy if name in DTYPES else np.dtype(name)


C_BYTES = {ctype: d.bytes for d in DTYPES.values() for ctype in (d.cpu, d.gpu) if ctype}
"""Bytes of each C type of an element."""
