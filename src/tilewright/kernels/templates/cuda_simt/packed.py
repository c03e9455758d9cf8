"""Products of int8, four at a time: tiles hold words of four neighbours along K, which ``tw::dp4a`` multiplies.

If a side is contiguous along K, a word is read in one access. Else a thread reads four steps of K and transposes the
bytes in its registers.
"""

from __future__ import annotations

from functools import lru_cache

from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.operand import operand
from tilewright.kernels.templates.cuda.vectors import pack

WORD = 4
"""Bytes of a word, and number of steps of K in a word."""


@lru_cache(maxsize=256)
def word_steps(c: CudaContraction) -> int:
    """Number of steps of K in an element of a tile: :data:`WORD` for products of int8 with int32 sums, else 1.

    Zeros pad words beyond K and add nothing. Sums wrap with and without words.
    """
    return WORD if c.is_product and c.acc == "int32" and all(_bytes(c, side) for side in ("a", "b")) else 1


def _bytes(c: CudaContraction, side: str) -> bool:
    """Whether a side is one read of int8, or zero."""
    plain = operand(c, side).plain
    if plain is None or plain.other != 0 or plain.tensor.dtype != "int8":
        return False
    return [(x.op, x.dtype) for x in plain.chain] == [("cast", "int32")]


def gather(read: str, tests: str, vector: int) -> str:
    """Statements that gather ``vector`` elements of each of four steps of K into words.

    ``read``: text of the address of step ``h``.
    """
    whole = vector >= WORD
    count = vector // WORD if whole else vector
    kind = pack("int" if whole else "unsigned char", count)
    value = f"tw::load_global<{kind}>({read})"
    zero = f"{kind}{{}}" if count > 1 else f"({kind})0"
    return substitute(GATHER, {
        "kind": kind, "value": f"{tests} ? {value} : {zero}" if tests else value, "count": count, "whole": whole,
        "words": ", ".join(f"(int)p[{h}]{'.v[j]' if count > 1 else ''}" for h in range(WORD)),
    })  # fmt: skip


GATHER = """\
        $kind p[4];
        TW_UNROLL
        for (int h = 0; h < 4; h++) p[h] = $value;
        TW_UNROLL
        for (int j = 0; j < $count; j++) {
            int w[4] = {$words};
            tw::transpose_bytes(w);
$if whole:            TW_UNROLL
$if whole:            for (int h = 0; h < 4; h++) r[i][j * 4 + h] = w[h];
$unless whole:            r[i][j] = w[0];
        }
"""
