"""The matrix instructions, one an operand type, and which factors they multiply.

All have 16 rows, 8 columns and 32 bytes of depth an operand, so that a fragment of 8 rows by 16 bytes
is one 8x8 matrix of ``ldmatrix`` for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

ROWS = 16
"""Rows of one instruction (operand A)."""
COLUMNS = 8
"""Columns of one instruction (operand B)."""
DEPTH_BYTES = 32
"""Bytes of one operand row that one instruction takes."""
CHUNK = 16
"""Bytes of one row of an 8x8 matrix; what a swizzle keeps together."""


@dataclass(frozen=True)
class Instruction:
    """One matrix instruction.

    ``storage`` is the C type of the operands in memory, ``raw`` the unsigned type of the same size,
    ``acc`` the C type of sums.
    """

    dtype: str
    function: str
    item: int
    storage: str
    raw: str
    acc: str

    @property
    def depth(self) -> int:
        """Elements of k that one instruction takes."""
        return DEPTH_BYTES // self.item

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes."""
        return CHUNK // self.item

    @property
    def peak(self) -> str:
        """The target's limit that names its dense peak."""
        if self.dtype == "float32":
            return "tf32_tensor_flops"
        return "int8_tensor_ops" if self.item == 1 else "fp16_tensor_flops"


INSTRUCTIONS = {
    "float16": Instruction("float16", "mma_f16", 2, "tw::f16", "tw::u16", "float"),
    "bfloat16": Instruction("bfloat16", "mma_bf16", 2, "tw::bf16", "tw::u16", "float"),
    "float32": Instruction("float32", "mma_tf32", 4, "float", "tw::u32", "float"),
    "int8": Instruction("int8", "mma_s8", 1, "signed char", "tw::u8", "int"),
    "float8_e4m3fn": Instruction("float8_e4m3fn", "mma_e4m3", 1, "unsigned char", "tw::u8", "float"),
    "float8_e5m2": Instruction("float8_e5m2", "mma_e5m2", 1, "unsigned char", "tw::u8", "float"),
}
"""By the operands' dtype; float32 stands for operands that the expression rounds or cuts to TF32."""
