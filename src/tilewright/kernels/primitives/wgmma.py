"""Products of a warp group: ``wgmma.mma_async`` with operands in shared memory (PTX ISA, sm_90a).

``_rs``: the first operand, of a 16-bit type, comes from registers, which are read until a wait for the product ends.

Four warps compute ``c[64][N] += a[64][K] b[K][N]``, where K is 32 bytes of an operand's row. Warp ``w`` holds rows ``16
w`` to ``16 w + 15`` in the layout of ``mma.sync``: value ``4 j + i`` of lane ``4 g + t`` is row ``g + 8 (i / 2)``,
column ``8 j + 2 t + i % 2``.

Operands lie in rows of 128 bytes with the 128-byte swizzle of tensor maps, which permutes 16-byte chunks by their
address. With K contiguous, eight rows follow each other, and the next eight rows lie ``along`` bytes further. With M or
N contiguous, a row holds 64 elements along M or N. The next eight rows of K then lie ``along`` bytes further, and the
next 64 elements of M or N ``across`` bytes further. In registers, a warp's 16 rows of the first operand have the layout
of ``mma.sync``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.core import tensor_map
from tilewright.kernels.primitives import mma_types
from tilewright.kernels.primitives.mma import Format, integers
from tilewright.kernels.primitives.mma_types import BF16, Operands
from tilewright.kernels.primitives.primitive import Array, Conformance, Primitive, words

COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)
"""Numbers of columns N that have a wrapper; the hardware has every multiple of 8 up to 256."""
WHOLE = 64
"""16-bit elements of a row in shared memory. N is a multiple of it where the first operand comes from registers."""
ROWS = 64
THREADS = 128


def _registers() -> str:
    """Macros with lists of registers that the wrappers of every type share, defined once in a translation unit."""
    lines = ["#ifndef TW_WGMMA_", "#define TW_WGMMA_"]
    for n in COLUMNS:
        r = n // 2
        names = ", ".join(f"%{i}" for i in range(r))
        lines.append(f'#define TW_NAMES_{r} "{{{names}}}, "')
    for letter in "fr":
        lines.append(
            f'#define TW_{letter}4(o) "+{letter}"(c[o]), "+{letter}"(c[o+1]), "+{letter}"(c[o+2]), "+{letter}"(c[o+3])'
        )
        size = 4
        while size < 128:
            lines.append(f"#define TW_{letter}{2 * size}(o) TW_{letter}{size}(o), TW_{letter}{size}(o+{size})")
            size *= 2
        lines.append(f"#define TW_{letter}48(o) TW_{letter}32(o), TW_{letter}16(o+32)")
        lines.append(f"#define TW_{letter}96(o) TW_{letter}64(o), TW_{letter}32(o+64)")
    return "\n".join([*lines, "#endif\n"])


def ptx(name: str, depth: int, types: str, c: str = "float", transposes: bool = True) -> str:
    """The PTX wrappers of one operand type, an overload for each number of columns.

    ``transposes``: whether operands may have M or N contiguous, and the first one may come from registers (16-bit types
    only).
    """
    letter = "f" if c == "float" else "r"
    out = [_registers()]
    for n in COLUMNS:
        r = n // 2
        # Floating-point instructions take a sign for each operand, integer instructions none.
        more = (", 1, 1" if c == "float" else "") + (f", %{r + 3}, %{r + 4}" if transposes else "")
        numbers = ', "n"(TA), "n"(TB)' if transposes else ""
        out.append(f"""\
template <int TA, int TB> TW_DEVICE void {name}({c} (&c)[{r}], u64 a, u64 b, int add) {{
    asm volatile("{{\\n.reg .pred add;\\nsetp.ne.b32 add, %{r + 2}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{types} " TW_NAMES_{r} "%{r}, %{r + 1}, add{more};\\n}}"
        : TW_{letter}{r}(0) : "l"(a), "l"(b), "r"(add){numbers});
}}
""")
        own = ", ".join(f"%{r + i}" for i in range(4))
        if transposes and n % WHOLE == 0:
            out.append(f"""\
template <int TB> TW_DEVICE void {name}_rs({c} (&c)[{r}], const u32 (&a)[4], u64 b, int add) {{
    asm volatile("{{\\n.reg .pred add;\\nsetp.ne.b32 add, %{r + 5}, 0;\\n"
        "wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{types} " TW_NAMES_{r}
        "{{{own}}}, %{r + 4}, add, 1, 1, %{r + 6};\\n}}"
        : TW_{letter}{r}(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TB));
}}
""")
    return "".join(out)


_MEANING = """
#ifndef TW_WGMMA_
#define TW_WGMMA_
template <class T> struct wgmma_ { T *c; u64 a, b; int add; const u32 *own; };
// Where element (row, k) of an operand lies, of ITEM bytes.
template <int ITEM, int T> TW_DEVICE const u8 *wgmma_at_(u64 operand, u32 row, u32 k, int line) {
    const u32 at = (u32)(operand & 0x3fff) << 4, across = (u32)(operand >> 16 & 0x3fff) << 4,
              along = (u32)(operand >> 32 & 0x3fff) << 4;
    const u32 where = T ? at + row / 64 * across + k / 8 * along + k % 8 * 128 + row % 64 * ITEM
                        : at + row / 8 * along + row % 8 * 128 + k * ITEM;
    return emu::shared_at(where ^ ((where >> 7 & 7) << 4), ITEM, ITEM, line);
}
TW_DEVICE void wgmma_check_(u64 operand, const char *which, int line) {
    if (operand >> 62 != 1) emu::fault("undefined", line, "wgmma: operand %s has an unknown layout", which);
    if ((operand & 0x3fff) << 4 & 0x380)
        emu::fault("misaligned", line, "wgmma: rows of operand %s do not begin at a multiple of 1024 bytes", which);
}
template <class T, class E, int R, int TA, int TB> TW_DEVICE void wgmma_all_(void *const *lanes, int line) {
    typedef typename E::sum S;
    constexpr int N = 2 * R, K = 32 / E::item;
    const wgmma_<T> *first = (const wgmma_<T> *)lanes[0];
    for (int l = 1; l < 128; l++) {
        const wgmma_<T> *m = (const wgmma_<T> *)lanes[l];
        if (m->a != first->a || m->b != first->b || m->add != first->add)
            emu::fault("undefined", line, "wgmma: threads of the group give different operands");
    }
    S a[64][K], b[N][K];
    if (first->own) {
        constexpr int W = 4 / E::item;
        for (int l = 0; l < 128; l++)
            for (int e = 0; e < 4 * W; e++) {
                const u8 *word = (const u8 *)(((const wgmma_<T> *)lanes[l])->own + e / W);
                const int row = l / 32 * 16 + l % 32 / 4 + e / W % 2 * 8, k = (l % 4 + e / W / 2 * 4) * W + e % W;
                a[row][k] = E::get(word + e % W * E::item);
            }
    } else {
        for (u32 i = 0; i < 64; i++)
            for (u32 k = 0; k < (u32)K; k++) a[i][k] = E::get(wgmma_at_<E::item, TA>(first->a, i, k, line));
    }
    for (u32 j = 0; j < (u32)N; j++)
        for (u32 k = 0; k < (u32)K; k++) b[j][k] = E::get(wgmma_at_<E::item, TB>(first->b, j, k, line));
    for (int l = 0; l < 128; l++) {
        const wgmma_<T> *m = (const wgmma_<T> *)lanes[l];
        for (int n = 0; n < R; n++) {
            const int row = l / 32 * 16 + l % 32 / 4 + n % 4 / 2 * 8, column = n / 4 * 8 + l % 4 * 2 + n % 2;
            S sum = m->add ? (S)m->c[n] : (S)0;
            for (int k = 0; k < K; k++) sum += a[row][k] * b[column][k];
            m->c[n] = E::round(sum);
        }
    }
}
// The shared memory that an operand of so many rows takes, for the thread sanitizer.
template <int ITEM, int T> TW_DEVICE u32 wgmma_pieces_(u64 operand, u32 rows, emu::Stretch *pieces, int line) {
    const u32 at = (u32)(operand & 0x3fff) << 4, across = (u32)(operand >> 16 & 0x3fff) << 4,
              along = (u32)(operand >> 32 & 0x3fff) << 4;
    u32 count = T ? (rows + 63) / 64 : 1, eights = T ? 4 / ITEM : rows / 8;
    for (u32 i = 0; i < count; i++) {
        const u32 from = (at & ~127u) + i * across, bytes = (eights - 1) * along + 1024;
        pieces[i].at = emu::shared_at(from, bytes, 16, line);
        pieces[i].bytes = bytes;
    }
    return count;
}
#endif
"""


def emulated(name: str, item: int, value: str, c: str = "float", transposes: bool = True) -> str:
    """The emulation of one operand type. ``value``: C++ of the element of ``item`` bytes at ``p``. Sums are as in
    ``mma.sync``."""
    text = f"""{_MEANING}
struct {name}_ : mma_{c}_ {{
    static constexpr int item = {item};
    static sum get(const u8 *p) {{ return {value}; }}
}};
template <int TA, int TB, int R>
TW_DEVICE void {name}({c} (&c)[R], u64 a, u64 b, int add, int line = __builtin_LINE()) {{
    wgmma_<{c}> mine = {{c, a, b, add, nullptr}};
    wgmma_check_(a, "a", line);
    wgmma_check_(b, "b", line);
    emu::Stretch pieces[emu::MOST_STRETCHES];
    u32 count = wgmma_pieces_<{name}_::item, TA>(a, 64, pieces, line);
    count += wgmma_pieces_<{name}_::item, TB>(b, 2 * R, pieces + count, line);
    emu::product("{name}", line, &mine, sizeof mine, wgmma_all_<{c}, {name}_, R, TA, TB>, pieces, count);
}}
"""
    return (
        text
        if not transposes
        else f"""{text}
template <int TB, int R>
TW_DEVICE void {name}_rs({c} (&c)[R], const u32 (&a)[4], u64 b, int add, int line = __builtin_LINE()) {{
    wgmma_<{c}> mine = {{c, 0, b, add, a}};
    wgmma_check_(b, "b", line);
    emu::Stretch pieces[emu::MOST_STRETCHES];
    const u32 count = wgmma_pieces_<{name}_::item, TB>(b, 2 * R, pieces, line);
    emu::product("{name}_rs", line, &mine, sizeof mine, wgmma_all_<{c}, {name}_, R, 0, TB>, pieces, count);
}}
"""
    )


# --------------------------------------------------------------------------- conformance

# TMA loads a tile of A (64 rows) and a tile of B (N rows), each four steps of K deep; registers may hold A instead.
_WGMMA_BODY = """
    TW_SHARED(smem);
    const tw::u32 raw = tw::shared_address(smem), base = (raw + 1023) & ~1023u;
    const tw::u32 sa = base, sb = base + {bytes_a}, barrier = sb + {bytes_b};
    (void)sa;
    if (threadIdx.x == 0) {{
        tw::mbarrier_init(barrier, 1);
        tw::mbarrier_fence();
    }}
    tw::sync();
    if (threadIdx.x == 0) {{
        tw::mbarrier_expect(barrier, {bytes_a} + {bytes_b});
        {load_a}
        {load_b}
    }}
    {c} acc[{r}];
    for (int i = 0; i < {r}; i++) acc[i] = 1;
{registers}
    tw::mbarrier_wait(barrier, 0);
    tw::wgmma_hold(acc);
    tw::wgmma_fence();
    TW_UNROLL
    for (int q = 0; q < {steps}; q++)
        tw::{call}(acc, {a},
            tw::wgmma_operand(sb + q * {step_b}, {across_b}, 1024), {first} + q);
    tw::wgmma_commit();
    tw::wgmma_wait<0>();
    tw::wgmma_hold(acc);
    for (int i = 0; i < {r}; i++) out[threadIdx.x * {r} + i] = acc[i];
"""

_REGISTERS = """\
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    tw::u32 a[4][4];
    TW_UNROLL
    for (int i = 0; i < 16; i++) a[i / 4][i % 4] = x0[(row + i % 2 * 8) * 32 + i / 4 * 8 + i % 4 / 2 * 4 + t];
"""


def case(
    name: str,
    fmt: Format,
    columns: int,
    ta: int,
    tb: int,
    add: bool,
    c: str = "float",
    limit: int = 8,
    own: bool = False,
) -> Conformance:
    """A case of whole numbers, exact in any order: 64 x ``columns``, 128 bytes of K, either axis of each operand
    contiguous.

    ``own``: the first operand comes from registers.
    """
    item = 4 // fmt.per_word
    depth = 128 // item
    sides = []
    for label, rows, t in (("a", 64, ta), ("b", columns, tb)):
        across = depth * 128
        # A box is 128 bytes wide: all of K, or 64 of the rows.
        if t:
            loads = [f"tw::tma_load_2d(s{label} + {i * across}, map{'ab'.index(label)}, barrier, {i * 64}, 0);"
                     for i in range(rows // 64)]  # fmt: skip
            made = tensor_map(("tensor", "ab".index(label)), item, (rows, depth), (rows * item,), (64, depth), 128)
        else:
            loads = [f"tw::tma_load_2d(s{label}, map{'ab'.index(label)}, barrier, 0, 0);"]
            made = tensor_map(("tensor", "ab".index(label)), item, (depth, rows), (depth * item,), (depth, rows), 128)
        sides.append((rows, t, made, " ".join(loads), across))
    bytes_a, bytes_b = 0 if own else 64 * 128, columns * 128
    across_a, step_a = sides[0][4] if ta else 0, 2048 if ta else 32
    body = _WGMMA_BODY.format(
        call=f"{name}_rs<{tb}>" if own else f"{name}<{ta}, {tb}>", c=c, r=columns // 2, bytes_a=bytes_a,
        bytes_b=bytes_b, load_a="" if own else sides[0][3], load_b=sides[1][3], registers=_REGISTERS if own else "",
        a="a[q]" if own else f"tw::wgmma_operand(sa + q * {step_a}, {across_a}, 1024)", steps=4,
        across_b=sides[1][4] if tb else 0, step_b=2048 if tb else 32, first=int(add),
    )  # fmt: skip

    def inputs() -> tuple[Array, ...]:
        a, b = integers(64 * depth, 60 + columns, limit), integers(columns * depth, 61 + columns, limit)
        return tuple(np.ascontiguousarray(fmt.encode(x.astype(np.float64))).view(np.uint32) for x in (a, b))

    def expected(x0: Array, x1: Array) -> Array:
        bits = fmt.encode(np.zeros(1)).dtype
        a, b = (fmt.decode(x.view(bits)) for x in (x0, x1))
        left = a.reshape(depth, 64).T if ta else a.reshape(64, depth)
        right = b.reshape(depth, columns).T if tb else b.reshape(columns, depth)
        total = left @ right.T + (1 if add else 0)
        lane, n = np.arange(128)[:, None], np.arange(columns // 2)[None, :]
        rows = lane // 32 * 16 + lane % 32 // 4 + n % 4 // 2 * 8
        return np.asarray(
            total[rows, n // 4 * 8 + lane % 4 * 2 + n % 2].astype("float32" if c == "float" else "int32").reshape(-1)
        )

    label = ("rs_" if own else "") + f"n{columns}" + ("t" if ta else "") + ("u" if tb else "") + ("" if add else "_new")
    return Conformance(
        label, body, inputs, "float32" if c == "float" else "int32", 64 * columns, expected, threads=THREADS,
        shared=1024 + bytes_a + bytes_b + 8, maps=(sides[0][2], sides[1][2]),
    )  # fmt: skip


def cases(name: str, fmt: Format, transposes: bool, c: str = "float", limit: int = 8) -> tuple[Conformance, ...]:
    """Cases of each number of columns, and of each contiguous axis where the type allows it."""
    plain = tuple(case(name, fmt, n, 0, 0, n % 3 != 0, c, limit) for n in COLUMNS)
    if not transposes:
        return plain
    return (
        *plain,
        case(name, fmt, 64, 1, 0, True),
        case(name, fmt, 128, 0, 1, True),
        case(name, fmt, 256, 1, 1, False),
        case(name, fmt, 64, 0, 0, True, own=True),
        *(case(name, fmt, n, 0, 1, n % 3 != 0, own=True) for n in (64, 128, 192)),
    )


# --------------------------------------------------------------------------- the types


def _product(operands: Operands) -> Primitive:
    """The product of one operand type. 16-bit operands may have M or N contiguous, and the first may come from
    registers."""
    name, fmt, item, c = f"wgmma_{operands.name}", operands.format, 4 // operands.format.per_word, operands.c
    total, limit = ("s32", 127) if c == "int" else ("f32", 8)
    transposes = item == 2
    at = {1: "*p", 2: "*(const u16 *)p", 4: "*(const u32 *)p"}[item]
    return Primitive(
        name,
        f"Tensor Core product of a warp group, 64xNx{operands.depth}, {operands.what} in shared memory"
        f"{' (or registers: a)' if transposes else ''}, {operands.sums}",
        90,
        ptx(name, operands.depth, f"{total}.{operands.name}.{operands.name}", c, transposes),
        operands.before + emulated(name, item, operands.value.format(bits=at), c, transposes),
        (name, f"{name}_rs") if transposes else (name,),
        cases(name, fmt, transposes, c, limit),
        most_cc=90,
    )


def _more_bits(x: Array) -> Array:
    """TF32 values whose low 13 bits are set."""
    return mma_types.TF32.format.encode(x) | np.uint32(0x1FFF)


def _unrounded(tf32: Primitive) -> Primitive:
    """The product of TF32 with a further case, whose operands have more bits than TF32."""
    raw = Format(1, _more_bits, mma_types.TF32.format.decode)
    more = replace(case(tf32.name, raw, 64, 0, 0, True), name="unrounded")
    return replace(tf32, conformance=(*tf32.conformance, more))


# --------------------------------------------------------------------------- registers

# Registers move from warp groups that need few to warp groups that hold accumulators.

_SETMAXNREG_PTX = """
template <int N> TW_DEVICE void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
template <int N> TW_DEVICE void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }
"""

_SETMAXNREG_EMULATED = """
template <int N> TW_DEVICE void fewer_registers(int line = __builtin_LINE()) { emu::group_registers(N, false, line); }
template <int N> TW_DEVICE void more_registers(int line = __builtin_LINE()) { emu::group_registers(N, true, line); }
"""

_SETMAXNREG_BODY = """
    if (threadIdx.x < 128) {
        tw::fewer_registers<40>();
        out[threadIdx.x] = x0[threadIdx.x];
    } else {
        tw::more_registers<232>();
        out[threadIdx.x] = x0[threadIdx.x] + 1;
    }
"""

_SETMAXNREG = Primitive(
    "setmaxnreg",
    "changes the register limit of a warp group's threads",
    90,
    _SETMAXNREG_PTX,
    _SETMAXNREG_EMULATED,
    ("fewer_registers", "more_registers"),
    (
        Conformance(
            "handed", _SETMAXNREG_BODY, lambda: (words(384, 53),), "uint32", 384, threads=384,
            expected=lambda x: x + (np.arange(384) >= 128).astype(np.uint32),
        ),
    ),
    most_cc=90,
)  # fmt: skip


# --------------------------------------------------------------------------- fences and waits

# Synchronisation of warp-group products (fences, groups, waits) and descriptors of operands.

# A descriptor of an operand in 128-byte swizzled rows (PTX ISA, "Matrix Descriptor Format"): the address, and the
# distances to the next rows across and along the contiguous axis, all in units of 16 bytes.
DESCRIPTOR = """
TW_DEVICE u64 wgmma_operand(u32 at, u32 across, u32 along) {
    return (u64)((at & 0x3ffff) >> 4) | (u64)(across >> 4) << 16 | (u64)(along >> 4) << 32 | 1ull << 62;
}
"""

# The empty statements keep the compiler from using accumulators while products are in flight.
_WGMMA_SYNC_PTX = (
    DESCRIPTOR
    + """
TW_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TW_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> TW_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
template <int R> TW_DEVICE void wgmma_hold(float (&c)[R]) {
    TW_UNROLL
    for (int i = 0; i < R; i++) asm volatile("" : "+f"(c[i]) :: "memory");
}
template <class T, int R> TW_DEVICE void wgmma_hold(T (&c)[R]) {
    TW_UNROLL
    for (int i = 0; i < R; i++) asm volatile("" : "+r"(c[i]) :: "memory");
}
"""
)

_WGMMA_SYNC_EMULATED = (
    DESCRIPTOR
    + """
TW_DEVICE void wgmma_fence(int line = __builtin_LINE()) { emu::product_fence(line); }
TW_DEVICE void wgmma_commit(int line = __builtin_LINE()) { emu::product_commit(line); }
template <int PENDING> TW_DEVICE void wgmma_wait(int line = __builtin_LINE()) { emu::product_wait(PENDING, line); }
template <class T, int R> TW_DEVICE void wgmma_hold(T (&)[R]) {}
"""
)

_WGMMA_SYNC = Primitive(
    "wgmma_sync",
    "fences, groups and waits of a warp group's products; descriptors of their operands",
    90,
    _WGMMA_SYNC_PTX,
    _WGMMA_SYNC_EMULATED,
    ("wgmma_operand", "wgmma_fence", "wgmma_commit", "wgmma_wait", "wgmma_hold"),
    (case("wgmma_bf16", BF16.format, 32, 0, 0, True),),
    most_cc=90,
)

PRIMITIVES = (
    _SETMAXNREG,
    _WGMMA_SYNC,
    _product(mma_types.F16),
    _product(mma_types.BF16),
    _unrounded(_product(mma_types.TF32)),
    _product(mma_types.S8),
    _product(mma_types.E4M3),
    _product(mma_types.E5M2),
)
