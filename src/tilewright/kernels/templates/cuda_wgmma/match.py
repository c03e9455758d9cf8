"""Matching of products for warp groups: Tensor Core products whose operands TMA can copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from tilewright.dtypes import DTYPES
from tilewright.kernels.expression.program import Program
from tilewright.kernels.primitives.wgmma import ROWS
from tilewright.kernels.templates.cuda.sorting import MOST_DENSE
from tilewright.kernels.templates.cuda_mma.instruction import CHUNK
from tilewright.kernels.templates.cuda_mma.match import Product
from tilewright.kernels.templates.cuda_mma.match import match as product
from tilewright.kernels.templates.cuda_mma.source import Source
from tilewright.kernels.templates.cuda_wgmma import window

FUNCTIONS = {d.name: f"wgmma_{d.matrix}" for d in DTYPES.values() if d.matrix and d.bits <= 32}
"""The WGMMA primitive for operands of a type. float32 stands for operands that the instruction truncates to TF32."""


@lru_cache(maxsize=256)
def match(program: Program) -> Product | None:
    """The product that a program computes, or ``None``."""
    return multiplied(product(program))


def multiplied(p: Product | None) -> Product | None:
    """``p`` if warp groups have an instruction for its operand type, else ``None``."""
    return p if p is not None and p.instruction.dtype in FUNCTIONS else None


def sorted_rows(p: Product | None) -> Product | None:
    """The product if warp groups can compute it where rows choose their batch, else ``None``.

    Its A is a gathered copy, whose rows are in the order of their batches. Block scales are not gathered, so a product
    with scales is refused.
    """
    found = multiplied(p)
    if found is None or found.c.scales is not None or found.c.batch.size > MOST_DENSE:
        return None
    return replace(found, a=found.a.packed)


@lru_cache(maxsize=256)
def swapped(p: Product) -> Product:
    """The product with swapped operands, C^T = B^T A^T: n becomes m, and results are stored transposed."""
    scales = p.c.scales.swapped if p.c.scales is not None else None
    c = replace(p.c, m=p.c.n, n=p.c.m, lhs=p.c.rhs, rhs=p.c.lhs, scales=scales)
    return replace(p, c=c, a=Source(c, "a", p.b.multiplied), b=Source(c, "b", p.a.multiplied))


def views(p: Product) -> Mapping[bool, Product]:
    """The product as stated, and, where it has few rows, with swapped operands: a warp group multiplies 64 rows."""
    few = p.m < 2 * ROWS and p.m < p.n
    return {False: p, True: swapped(p)} if few else {False: p}


def refuses(p: Product) -> str:
    """Why TMA cannot copy the operands; empty where it can."""
    for s in (p.a, p.b):
        name = f"operand {s.tensor}"
        if s.rounds:
            return f"rounds {name} to TF32, which is multiplied as it was fetched; precision=tf32_truncated cuts it"
        if window.window(s) is not None:
            continue
        if not window.tiled(s) or s.strides is None:
            return f"reads {name} at positions that no tensor map describes"
        batch, row, k = s.strides
        if (k if s.contiguous == "k" else row) != 1:
            return f"has neighbours of {name} along neither of its axes"
        outer = row if s.contiguous == "k" else k
        if any(step * s.item % CHUNK for step in (batch, outer)):
            return f"has rows of {name} that are not a whole number of {CHUNK} bytes apart"
        if s.contiguous == "row" and s.item != 2:
            return f"has {8 * s.item}-bit elements of {name} whose K is not contiguous"
        if 0 in (row, k) and s.rows > 1:
            return f"reads the same row of {name} over and over"
    deep = window.depth(p)
    if not p.whole(deep.line):
        return f"has scales that change within {deep.line} elements along K"
    if p.sets > 1 and deep.padded:
        return "has scales of K, which is filled up with zeros"
    return window.refuses(p)


def batched(s: Source) -> bool:
    """Whether each batch has its own operand."""
    return s.strides is not None and s.batches > 1 and s.strides[0] != 0
