"""Packing: a launch before the product copies an operand into the workspace, as rows of k padded to 16 bytes.

For operands that asynchronous copies of 16 bytes cannot fetch: rows of odd length, single bytes whose k is not
contiguous, windows of a convolution. One efficient read of an operand costs less than inefficient reads in every tile.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tilewright.core import IntExpr
from tilewright.kernels.codegen.integers import text, wide
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import axis
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.describe import reads
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.cuda.match import CudaContraction
from tilewright.kernels.templates.cuda.sizes import expression, roundup, tile_count, times, total
from tilewright.kernels.templates.cuda.splitk import workspace
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling, Side
from tilewright.kernels.templates.cuda_mma.source import Source

THREADS = 256
ALIGN = 128


def packed(p: MmaTiling) -> tuple[Side, ...]:
    """The operands that are packed."""
    return tuple(s for s in p.sides if s.source.is_packed)


def _original(p: MmaTiling, s: Side) -> Source:
    """An operand's source before packing."""
    return p.p.a if s.name == "a" else p.p.b


def arguments(p: MmaTiling) -> tuple[str, ...]:
    """Launch arguments on which the offsets of packed operands depend."""
    return ("SPLIT",) if p.split_k else ()


def _size(s: Side) -> IntExpr:
    return roundup(expression(s.source.packed_bytes), ALIGN)


def workspace_bytes(p: MmaTiling) -> IntExpr:
    """Bytes of workspace: partial results, then packed operands."""
    partial = workspace(p.p.c, p.split_k)
    copies = total(*map(_size, packed(p)))
    if copies == 0:
        return partial
    return ["+", ["*", "SPLIT", _partial(p)], copies] if p.split_k else copies


def _partial(p: MmaTiling) -> IntExpr:
    """Bytes of workspace for each split of k, rounded up so that packed operands behind the splits are aligned."""
    one = workspace(p.p.c, True)
    assert isinstance(one, list)
    return roundup(one[2], ALIGN)


def declare(p: MmaTiling) -> list[str]:
    """Statements that declare ``packed_<side>``."""
    out = []
    storage, sides = p.instruction.storage, packed(p)
    for number, s in enumerate(sides):
        at = wide(total(*map(_size, sides[:number])))
        if p.split_k:
            at = f"{wide(_partial(p))} * SPLIT + {at}"
        out.append(f"{storage} *packed_{s.name} = ({storage} *)(ws + {at});")
    return out


BODY = """\
    const long long e = (long long)blockIdx.x * $threads + threadIdx.x;
    if (e >= $chunks) return;
    const int $place;
    $declared
    tw::pack<tw::u32, 4> v;
    TW_UNROLL
    for (int w = 0; w < 4; w++) {
        v.v[w] = 0;
        TW_UNROLL
        for (int i = 0; i < $per_word; i++) {
            const int k = c * $step + w * $per_word + i;
            ${inside}v.v[w] |= $bits << (i * $item_bits);
        }
    }
    tw::store_global(packed_$side + $row * $pitch + c * $step, v);
"""


def kernel(p: MmaTiling, s: Side) -> GlobalFunction:
    """The kernel ``<symbol>_pack_<side>``: a thread collects 16 bytes of one row."""
    chunks = s.source.batches * s.source.rows * (s.source.pitch // p.instruction.chunk)
    return GlobalFunction(
        program=p.p.c.program, body=lambda _: _body(p, s), blocks=tile_count(chunks, THREADS), threads=THREADS,
        symbol=f"_pack_{s.name}", arguments=arguments(p), loops=lambda: (_nest(p, s),),
    )  # fmt: skip


def _body(p: MmaTiling, s: Side) -> str:
    source, original, step = s.source, _original(p, s), p.instruction.chunk
    per_row, rows, batches = source.pitch // step, expression(source.rows), source.batches
    batch, where = ("batch", f"((long long)batch * {text(rows)} + row)") if batches > 1 else ("0", "(long long)row")
    # Neighbouring threads read neighbouring elements in memory.
    fast, slow = (("c", str(per_row)), ("row", text(rows)))[:: 1 if original.contiguous == "k" else -1]
    outer = f"e / {fast[1]} % {slow[1]}" if batches > 1 else f"e / {fast[1]}"
    place = f"{fast[0]} = int(e % {fast[1]}), {slow[0]} = int({outer})"
    if batches > 1:
        place += f", batch = int(e / {wide(times(per_row, rows))})"
    guard = original.guard(batch, "row", "k")
    conditions = ([f"k < {source.depth}"] if source.pitch != source.depth else []) + ([f"({guard})"] if guard else [])
    return substitute(BODY, {
        "threads": THREADS, "side": s.name, "chunks": wide(expression(batches * source.rows * per_row)), "place": place,
        "per_word": 4 // s.item, "item_bits": 8 * s.item,
        "declared": next(x for x in declare(p) if f"packed_{s.name} " in x), "step": step, "pitch": source.pitch,
        "inside": f"if ({' && '.join(conditions)}) " if conditions else "", "row": where,
        "bits": original.bits(original.offset(batch, "row", "k")),
    })  # fmt: skip


def read(s: Side) -> Access | None:
    """The read of an operand from its packed copy; ``None`` if the operand is not packed."""
    source = s.source
    if not source.is_packed:
        return None
    return _read(source.c, s.name, source.pitch, source.batches, source.multiplied)


@lru_cache(maxsize=256)
def _read(c: CudaContraction, side: str, pitch: int, batches: int, dtype: str) -> Access:
    row = axis("m" if side == "a" else "n")
    if batches > 1:
        row = axis("z") * (c.m if side == "a" else c.n).size + row
    return Access(f"packed_{side}", (row * pitch + axis("k"),), dtype)


def _nest(p: MmaTiling, s: Side) -> LoopNest:
    """Loop nest of the kernel that packs an operand: a thread collects ``chunk`` elements of K."""
    copy = read(s)
    assert copy is not None
    c, chunk, row = p.p.c, p.instruction.chunk, "m" if s.name == "a" else "n"
    axes = {row: s.extent, "k": c.k.size}
    loops = []
    if s.source.batches > 1:
        axes["z"] = s.source.batches
        loops.append(Loop("z", s.source.batches, 1, "parallel", "l2"))
    if _original(p, s).contiguous == "k":
        lanes = Loop("k", THREADS * chunk, chunk, "vector", "register")
        loops += [Loop(row, s.extent, 1, "parallel", "l2"), Loop("k", c.k.size, lanes.extent, "parallel", "l2"), lanes]
    else:
        lanes = Loop(row, THREADS, 1, "vector", "register")
        loops += [
            Loop("k", c.k.size, chunk, "parallel", "l2"),
            Loop(row, s.extent, lanes.extent, "parallel", "l2"),
            lanes,
        ]
    return LoopNest(
        f"pack_{s.name}", axes, (*loops, Loop("k", chunk, 1, "unroll", "register")),
        (*reads(c, s.name), replace(copy, store=True)), flops_per_point=0, itemsize=s.item,
    )  # fmt: skip
