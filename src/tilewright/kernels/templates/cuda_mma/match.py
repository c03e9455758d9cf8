"""Recognising products for Tensor Cores: a plain sum of a * b, whose factors an instruction multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.kernels.expression.expr import SIXTEEN
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.match import match as contraction
from tilewright.kernels.templates.cuda.operand import Operand
from tilewright.kernels.templates.cuda_mma.instruction import INSTRUCTIONS, Instruction
from tilewright.kernels.templates.cuda_mma.source import Source


@dataclass(frozen=True)
class Product:
    """A matched program: ``c``, the instruction that multiplies it, and its two operands."""

    c: CudaContraction
    instruction: Instruction
    a: Source
    b: Source

    @property
    def batch(self) -> int:
        return self.c.batch.size

    @property
    def m(self) -> int:
        return self.c.m.size

    @property
    def n(self) -> int:
        return self.c.n.size

    @property
    def k(self) -> int:
        return self.c.k.size


# What an operand must be wrapped in, and what is summed.
_FACTORS = {
    "float16": (("cast", "float32"), "float32"),
    "bfloat16": (("cast", "float32"), "float32"),
    "float32": (("round_tf32", "float32"), "float32"),
    "int8": (("cast", "int32"), "int32"),
}


WHOLE = ("int8", "uint8")


@lru_cache(maxsize=256)
def match(text: str) -> Product | None:
    """The product that a program (canonical text) is, or ``None``: another body, dtype or reduction."""
    c = contraction(text)
    if c is None or not c.is_product:
        return None
    sides = [Operand(c, side) for side in ("a", "b")]
    types = {o.plain.tensor.dtype for o in sides if o.plain is not None}
    # 8-bit whole numbers beside a 16-bit real are multiplied as such reals, which hold them exactly.
    reals = types - set(WHOLE)
    dtype = reals.pop() if len(reals) == 1 and types <= {*SIXTEEN, *WHOLE} else next(iter(types), "")
    if (reals and types != {dtype}) or not all(_multiplied(o, dtype) for o in sides):
        return None
    a, b = (Source(o, dtype) for o in sides)
    return Product(c, INSTRUCTIONS[dtype], a, b)


def _multiplied(o: Operand, dtype: str) -> bool:
    """Whether a side is one read under exactly the conversion of what is multiplied."""
    plain = o.plain
    if plain is None or plain.other != 0 or dtype not in INSTRUCTIONS:
        return False
    if plain.tensor.dtype != dtype and (dtype not in SIXTEEN or plain.tensor.dtype not in WHOLE):
        return False
    chain, acc = _FACTORS[dtype]
    return [(x.op, x.dtype) for x in plain.chain] == [chain] and o.c.acc == acc
