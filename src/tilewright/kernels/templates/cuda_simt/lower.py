"""Source of one schedule.

A block computes a tile of BM x BN in a loop over tiles of BK along K. All threads copy the next tile to shared memory,
with K outermost, while the current tile is multiplied. A warp is ``lanes_m`` x ``lanes_n`` threads. A thread's TM rows
consist of groups as wide as one shared-memory read, interleaved with other threads' groups, and so do its columns. So
the lanes of a warp read neighbouring elements.

The source omits conditions that always hold for the shape, and values that are never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.kernels.codegen import integers
from tilewright.kernels.codegen.substitution import substitute
from tilewright.kernels.expression.expr import ITEMSIZE, const
from tilewright.kernels.templates.cuda import sizes, sorting, splitk
from tilewright.kernels.templates.cuda.epilogue import identity, update
from tilewright.kernels.templates.cuda.functions import Function, pointers
from tilewright.kernels.templates.cuda.text import (
    STORAGE,
    VALUE,
    declarations,
    from_storage,
    printer,
)
from tilewright.kernels.templates.cuda.vectors import pack
from tilewright.kernels.templates.cuda_simt.geometry import SideTile, SimtTiling
from tilewright.kernels.templates.cuda_simt.packed import gather


def functions(p: SimtTiling) -> str:
    """Text of functions that copy tiles to shared memory, multiply them, and store results."""
    parts, mapping = [p.results[0]], _mapping(p)
    for s in p.sides:
        stash = "" if p.copy == "async" else substitute(STASH, _side_mapping(p, s))
        parts.append(_mover(p, s).define() + stash)
    return "".join([*parts, *(substitute(READ, _side_mapping(p, s)) for s in p.sides), substitute(COMPUTE, mapping)])


# --------------------------------------------------------------------------- global to shared memory


def _inside(p: SimtTiling, s: SideTile, used: set[str], k: str = "k") -> list[str]:
    """Conditions that an access is within the tensor's extents."""
    found, size = [], s.operand.group.size
    if not sorting.gathers_rows(p.c, s.name) and sizes.divisor(size) % s.extent:
        found.append(f"mn < {integers.text(sizes.expression(size))}")
        used |= {"mn", *sizes.used(size)}
    if p.c.k.size % p.bk:
        found.append(f"{k} < {p.c.k.size}")
        used.add("k")
    return found


@lru_cache(maxsize=256)
def _mover(p: SimtTiling, s: SideTile) -> Function:
    """``fetch_<side>`` or ``copy_<side>``: copies a thread's share of a tile into registers or shared memory."""
    t, origin, asynchronous = s.operand.ctype, "m0" if s.name == "a" else "n0", p.copy == "async"
    own, used = {x: f"int {x}" for x in (origin, "k0", "tid")}, set[str]()
    text = _copy(p, s, used) if asynchronous else _fetch(p, s, used)
    mn, k = s.place("e")
    gathers_rows = sorting.gathers_rows(p.c, s.name)
    if gathers_rows and "mn" in used:
        used.add("row_a")
    row = "row_a[i]" if gathers_rows else f"{origin} + {mn}"
    places = declarations({"mn": row, "k": f"k0 + {_steps(s, k)}"}, used, pad="        ")
    body = (
        f"    TW_UNROLL\n    for (int i = 0; i < {s.each}; i++) {{\n"
        f"        const int e = tid + i * {p.threads};\n{places}{text}    }}\n"
    )
    taken = {**pointers(p.c.program), "to": f"{t} *s" if asynchronous else f"{t} (&r)[{s.each}][{s.unit}]"}
    taken |= {"batch": "int batch", **own, "row_a": f"const int (&row_a)[{s.each}]"}
    name = f"{'copy' if asynchronous else 'fetch'}_{s.name}"
    return Function(name, "void", taken, body, used.union(own, ["to"]))


def _steps(s: SideTile, words: str) -> str:
    """Text of a number of steps of K, given the text of a number of words."""
    return words if s.pack == 1 or words == "0" else f"({words}) * {s.pack}"


def _fetch(p: SimtTiling, s: SideTile, used: set[str]) -> str:
    """Statements that read one access into registers; adds the names that they use to ``used``."""
    o = s.operand
    ctype = o.ctype
    spare = [f"e < {s.vectors}"] if s.vectors % p.threads else []
    if s.gathered:
        return _gather(p, s, spare, used)
    inside = " && ".join([*spare, *_inside(p, s, used)])
    plain = o.plain
    if plain is None:
        value = o.scalar("batch", "mn", "k", used)
        text = f"{inside} ? ({ctype})({value}) : ({ctype})0" if inside else f"({ctype})({value})"
        return f"        r[i][0] = {text};\n"
    # A failed guard gives `other`; an element outside of the matrix gives zero, usually the value of `other`.
    guard = o.guard("batch", "mn", "k", used)
    tests = " && ".join([*([inside] if inside else []), *([f"({guard})"] if guard else [])])
    storage = STORAGE[plain.tensor.dtype] if s.pack == 1 else ctype
    kind = pack(storage, s.unit)
    read = f"tw::load_global<{kind}>({plain.tensor.name} + ({o.offset('batch', 'mn', 'k', used=used)}))"
    used.add(plain.tensor.name)
    held = "p.v[j]" if s.unit > 1 else "p"
    value = f"({ctype})({o.converted(from_storage(plain.tensor.dtype, held))})" if s.pack == 1 else held
    mapping = {"kind": kind, "read": read, "value": value, "vector": s.unit, "many": s.unit > 1}
    if plain.other != 0 and tests:
        outside = printer(p.c.program, {}, {}, {}, ()).scalar(const(plain.other, o.dtype))
        other = f"({inside}) ? ({ctype}){outside} : 0" if inside else f"({ctype}){outside}"
        return substitute(FETCH_OR_OTHER, {**mapping, "tests": tests, "other": other})
    if tests:
        # Every dtype stores zero as zero bits, and every conversion keeps zero.
        zero = f"({kind})0" if kind == storage and not kind.startswith("tw::") else f"{kind}{{}}"
        mapping["read"] = f"{tests} ? {read} : {zero}"
    return substitute(FETCH, mapping)


def _gather(p: SimtTiling, s: SideTile, spare: list[str], used: set[str]) -> str:
    """Statements that read one access for each step of K in a word."""
    o, k = s.operand, "(k + h)"
    assert o.plain is not None
    guard = o.guard("batch", "mn", k, used)
    tests = [*spare, *_inside(p, s, used, k), *([f"({guard})"] if guard else [])]
    used.add(o.plain.tensor.name)
    return gather(f"{o.plain.tensor.name} + ({o.offset('batch', 'mn', k, used=used)})", " && ".join(tests), s.vector)


FETCH = """\
        const $kind p = $read;
$if many:        TW_UNROLL
$if many:        for (int j = 0; j < $vector; j++) r[i][j] = $value;
$unless many:        r[i][0] = $value;
"""

FETCH_OR_OTHER = """\
        if ($tests) {
            const $kind p = $read;
            TW_UNROLL
            for (int j = 0; j < $vector; j++) r[i][j] = $value;
        } else {
            TW_UNROLL
            for (int j = 0; j < $vector; j++) r[i][j] = $other;
        }
"""

# Writes a thread's share of a tile from registers to shared memory.
STASH = """\
TW_DEVICE void stash_$side($t *s, const $t (&r)[$each][$vector], int tid) {
    TW_UNROLL
    for (int i = 0; i < $each; i++) {
        const int e = tid + i * $threads;
$if ragged:        if (e >= $vectors) continue;
        $t *to = s + ($k) * $stride + ($mn);
        TW_UNROLL
$if down:        for (int j = 0; j < $vector; j++) tw::store_shared(to + j * $stride, r[i][j]);
$unless down:        for (int j = 0; j < $vector; j += $width) {
$unless down:            tw::pack<$t, $width> p;
$unless down:            TW_UNROLL
$unless down:            for (int h = 0; h < $width; h++) p.v[h] = r[i][j + h];
$unless down:            tw::store_shared(to + j, p);
$unless down:        }
    }
}
"""


def _copy(p: SimtTiling, s: SideTile, used: set[str]) -> str:
    """Statements that start one asynchronous copy; adds the names that they use to ``used``.

    Outside of the tensor, the copy reads nothing and writes zeros. Its address is still computed and aligned, but may
    point anywhere.
    """
    o = s.operand
    assert o.plain is not None
    guard = o.guard("batch", "mn", "k", used)
    tests = [*_inside(p, s, used), *([f"({guard})"] if guard is not None else [])]
    size = s.vector * ITEMSIZE[o.plain.tensor.dtype]
    mn, k = s.place("e")
    beyond = max(s.extent, p.bk) * p.stages if tests else 0
    at = f"{o.plain.tensor.name} + ({o.offset('batch', 'mn', 'k', beyond, used)})"
    used.add(o.plain.tensor.name)
    to = f"tw::shared_address(s + ({k}) * {s.stride} + ({mn}))"
    skip = f"        if (e >= {s.vectors}) continue;\n" if s.vectors % s.threads else ""
    valid = f"{' && '.join(tests)} ? {size} : 0" if tests else f"{size}"
    return f"{skip}        tw::cp_async<{size}>({to}, {at}, {valid});\n"


# --------------------------------------------------------------------------- shared memory to accumulators


# Reads a thread's fragment of one step of K.
READ = """\
TW_DEVICE void read_$side(const $t *s, $t (&f)$fragment, int k, int at) {
    TW_UNROLL
    for (int q = 0; q < $groups; q++) {
        const tw::pack<$t, $read> p = tw::load_shared<tw::pack<$t, $read>>(s + k * $stride + q * $far + at * $read);
        TW_UNROLL
        for (int j = 0; j < $read; j++) f[q][j] = p.v[j];
    }
}
"""


def _side_mapping(p: SimtTiling, s: SideTile) -> dict[str, object]:
    tile, read, threads = (p.tm, p.vector_m, p.threads_m) if s.name == "a" else (p.tn, p.vector_n, p.threads_n)
    mn, k = s.place("e")
    return {
        "side": s.name, "t": s.operand.ctype, "each": s.each, "vector": s.unit, "vectors": s.vectors,
        "threads": s.threads, "ragged": s.vectors % s.threads, "mn": mn, "k": k, "stride": s.stride,
        "down": s.along == "k", "width": min(s.unit, 16 // s.item),
        "fragment": f"[{tile // read}][{read}]", "groups": tile // read, "read": read, "far": threads * read,
    }  # fmt: skip


# ``step`` adds one step of K, held in fragments, to the accumulators. ``compute`` adds a tile of K, of which ``left``
# steps are inside. Zeros pad tiles beyond K; if zeros leave the sum unchanged, ``left`` is omitted. The two sets of
# fragments have names instead of an index, because an array indexed in an unrolled loop may end up in memory. With
# simpler loops and a simpler condition, the compiler unrolls further than the schedule's registers allow.
COMPUTE = """\
TW_DEVICE void step(const $ta (&a)$fa, const $tb (&b)$fb, $acc (&acc)$shape) {
    TW_UNROLL
    for (int q = 0; q < $qs; q++)
        TW_UNROLL
        for (int i = 0; i < $vm; i++)
            TW_UNROLL
            for (int r = 0; r < $rs; r++)
                TW_UNROLL
                for (int j = 0; j < $vn; j++)
                    acc[q][i][r][j] = $updated;
}
TW_DEVICE void compute(const $ta *sa, const $tb *sb, $acc (&acc)$shape, int ty, int tx$takes_left) {
$if two:    $ta a0$fa, a1$fa;
$if two:    $tb b0$fb, b1$fb;
$unless two:    $ta a0$fa;
$unless two:    $tb b0$fb;
$if two:    read_a(sa, a0, 0, ty); read_b(sb, b0, 0, tx);
    $unrolled
    for (int k0 = 0; k0 < $bk; k0 += $unroll) {
        TW_UNROLL
        for (int u = 0; u < $unroll; u += $fragments) {
            const int k = k0 + u;
$if two:            read_a(sa, a1, k + 1, ty); read_b(sb, b1, k + 1, tx);
$unless two:            read_a(sa, a0, k, ty); read_b(sb, b0, k, tx);
            ${first}step(a0, b0, acc);
$if two:            if (u + 2 < $unroll || k0 + $unroll < $bk) { read_a(sa, a0, k + 2, ty); read_b(sb, b0, k + 2, tx); }
$if two:            ${second}step(a1, b1, acc);
        }
    }
}
"""


# --------------------------------------------------------------------------- the kernel


PLAIN = """\
    for (int t = $from; t < $end; t++) {
        $ta ra$ra;
        $tb rb$rb;
$fetch_now
        tw::sync();
        stash_a(sa, ra, tid);
        stash_b(sb, rb, tid);
        tw::sync();
        compute(sa, sb, acc, $at);
    }"""

# Double buffering: the next tile passes through registers while the current one is multiplied, with one barrier a tile.
# The buffer is chosen as a pointer, because with a computed offset the compiler splits 16-byte writes. After the last
# tile, the registers are written to the free buffer once more. A read beyond K is skipped: by the checks of every
# access, if there are any, else by a test, because the tile after a split belongs to the next split.
BUFFERED = """\
    $ta ra$ra;
    $tb rb$rb;
$fetch_first
    stash_a(sa, ra, tid);
    stash_b(sb, rb, tid);
    tw::sync();
    for (int t = $from; t < $end; t++) {
        const bool odd = $number % 2 != 0;
        $ta *const now_a = odd ? sa + $stage_a : sa;
        $ta *const next_a = odd ? sa : sa + $stage_a;
        $tb *const now_b = odd ? sb + $stage_b : sb;
        $tb *const next_b = odd ? sb : sb + $stage_b;
$unless checked:        if (t + 1 < $end) {
$fetch_next
$unless checked:        }
        compute(now_a, now_b, acc, $at);
        stash_a(next_a, ra, tid);
        stash_b(next_b, rb, tid);
        tw::sync();
    }"""

# A ring of tiles: ``stages - 1`` tiles are in flight while one is multiplied, with one barrier a tile. The loop waits
# for every copied tile and multiplies it, so no copy is in flight at the end.
RING = """\
$copy_first
    int slot = 0;
    for (int t = $from; t < $end; t++) {
        tw::cp_wait<$older>();
        tw::sync();
        const int next = slot + $ahead < $stages ? slot + $ahead : slot + -1;
        if (t + $ahead < $end) {
$copy_next
        }
        tw::cp_commit();
        compute(sa + slot * $stage_a, sb + slot * $stage_b, acc, $at);
        slot = slot + 1 < $stages ? slot + 1 : 0;
    }"""

KERNEL = """\
    using namespace ${symbol}_;
    TW_SHARED(smem);
    (void)ws; (void)out; (void)GROUP;
    $raster
    $tables
    $places
    $ta *const sa = ($ta *)(smem + $base_a);
    $tb *const sb = ($tb *)(smem + $base_b);
$if split:    $split_range
$if sorted:    int row_a[$each_a];
$if sorted:    TW_UNROLL
$if sorted:    for (int i = 0; i < $each_a; i++) {
$if sorted:        const int e = tid + i * $threads;
$if sorted:        $row_a
$if sorted:    }
    $acc acc$shape;
    TW_UNROLL
    for (int q = 0; q < $qs; q++)
        TW_UNROLL
        for (int i = 0; i < $vm; i++)
            TW_UNROLL
            for (int r = 0; r < $rs; r++)
                TW_UNROLL
                for (int j = 0; j < $vn; j++)
                    acc[q][i][r][j] = $identity;
$loop
    TW_UNROLL
    for (int q = 0; q < $qs; q++)
        TW_UNROLL
        for (int i = 0; i < $vm; i++) {
$if rows:            const int m = $m;
            TW_UNROLL
            for (int r = 0; r < $rs; r++) {
                const int n = n0 + r * $far_n + tx * $vn;
                $store
            }
        }
"""


def _mapping(p: SimtTiling) -> dict[str, object]:
    """Values of the placeholders in the kernel's texts for a plan."""
    c, a, b, vm, vn = p.c, p.a, p.b, p.vector_m, p.vector_n
    store = p.results[1]
    taken = ("acc[q][i][r][j]", "a[q][i]", "b[r][j]")
    updated = update(c, *taken) if p.pack == 1 else f"tw::dp4a({taken[1]}, {taken[2]}, {taken[0]})"
    ragged = not c.zero_is_neutral and c.k.size % p.bk != 0  # steps beyond K must be skipped
    split, fa, fb = p.split_k, f"[{p.tm // vm}][{vm}]", f"[{p.tn // vn}][{vn}]"
    spare = f"e < {a.vectors}" if a.vectors % p.threads else None
    return {
        "ta": a.operand.ctype, "tb": b.operand.ctype, "acc": VALUE[c.acc],
        "fa": fa, "fb": fb, "shape": fa + fb,
        "qs": p.tm // vm, "vm": vm, "rs": p.tn // vn, "vn": vn, "far_n": p.threads_n * vn,
        "ra": f"[{a.each}][{a.unit}]", "rb": f"[{b.each}][{b.unit}]", "stage_a": a.elements, "stage_b": b.elements,
        "updated": updated, "identity": identity(c),
        "two": p.fragments == 2, "fragments": p.fragments, "bk": p.depth, "unroll": p.unroll,
        # A partly unrolled loop must stay a loop: fully unrolled, it takes dozens of registers more.
        "unrolled": "TW_UNROLL" if p.unroll == p.depth else "TW_KEEP_LOOP",
        "takes_left": ", int left" if ragged else "", "first": "if (k < left) " if ragged else "",
        "second": "if (k + 1 < left) " if ragged else "",
        "at": f"ty, tx, {c.k.size} - t * {p.bk}" if ragged else "ty, tx",
        "base_a": p.memory.at("a"), "base_b": p.memory.at("b"), "split": split,
        "split_range": splitk.split_range(p.steps, "from", "to"),
        "from": "from" if split else "0", "end": "to" if split else p.steps, "number": "(t - from)" if split else "t",
        "store": store.call(v="acc[q][i][r]") + ";", "rows": "m" in store.taken,
        "stages": p.stages, "ahead": p.stages - 1, "older": p.stages - 2,
        "checked": not split and c.k.size % p.bk != 0,
        "m": sorting.row(c, f"m0 + q * {p.threads_m * vm} + ty * {vm} + i"), "threads": p.threads, "each_a": a.each,
        "sorted": c.is_sorted, "row_a": sorting.held_row(c, "row_a[i]", f"m0 + {a.place('e')[0]}", spare),
    }  # fmt: skip


def body(p: SimtTiling, symbol: str, sort: tuple[sorting.Sorting, ...]) -> str:
    """The kernel's statements; ``sort``: the launch that sorts rows, or empty."""
    c, mapping = p.c, _mapping(p)
    loop = _async_loop(p, mapping) if p.copy == "async" else _direct_loop(p, mapping)
    places = {"tid": "(int)threadIdx.x", **_lanes(p), "m0": f"tile_m * {p.bm}", "n0": f"tile_n * {p.bn}"}
    taken = {*p.results[1].taken, *(x for s in p.sides for x in _mover(p, s).taken)}
    reads = {"tile_m", "tile_n", *({"batch"} & taken if not c.is_sorted else ())}
    return substitute(KERNEL, {
        **mapping, "symbol": symbol, "raster": p.raster.declare(reads), "loop": loop,
        "tables": [line for s in sort for line in s.declare()],
        "places": [f"const int {name} = {text};" for name, text in places.items()],
    })  # fmt: skip


def _lanes(p: SimtTiling) -> dict[str, str]:
    """Texts of a thread's position in the tile, ``ty`` and ``tx``, and of the variables that both need."""
    across, along = p.threads_n // p.lanes_n, p.threads_m // p.lanes_m
    if across == 1:
        ty = "0" if p.threads_m == 1 else f"tid / {p.threads_n}" if p.threads_n > 1 else "tid"
        return {"ty": ty, "tx": "0" if p.threads_n == 1 else f"tid % {p.threads_n}" if p.threads_m > 1 else "tid"}
    column = "warp" if along == 1 else f"warp % {across}"
    if p.lanes_n == 1:
        tx = column
    else:
        tx = f"{column} * {p.lanes_n} + {'lane' if p.lanes_n == 32 else f'lane % {p.lanes_n}'}"
    row = "" if along == 1 else f"warp / {across}" + (f" * {p.lanes_m}" if p.lanes_m > 1 else "")
    inner = "" if p.lanes_m == 1 else "lane" if p.lanes_n == 1 else f"lane / {p.lanes_n}"
    ty = " + ".join(x for x in (row, inner) if x) or "0"
    return {"warp": "tid / 32", "lane": "tid % 32", "ty": ty, "tx": tx}


def _calls(p: SimtTiling, origin: str, depth: int, *to: str) -> list[str]:
    """Calls of ``fetch`` or ``copy`` for sides A and B of the tile of K that begins at ``origin``."""
    return [f"{'    ' * depth}{_mover(p, s).call(to=x, k0=origin)};" for s, x in zip(p.sides, to, strict=True)]


def _begin(p: SimtTiling, tile: int) -> str:
    """Text of the position along K where tile number ``tile`` of the block begins."""
    if not p.split_k:
        return f"{tile * p.bk}"
    return f"(from + {tile}) * {p.bk}" if tile else f"from * {p.bk}"


def _direct_loop(p: SimtTiling, mapping: Mapping[str, object]) -> str:
    """The main loop with tiles that pass through registers."""
    depth = 2 if mapping["checked"] else 3
    return substitute(PLAIN if p.stages == 1 else BUFFERED, {
        **mapping,
        "fetch_now": _calls(p, f"t * {p.bk}", 2, "ra", "rb"),
        "fetch_first": _calls(p, _begin(p, 0), 1, "ra", "rb"),
        "fetch_next": _calls(p, f"(t + 1) * {p.bk}", depth, "ra", "rb"),
    })  # fmt: skip


def _async_loop(p: SimtTiling, mapping: Mapping[str, object]) -> str:
    """The main loop with asynchronous copies."""
    ahead = p.stages - 1
    first: list[str] = []
    for n in range(ahead):
        to = [f"s{s.name} + {n * s.elements}" if n else f"s{s.name}" for s in p.sides]
        if p.split_k and n:
            first += [f"    if (from + {n} < to) {{", *_calls(p, _begin(p, n), 2, *to), "    }"]
        elif p.split_k or n < p.steps:
            first += _calls(p, _begin(p, n), 1, *to)
        first.append("    tw::cp_commit();")
    to = [f"s{s.name} + next * {s.elements}" for s in p.sides]
    following = _calls(p, f"(t + {ahead}) * {p.bk}", 3, *to)
    return substitute(RING, {**mapping, "copy_first": first, "copy_next": following})
