"""Loads of 8x8 matrices of 16-bit elements from shared memory into the registers of a warp (``ldmatrix``)."""

from __future__ import annotations

import numpy as np

from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words


def _ptx(count: int, trans: str) -> str:
    outs = ", ".join(f"%{i}" for i in range(count))
    regs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
    return f"""
TW_DEVICE void ldmatrix_x{count}{"_trans" if trans else ""}(u32 (&r)[{count}], u32 address) {{
    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{outs}}}, [%{count}];"
        : {regs} : "r"(address) : "memory");
}}"""


def _emulated(count: int, trans: str) -> str:
    name = f"ldmatrix_x{count}{'_trans' if trans else ''}"
    return f"""TW_DEVICE void {name}(u32 (&r)[{count}], u32 address, int line = __builtin_LINE()) {{
    ldmatrix_any_(r, {count}, {"true" if trans else "false"}, address, "{name}", line);
}}
"""


_KINDS = [(count, trans) for count in (4, 2) for trans in ("", ".trans")]
_PTX = "".join(_ptx(*kind) for kind in _KINDS) + "\n"

# Lane l gives the address of row l % 8 of matrix l / 8 (16 aligned bytes). Lane l receives elements 2 (l % 4) and 2 (l
# % 4) + 1 of row l / 4 of each matrix; transposed, column l / 4 of rows 2 (l % 4) and 2 (l % 4) + 1. Addresses of lanes
# past the last row are ignored.
_MEANING = """
struct ldmatrix_ { u32 *r; int count; bool trans; u16 row[8]; };
TW_DEVICE void ldmatrix_all_(void *const *lanes, int) {
    for (u32 l = 0; l < 32; l++) {
        ldmatrix_ *mine = (ldmatrix_ *)lanes[l];
        for (int i = 0; i < mine->count; i++) {
            u32 e[2];
            for (u32 j = 0; j < 2; j++) {
                u32 row = mine->trans ? l % 4 * 2 + j : l / 4, column = mine->trans ? l / 4 : l % 4 * 2 + j;
                e[j] = ((const ldmatrix_ *)lanes[(u32)i * 8 + row])->row[column];
            }
            mine->r[i] = e[0] | e[1] << 16;
        }
    }
}
TW_DEVICE void ldmatrix_any_(u32 *r, int count, bool trans, u32 address, const char *name, int line) {
    ldmatrix_ mine = {r, count, trans, {}};
    if (emu::lane() < (u32)count * 8) {
        const u8 *p = emu::shared_at(address, 16, 16, line);
        emu::note_shared(p, 16, false, line);
        __builtin_memcpy(mine.row, p, 16);
    }
    emu::warp_collective(name, line, &mine, ldmatrix_all_);
}
"""


def _case(count: int, trans: bool) -> Conformance:
    """A case that stores every lane's registers, of matrices whose rows lie scattered in shared memory."""
    name = f"ldmatrix_x{count}{'_trans' if trans else ''}"
    body = f"""
    TW_SHARED(smem);
    int t = threadIdx.x;
    for (int i = t; i < 256; i += 32) tw::store_shared(smem + 4 * i, x0[i]);
    tw::sync();
    tw::u32 r[{count}];
    tw::{name}(r, tw::shared_address(smem) + (t % {count * 8} * 5 + 3) % 64 * 16);
    for (int i = 0; i < {count}; i++) out[{count} * t + i] = r[i];
"""

    def expected(x: Array) -> Array:
        rows = x.view(np.uint16).reshape(64, 8)
        matrices = rows[(np.arange(count * 8) * 5 + 3) % 64].reshape(count, 8, 8)
        if trans:
            matrices = matrices.swapaxes(1, 2)
        # Register i of lanes 4 r to 4 r + 3 is row r of matrix i.
        return np.ascontiguousarray(matrices).view(np.uint32).reshape(count, 32).T.reshape(-1)

    size = 32 * count
    return Conformance(name, body, lambda: (words(256, 11),), "uint32", size, expected, shared=1024)


PRIMITIVE = Primitive(
    "ldmatrix",
    "two or four 8x8 matrices of 16-bit elements from shared memory, straight or transposed, to a warp",
    80,
    _PTX,
    _MEANING + "".join(_emulated(*kind) for kind in _KINDS),
    ("ldmatrix_x4", "ldmatrix_x4_trans", "ldmatrix_x2", "ldmatrix_x2_trans"),
    tuple(_case(count, bool(trans)) for count, trans in _KINDS),
)
