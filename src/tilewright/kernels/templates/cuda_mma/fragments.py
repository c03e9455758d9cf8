"""C++ that reads fragments from shared memory and multiplies them.

For each 8 rows of an operand, a fragment of one instruction is two matrices of 8 rows by 16 bytes. ``ldmatrix`` loads
them if k is contiguous in shared memory, and transposed for 16-bit elements if rows are. 4-byte elements of contiguous
rows, and all 8-byte elements, are read one by one.
"""

from __future__ import annotations

from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling, Side, singly
from tilewright.kernels.templates.cuda_mma.instruction import A_REGISTERS, B_REGISTERS


def _first(s: Side, p: MmaTiling) -> tuple[str, str]:
    """Texts of the row and k, in the tile, of a lane's first read."""
    warp, chunk = p.warp_at(s.name), p.instruction.chunk
    if singly(s.item, s.order):
        return f"{warp}lane / 4", "lane % 4"
    if s.order == "row":
        if s.name == "a":
            return f"{warp}lane / 8 % 2 * 8", "lane % 8 + lane / 16 * 8"
        if p.ni == 1:  # two matrices at once: only lanes 0 to 15 give addresses
            return f"{warp}0", "lane"
        return f"{warp}lane / 16 * 8", "lane % 16"
    if s.name == "a":
        return f"{warp}lane % 16", f"lane / 16 * {chunk}"
    if p.ni == 1:
        return f"{warp}lane % 8", f"lane / 8 * {chunk}"
    return f"{warp}lane % 8 + lane / 16 * 8", f"lane / 8 % 2 * {chunk}"


def declare(p: MmaTiling) -> list[str]:
    """Statements that compute the byte offsets of a lane's first reads in the tiles."""
    out = []
    for s in p.sides:
        row, k = _first(s, p)
        at = s.layout.text(f"({row})", f"({k})").replace("L", "")
        out.append(f"const tw::u32 at_{s.name} = {at if s.item == 1 else f'({at}) * {s.item}'};")
    return out


def read(s: Side, p: MmaTiling) -> list[str]:
    """Statements that fill ``f<side>`` for step ``q`` of ring slot ``slot``."""
    name = s.name
    base = f"s{name} + slot * {s.bytes}"
    count = p.mi if name == "a" else p.ni
    if singly(s.item, s.order):
        return _single(s, p, count)
    # Fragments are 16 rows apart. A swizzle preserves strides of 16 rows (k contiguous) or of k (rows contiguous), so
    # both strides are added outside of the xor.
    trans = "_trans" if s.order == "row" else ""
    if s.order == "k":
        address = f"{base} + {{i}} * {16 * s.line} + (at_{name} ^ (q * {p.instruction.depth_bytes}))"
    else:
        address = f"{base} + q * {p.instruction.depth * s.line} + (at_{name} ^ ({{i}} * {16 * s.item}))"
    lines = []
    if name == "a":
        return [
            "TW_UNROLL",
            f"for (int i = 0; i < {count}; i++) tw::ldmatrix_x4{trans}(fa[i], {address.format(i='i')});",
        ]
    pairs = count // 2
    if pairs:
        lines += [
            "TW_UNROLL",
            f"for (int j = 0; j < {pairs}; j++) {{",
            "    tw::u32 r[4];",
            f"    tw::ldmatrix_x4{trans}(r, {address.format(i='j')});",
            "    fb[2 * j][0] = r[0]; fb[2 * j][1] = r[1]; fb[2 * j + 1][0] = r[2]; fb[2 * j + 1][1] = r[3];",
            "}",
        ]
    if count % 2:
        lines.append(f"tw::ldmatrix_x2{trans}(fb[{count - 1}], {address.format(i=str(pairs))});")
    return lines


def _single(s: Side, p: MmaTiling, count: int) -> list[str]:
    """Statements that read fragments element by element: the lanes of a warp read 4 of k by 8 rows."""
    start, depth = f"smem + {p.ring.at(s.name)} + slot * {s.bytes}", p.instruction.depth

    def element(fragment: int, rows: int, k: int) -> str:
        """Text of an element of fragment ``i``, ``rows`` and ``k`` beyond a lane's first element."""
        if s.order == "row":
            further = f"i * {fragment * s.item}" + (f" + {rows * s.item}" if s.name == "a" else "")
            place = f"q * {depth * s.line} + {k * s.line} + (at_{s.name} ^ ({further}))"
        else:
            further = f"i * {fragment * s.line} + {rows * s.line}"
            place = f"{further} + (at_{s.name} ^ (q * {depth * s.item} + {k * s.item}))"
        return f"tw::load_shared<{p.instruction.register}>({start} + {place})"

    lines = ["TW_UNROLL", f"for (int i = 0; i < {count}; i++) {{"]
    if s.name == "a":
        lines += [f"    fa[i][{n}] = {element(16, n % 2 * 8, n // 2 * 4)};" for n in range(A_REGISTERS)]
    else:
        lines += [f"    fb[i][{n}] = {element(8, 0, n * 4)};" for n in range(B_REGISTERS)]
    return [*lines, "}"]


def rounded(p: MmaTiling) -> list[str]:
    """Statements that round fragments to TF32 if the expression rounds; the hardware truncates."""
    return [
        line
        for s, name, count, parts in ((p.a, "fa", p.mi, 4), (p.b, "fb", p.ni, 2))
        if s.source.rounds
        for line in (
            "TW_UNROLL",
            f"for (int i = 0; i < {count}; i++) {{",
            "    TW_UNROLL",
            f"    for (int e = 0; e < {parts}; e++) {name}[i][e] = tw::to_tf32(tw::bits_float({name}[i][e]));",
            "}",
        )
    ]


def multiply(p: MmaTiling) -> list[str]:
    """Statements that multiply the fragments ``fa`` and ``fb`` of one step."""
    sums = "acc" if p.fold is None else "part"

    def row(i: str, header: str) -> list[str]:
        return ["TW_UNROLL", f"for ({header}) tw::{p.instruction.function}({sums}[{i}][j], fa[{i}], fb[j]);"]

    forth, back = f"int j = 0; j < {p.ni}; j++", f"int j = {p.ni - 1}; j >= 0; j--"
    if p.mi == 1:
        return row("0", forth)
    # Every second row runs backwards, so that consecutive instructions share an operand.
    if p.mi == 2:
        return row("0", forth) + row("1", back)
    rows = row("i", forth) + row("i + 1", back)
    return ["TW_UNROLL", f"for (int i = 0; i < {p.mi}; i += 2) {{", *("    " + x for x in rows), "}"]
