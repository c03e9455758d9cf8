"""The source of an operand's elements: the tensor itself, or a packed copy."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.caching import cached_property
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.cuda.operand import Operand, Plain
from tilewright.kernels.templates.cuda.text import STORAGE
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK

_RAW = {1: "tw::u8", 2: "tw::u16", 4: "tw::u32"}


@dataclass(frozen=True)
class Source(Operand):
    """An operand of a product, which is one read, as rows (m or n) of k elements.

    ``multiplied``: dtype of the operands of the instruction. It is the tensor's own, or a 16-bit float to which 8-bit
    integers are converted exactly during the copy. ``is_packed``: the operand is read from a copy in the workspace. Its
    rows have a pitch of ``pitch`` elements, a multiple of 16 bytes, and end in zeros.
    """

    multiplied: str
    is_packed: bool = False

    @cached_property
    def plain(self) -> Plain:
        found = super().plain
        assert found is not None
        return found

    @property
    def widened(self) -> bool:
        """Whether the dtype in memory differs from the dtype that is multiplied."""
        return self.plain.tensor.dtype != self.multiplied

    @property
    def rounds(self) -> bool:
        """Whether elements are rounded to TF32 before the product; the instruction itself truncates."""
        return any(x.op == "round_tf32" for x in self.plain.chain)

    @property
    def item(self) -> int:
        """Bytes of an element in the dtype that is multiplied."""
        return ITEMSIZE[self.multiplied]

    def bits(self, place: str) -> str:
        """Text of the bits, as ``tw::u32``, of the element at offset ``place`` of the input."""
        if not self.widened:
            return f"(tw::u32)tw::load_global<{_RAW[self.item]}>({self.tensor} + ({place}))"
        short = "bf16" if self.multiplied == "bfloat16" else "f16"
        value = f"tw::load_global<{STORAGE[self.plain.tensor.dtype]}>({self.tensor} + ({place}))"
        return f"(tw::u32)tw::to_{short}((float){value}).bits"

    @property
    def tensor(self) -> str:
        """Name of the input."""
        return self.plain.tensor.name

    @property
    def rows(self) -> int:
        return self.group.size

    @property
    def depth(self) -> int:
        """Number of elements of k."""
        return self.c.k.size

    @property
    def pitch(self) -> int:
        """Row pitch of a packed copy, in elements."""
        return -(-self.depth // (CHUNK // self.item)) * (CHUNK // self.item)

    @cached_property
    def contiguous(self) -> str:
        """The contiguous axis in memory: ``k`` or ``row``."""
        return "k" if self.is_packed else super().contiguous

    @cached_property
    def vector(self) -> int:
        """Largest vector width of an access, in elements: at most 16 bytes."""
        if self.is_packed:
            return CHUNK // self.item
        if self.widened:
            return 1
        return self.width(self.contiguous)

    @property
    def packed(self) -> Source:
        """This operand, read from a packed copy."""
        return replace(self, is_packed=True)

    @cached_property
    def in_place(self) -> Source:
        """This operand, read from its tensor."""
        return replace(self, is_packed=False)

    @cached_property
    def strides(self) -> tuple[int, int, int] | None:
        """Strides of batch, row and k, in elements; ``None`` unless all are linear and the read has no guard."""
        if self.is_packed:
            return self.rows * self.pitch, self.pitch, 1
        if self.plain.guard is not None or self.plain.others:
            return None
        c, where = self.c, self.plain.where
        steps = c.batch.stride(where), self.group.stride(where), c.k.stride(where)
        return None if any(s is None for s in steps) else steps  # type: ignore[return-value]

    @property
    def packed_bytes(self) -> int:
        """Bytes of the packed copy; an operand whose rows choose their batch is packed once."""
        return self.batches * self.rows * self.pitch * self.item

    @property
    def batches(self) -> int:
        """Number of batches of the operand: 1 for side A if rows choose their batch."""
        return self.c.batches if self.side == "a" else self.c.batch.size

    def offset(self, batch: str, row: str, k: str, beyond: int = 0, used: set[str] | None = None) -> str:
        if not self.is_packed:
            return super().offset(batch, row, k, beyond, used)
        before = f"{batch} * {self.rows * self.pitch}LL + " if self.batches > 1 else ""
        return f"{before}{row} * {self.pitch}LL + {k}"

    def guard(self, batch: str, row: str, k: str, used: set[str] | None = None) -> str | None:
        return None if self.is_packed else super().guard(batch, row, k, used)
