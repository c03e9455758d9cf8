"""Recognising products for Tensor Cores: a plain sum of a * b, whose factors an instruction multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tilewright.kernels.program import Program
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


def match(program: Program) -> Product | None:
    """The product that a program is, or ``None``: another body, dtype or reduction."""
    return _match(program.dumps())


@lru_cache(maxsize=256)
def _match(text: str) -> Product | None:
    c = contraction(Program.loads(text))
    if c is None or c.a is None or not c.is_product:
        return None
    a, b = _source(c, "a"), _source(c, "b")
    if a is None or b is None or a.plain.tensor.dtype != b.plain.tensor.dtype:
        return None
    return Product(c, INSTRUCTIONS[a.plain.tensor.dtype], a, b)


def _source(c: CudaContraction, side: str) -> Source | None:
    """The side as a source, if it is one linear read under exactly the conversion of its dtype."""
    operand = Operand(c, side)
    plain = operand.plain
    if plain is None or plain.other != 0:
        return None
    chain, acc = _FACTORS.get(plain.tensor.dtype, (None, None))
    if [(x.op, x.dtype) for x in plain.chain] != [chain] or c.acc != acc:
        return None
    return Source(operand)
