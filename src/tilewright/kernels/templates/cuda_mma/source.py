"""Where the elements of an operand come from: its tensor as it lies in memory, or a packed copy of it."""

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

    ``multiplied`` is the dtype of what is multiplied: the tensor's own, or a 16-bit real to which its 8-bit whole
    numbers are converted on the way, exactly. ``is_packed``: it is read from a copy in the workspace, whose rows are
    ``pitch`` elements apart, a multiple of 16 bytes, with zeros after the last.
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
        """Whether elements lie in memory in another type than they are multiplied in."""
        return self.plain.tensor.dtype != self.multiplied

    @property
    def rounds(self) -> bool:
        """Whether elements are rounded to TF32 before they are multiplied; the instruction cuts off what is left."""
        return any(x.op == "round_tf32" for x in self.plain.chain)

    @property
    def item(self) -> int:
        """Bytes of an element as it is multiplied."""
        return ITEMSIZE[self.multiplied]

    def bits(self, place: str) -> str:
        """Text of the bits, as ``tw::u32``, of the element that lies ``place`` elements into the input."""
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
        """Elements of k."""
        return self.c.k.size

    @property
    def pitch(self) -> int:
        """Elements between the rows of a packed copy."""
        return -(-self.depth // (CHUNK // self.item)) * (CHUNK // self.item)

    @cached_property
    def contiguous(self) -> str:
        """Along what neighbours lie next to each other: ``k`` or ``row``."""
        return "k" if self.is_packed else super().contiguous

    @cached_property
    def vector(self) -> int:
        """Elements that one access may hold, at most 16 bytes of them."""
        if self.is_packed:
            return CHUNK // self.item
        if self.widened:
            return 1
        return self.width(self.contiguous)

    @property
    def packed(self) -> Source:
        """The same operand, read from a packed copy."""
        return replace(self, is_packed=True)

    @cached_property
    def in_place(self) -> Source:
        """The same operand as it lies in memory."""
        return replace(self, is_packed=False)

    @cached_property
    def strides(self) -> tuple[int, int, int] | None:
        """Steps of batch, row and k (elements), where all three are linear and nothing is guarded."""
        if self.is_packed:
            return self.rows * self.pitch, self.pitch, 1
        if self.plain.guard is not None or self.plain.others:
            return None
        c, where = self.c, self.plain.where
        steps = c.batch.stride(where), self.group.stride(where), c.k.stride(where)
        return None if any(s is None for s in steps) else steps  # type: ignore[return-value]

    @property
    def packed_bytes(self) -> int:
        """Size of the packed copy; batches that the operand does not tell apart are packed once."""
        return self.batches * self.rows * self.pitch * self.item

    @property
    def batches(self) -> int:
        """How often the operand is there: once where its rows choose their batch."""
        return self.c.batches if self.side == "a" else self.c.batch.size

    def offset(self, batch: str, row: str, k: str, beyond: int = 0, used: set[str] | None = None) -> str:
        if not self.is_packed:
            return super().offset(batch, row, k, beyond, used)
        before = f"{batch} * {self.rows * self.pitch}LL + " if self.batches > 1 else ""
        return f"{before}{row} * {self.pitch}LL + {k}"

    def guard(self, batch: str, row: str, k: str, used: set[str] | None = None) -> str | None:
        return None if self.is_packed else super().guard(batch, row, k, used)
