"""C++ that hands a warp's accumulators to the epilogue: straight from fragments, or through shared memory.

A fragment holds two neighbours along n in each of two rows. 16-bit outputs stored that way fill half of
each 32-byte sector; rows that pass through shared memory leave in pieces of 16 bytes.
"""

from __future__ import annotations

from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.cuda import splitk
from tilewright.kernels.templates.cuda.epilogue import Epilogue
from tilewright.kernels.templates.cuda_mma.geometry import STRIP_GAP, STRIP_RUN, Plan
from tilewright.kernels.templates.cuda_mma.instruction import COLUMNS, ROWS


def epilogue(p: Plan) -> Epilogue:
    """The epilogue of the main kernel, or, where k is split, of the one that merges the pieces."""
    return Epilogue(p.p.c, 0 if p.split_k else width(p), p.edges)


def define(p: Plan) -> str:
    """The functions by which a thread stores :func:`width` values."""
    partial = splitk.define(p.p.c, width(p), p.edges) if p.split_k else ""
    return epilogue(p).define() + partial


def _call(p: Plan, m: str, n: str) -> str:
    if p.split_k:
        return splitk.store(p.p.c, "v", width(p), p.edges, m, n)
    return epilogue(p).store("v", p.batch, m, n)


def width(p: Plan) -> int:
    """Elements along n that a lane stores at once."""
    if not p.store_shared:
        return 2
    item = 4 if p.split_k else ITEMSIZE[p.p.c.output.dtype]
    v = max(4, 16 // item)
    while p.wn % v:
        v //= 2
    return v


def store(p: Plan) -> list[str]:
    """Statements that store a block's accumulators."""
    return _through_shared(p) if p.store_shared else _direct(p)


def _direct(p: Plan) -> list[str]:
    acc = p.instruction.acc
    m, n = f"m0 + {p.warp_at('a')}i * 16 + h * 8 + lane / 4", f"n0 + {p.warp_at('b')}j * 8 + lane % 4 * 2"
    return [
        "TW_UNROLL",
        f"for (int i = 0; i < {p.mi}; i++) {{",
        "    TW_UNROLL",
        f"    for (int j = 0; j < {p.ni}; j++) {{",
        "        TW_UNROLL",
        "        for (int h = 0; h < 2; h++) {",
        f"            const {acc} v[2] = {{acc[i][j][2 * h], acc[i][j][2 * h + 1]}};",
        f"            {_call(p, m, n)}",
        "        }",
        "    }",
        "}",
    ]


def _through_shared(p: Plan) -> list[str]:
    acc, v = p.instruction.acc, width(p)
    gaps = p.wn > STRIP_RUN
    at = f"(h * 8 + lane / 4) * {p.strip} + j * 8 + lane % 4 * 2"
    to = f"{at} + j / {STRIP_RUN // COLUMNS} * {STRIP_GAP}" if gaps else at
    warp = f" + warp * {ROWS * p.strip}" if p.threads > 32 else ""
    return [
        "tw::sync();  // the ring is free",
        f"{acc} *strip = ({acc} *)smem{warp};",
        "TW_UNROLL",
        f"for (int i = 0; i < {p.mi}; i++) {{",
        "    TW_UNROLL",
        f"    for (int j = 0; j < {p.ni}; j++) {{",
        "        TW_UNROLL",
        "        for (int h = 0; h < 2; h++) {",
        f"            tw::pack<{acc}, 2> two;",
        "            two.v[0] = acc[i][j][2 * h]; two.v[1] = acc[i][j][2 * h + 1];",
        f"            tw::store_shared(strip + ({to}), two);",
        "        }",
        "    }",
        "    tw::sync_warp();",
        *("    " + x for x in _pieces(p, v)),
        *(["    tw::sync_warp();"] if p.mi > 1 else []),
        "}",
    ]


def _pieces(p: Plan, v: int) -> list[str]:
    """Statements that store 16 rows of a strip, ``v`` elements a lane."""
    acc, per_row = p.instruction.acc, p.wn // v
    pieces = ROWS * per_row
    e = "e" if pieces > 32 else "lane"
    place = f"r = {e} / {per_row}, c = {e} % {per_row} * {v}" if per_row > 1 else f"r = {e}"
    c = "c" if per_row > 1 else ""
    column = f" + {c}" if c else ""
    at = f"strip + r * {p.strip}{column}" + (f" + c / {STRIP_RUN} * {STRIP_GAP}" if p.wn > STRIP_RUN else "")
    four = f"tw::pack<{acc}, 4>"
    if v == 4:
        read = [
            f"const {four} four = tw::load_shared<{four}>({at});",
            f"const {acc} v[4] = {{four.v[0], four.v[1], four.v[2], four.v[3]}};",
        ]
    else:
        read = [
            f"{acc} v[{v}];",
            "TW_UNROLL",
            f"for (int q = 0; q < {v}; q += 4) {{",
            f"    const {four} four = tw::load_shared<{four}>({at} + q);",
            "    TW_UNROLL",
            "    for (int g = 0; g < 4; g++) v[q + g] = four.v[g];",
            "}",
        ]
    row, column = f"m0 + {p.warp_at('a')}i * 16 + r", f"n0 + {p.warp_at('b')}{c}".removesuffix(" + ")
    if pieces > 32:
        opening = f"for (int e = lane; e < {pieces}; e += 32) {{"
    else:
        opening = f"if (lane < {pieces}) {{" if pieces < 32 else "{"
    lines = [f"const int {place};", *read, _call(p, row, column)]
    return [opening, *("    " + x for x in lines), "}"]
