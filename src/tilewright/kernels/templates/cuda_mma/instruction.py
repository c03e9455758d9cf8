"""The ``mma.sync`` instructions, one for each operand type.

Every instruction has 16 rows, 8 columns and, except for float64, 32 bytes of depth an operand. So a fragment of 8 rows
by 16 bytes is one 8x8 matrix of ``ldmatrix``. A float64 fragment has as many elements as a TF32 fragment, each in a
64-bit register.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dtypes import DTYPES

ROWS = 16
"""Rows of one instruction (operand A)."""
COLUMNS = 8
"""Columns of one instruction (operand B)."""
A_REGISTERS, B_REGISTERS = 4, 2
"""Registers in which a lane holds the operands of one instruction."""
DOUBLE = 8
"""Bytes of a float64."""
CHUNK = 16
"""Bytes of one row of an 8x8 matrix, the unit that a swizzle permutes."""


@dataclass(frozen=True)
class Instruction:
    """One matrix instruction.

    ``storage``: C type of the operands in memory. ``acc``: C type of sums. ``peak``: name of the target's limit with
    the dense peak.
    """

    dtype: str
    function: str
    item: int
    storage: str
    acc: str
    peak: str

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
        """Observed registers of the main loop for addresses, counters and predicates, besides one for each copy."""
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
        """Elements of k of the shortest tile: the depth of two instructions."""
        return 2 * self.depth

    @property
    def chunk(self) -> int:
        """Number of elements in 16 bytes."""
        return CHUNK // self.item


INSTRUCTIONS = {
    d.name: Instruction(
        d.name, f"mma_{d.matrix}", d.bytes, d.gpu or DTYPES[d.storage].gpu, DTYPES[d.accumulated].gpu, d.matrix_peak
    )
    for d in DTYPES.values()
    if d.matrix
}
"""Instructions by operand dtype; float32 stands for operands that the expression rounds or truncates to TF32."""
