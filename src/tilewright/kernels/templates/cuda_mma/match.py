"""Recognition of products for Tensor Cores: a plain sum of a * b with operand types of an ``mma.sync`` instruction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from tilewright.core import TF32X3
from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.expr import BYTES, FLOAT8, SIXTEEN, TF32, Expr, const, load
from tilewright.kernels.expression.program import Program
from tilewright.kernels.primitives.mma_types import ROUNDING
from tilewright.kernels.templates.cuda.match import CudaContraction, folded
from tilewright.kernels.templates.cuda.match import match as contraction
from tilewright.kernels.templates.cuda.operand import Operand
from tilewright.kernels.templates.cuda.scales import BlockScales
from tilewright.kernels.templates.cuda_mma.instruction import INSTRUCTIONS, Instruction
from tilewright.kernels.templates.cuda_mma.source import Source


@dataclass(frozen=True)
class Product:
    """A matched program: the contraction ``c``, its matrix instruction and its two operands."""

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

    @property
    def sets(self) -> int:
        """Number of accumulators of each output: 1, or 2 if blocks of k are scaled (one for the current block)."""
        return 1 if self.c.scales is None else 2

    def whole(self, depth: int) -> bool:
        """Whether tiles of ``depth`` along k divide the blocks that share a scale."""
        return self.c.scales is None or self.c.scales.depth % depth == 0


BITS = "uint8"
"""Dtype of 8-bit floats in a matched program: raw bits that only the instruction interprets."""


@lru_cache(maxsize=256)
def match(program: Program) -> Product | None:
    """Recognises a program as a product, or returns ``None`` for a different body, dtype or reduction."""
    return product(program, contraction)


def product(program: Program, recognise: Callable[[Program], CudaContraction | None]) -> Product | None:
    """Recognises a program as a product, given the function that recognises its contraction."""
    bits, real = _as_bits(program)
    c = recognise(bits)
    if c is None or not c.is_product:
        return None
    c = folded(c)
    sides = [Operand(c, side) for side in ("a", "b")]
    if real:
        if any(o.plain is None or o.plain.tensor.dtype != BITS or not _multiplied(o, real) for o in sides):
            return None
        return _tiled(Product(c, INSTRUCTIONS[real], Source(c, "a", BITS), Source(c, "b", BITS)))
    types = {o.plain.tensor.dtype for o in sides if o.plain is not None}
    # 8-bit integers beside 16-bit floats are multiplied as 16-bit floats, which hold them exactly.
    reals = types - set(BYTES)
    dtype = reals.pop() if len(reals) == 1 and types <= {*SIXTEEN, *BYTES} else next(iter(types), "")
    if (reals and types != {dtype}) or not all(_multiplied(o, dtype) for o in sides):
        return None
    return _tiled(Product(c, INSTRUCTIONS[dtype], Source(c, "a", dtype), Source(c, "b", dtype)))


def _tiled(p: Product) -> Product | None:
    """The product, or ``None`` if its scales' blocks are not a multiple of the shortest tile of k."""
    return p if p.whole(p.instruction.least_depth) else None


def eight_bit(p: Product) -> bool:
    """Whether a product multiplies 8-bit floats, whose sums Tensor Cores round more coarsely than float32."""
    return p.instruction.dtype in FLOAT8


@lru_cache(maxsize=256)
def summed(p: Product, precision: str) -> Product:
    """A product adapted to a precision.

    Tensor Cores truncate sums. So for ``tf32x3``, they sum single tiles of k only, and CUDA cores add up the tiles (as
    blocks with scale 1).
    """
    if precision != TF32X3 or p.instruction.dtype != "float32" or p.c.scales is not None:
        return p
    c = replace(p.c, scales=BlockScales(0, {"b": const(1.0, "float32")}))
    return replace(p, c=c, a=replace(p.a, c=c), b=replace(p.b, c=c))


def rounding(p: Product) -> float:
    """Factor by which the rounding of sums may exceed the program's own."""
    return ROUNDING if eight_bit(p) else 1.0


def _as_bits(program: Program) -> tuple[Program, str]:
    """A program with its 8-bit floats replaced by raw bits, and their dtype.

    Returns the program unchanged and "" unless exactly two inputs are 8-bit floats of one dtype, each read once. Any
    further read would take the bits for numbers.
    """
    found = {t.dtype for t in program.inputs if t.dtype in FLOAT8}
    reals = {t.name for t in program.inputs if t.dtype in FLOAT8}
    reads = [str(x.value) for s in program.stages for e in s.body for x in e.walk() if x.op == "load"]
    once = all(reads.count(name) == 1 for name in reals) and len(reals) == 2
    if len(found) != 1 or not once or any(s.dtype in FLOAT8 for s in program.stages):
        return program, ""

    def bits(e: Expr) -> Expr | None:
        return load(str(e.value), BITS, e.args) if e.op == "load" and e.value in reals else None

    inputs = tuple(replace(t, dtype=BITS) if t.name in reals else t for t in program.inputs)
    stages = tuple(replace(s, body=tuple(e.map(bits) for e in s.body)) for s in program.stages)
    return replace(program, inputs=inputs, stages=stages), found.pop()


def _multiplied(o: Operand, dtype: str) -> bool:
    """Whether a side is one read with exactly the conversion that the instruction for ``dtype`` needs."""
    plain = o.plain
    if plain is None or plain.other != 0 or dtype not in INSTRUCTIONS:
        return False
    if (
        plain.tensor.dtype != dtype
        and dtype not in FLOAT8
        and (dtype not in SIXTEEN or plain.tensor.dtype not in BYTES)
    ):
        return False
    record = DTYPES[dtype]
    # The operand's required conversion, any one of ``wraps`` (none if empty), and the dtype of sums.
    wraps = TF32 if dtype == "float32" else ("cast",) if record.stored_only else ()
    acc = record.accumulated
    wrapped = [(x.op in wraps, x.dtype) for x in plain.chain] == [(True, acc)] if wraps else not plain.chain
    return wrapped and o.c.acc == acc
