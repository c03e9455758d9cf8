"""The matrix instructions, one an operand type, and which factors they multiply.

All have 16 rows and 8 columns, and but for float64 32 bytes of depth an operand, so that a fragment of 8 rows by 16
bytes is one 8x8 matrix of ``ldmatrix`` for each of them. Of float64 there are as many elements in a fragment as of
TF32, each in a register of its own (of 64 bits).
"""

from __future__ import annotations

from dataclasses import dataclass

ROWS = 16
"""Rows of one instruction (operand A)."""
COLUMNS = 8
"""Columns of one instruction (operand B)."""
A_REGISTERS, B_REGISTERS = 4, 2
"""Registers in which a lane holds the operands of one instruction."""
DOUBLE = 8
"""Bytes of a float64."""
CHUNK = 16
"""Bytes of one row of an 8x8 matrix; what a swizzle keeps together."""


@dataclass(frozen=True)
class Instruction:
    """One matrix instruction.

    ``storage`` is the C type of the operands in memory, ``acc`` that of sums.
    """

    dtype: str
    function: str
    item: int
    storage: str
    acc: str

    @property
    def register(self) -> str:
        """C type of a register of an operand."""
        return "double" if self.item == DOUBLE else "tw::u32"

    @property
    def words(self) -> int:
        """Registers of 32 bits that an operand's register, or a sum, takes."""
        return 2 if self.item == DOUBLE else 1

    @property
    def overhead(self) -> int:
        """Registers of addresses, counters and predicates of the main loop, beside one a copy: observed."""
        return 22 if self.item == DOUBLE else 40

    @property
    def depth_bytes(self) -> int:
        """Bytes of one operand row that one instruction takes."""
        return 32 * self.words

    @property
    def depth(self) -> int:
        """Elements of k that one instruction takes."""
        return self.depth_bytes // self.item

    @property
    def least_depth(self) -> int:
        """Elements of k of the shortest tile: two instructions."""
        return 2 * self.depth

    @property
    def chunk(self) -> int:
        """Elements of 16 bytes."""
        return CHUNK // self.item

    @property
    def peak(self) -> str:
        """The target's limit that names its dense peak."""
        return {1: "int8_tensor_ops", 2: "fp16_tensor_flops", 4: "tf32_tensor_flops", 8: "fp64_tensor_flops"}[self.item]


INSTRUCTIONS = {
    "float16": Instruction("float16", "mma_f16", 2, "tw::f16", "float"),
    "bfloat16": Instruction("bfloat16", "mma_bf16", 2, "tw::bf16", "float"),
    "float32": Instruction("float32", "mma_tf32", 4, "float", "float"),
    "float64": Instruction("float64", "mma_f64", 8, "double", "double"),
    "int8": Instruction("int8", "mma_s8", 1, "signed char", "int"),
    "float8_e4m3fn": Instruction("float8_e4m3fn", "mma_e4m3", 1, "unsigned char", "float"),
    "float8_e5m2": Instruction("float8_e5m2", "mma_e5m2", 1, "unsigned char", "float"),
}
"""By the operands' dtype; float32 stands for operands that the expression rounds or cuts to TF32."""
