"""Source of one schedule.

A block computes a tile of BM x BN; K is walked in tiles of BK that all threads copy to shared memory,
k by k, while the previous one is multiplied. A warp is ``lanes_m`` x ``lanes_n`` threads; a thread's TM
rows lie in groups as wide as one shared read, a group in each part of the tile, and so do its columns,
so that the lanes of a warp read neighbours.

What cannot matter for the shape at hand is not printed: conditions that always hold, values nobody reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.expression.expr import const
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.epilogue import Epilogue, identity, update
from tilewright.kernels.templates.cuda.text import STORAGE, VALUE, from_storage, item, mentioned, parameters, printer
from tilewright.kernels.templates.cuda_simt.geometry import Plan, SideTile

ONCE = "    TW_KEEP_LOOP\n"
"""Keeps the compiler from unrolling a loop that a schedule wants as a loop: it takes registers by dozens."""


def launch_program(p: Plan, symbol: str) -> LaunchProgram:
    """How the kernel is called: one launch, or two where K is split."""
    arguments = ("GROUP", "SPLIT") if p.split else ("GROUP",)
    grid = raster.blocks(p.tiles_m, p.tiles_n, p.c.batch.size, p.split)
    first = Launch(symbol, arguments, grid=(grid, 1, 1), block=(p.threads, 1, 1), shared=p.shared_bytes)
    launches = (first, splitk.launch(p.c, symbol)) if p.split else (first,)
    return LaunchProgram(launches, workspace=splitk.workspace(p.c, p.split), align=p.align)


def source(p: Plan, symbol: str) -> str:
    """C++ that follows the prelude."""
    c = p.c
    epilogue = Epilogue(c, 0 if p.split else p.vector_n, _edges(p))
    parts = [f'#line 1 "kernel"\nnamespace {symbol}_ {{\n', epilogue.define()]
    if p.split:
        parts.append(splitk.define(c, p.vector_n, _edges(p)))
    for side in p.sides:
        parts.append(_mover(p, side) if p.copy == "async" else _mover(p, side) + _stash(side))
    parts += [_compute(p), "}\n", _kernel(p, symbol, epilogue)]
    if p.split:
        parts.append(splitk.kernel(c, symbol))
    return "".join(parts)


# --------------------------------------------------------------------------- global to shared memory


def _edges(p: Plan) -> str:
    """Axes of the output along which tiles reach beyond it."""
    return ("m" if p.c.m.size % p.bm else "") + ("n" if p.c.n.size % p.bn else "")


def _origin(s: SideTile) -> str:
    return "m0" if s.name == "a" else "n0"


def _inside(p: Plan, s: SideTile) -> list[str]:
    """Conditions that an access is within the tensor."""
    found = []
    if s.operand.group.size % s.extent:
        found.append(f"mn < {s.operand.group.size}")
    if p.c.k.size % p.bk:
        found.append(f"k < {p.c.k.size}")
    return found


def _mover(p: Plan, s: SideTile) -> str:
    """``fetch_<side>`` or ``copy_<side>``: this thread's part of a tile, into registers or shared memory."""
    t = s.operand.ctype
    to = f"{t} *s" if p.copy == "async" else f"{t} (&r)[{s.each}][{s.vector}]"
    inputs = [f"const {STORAGE[x.dtype]} *{x.name}" for x in p.c.program.inputs if x.name in _needs(p, s)]
    batch = ["int batch"] if "batch" in _needs(p, s) else []
    taken = ", ".join([*inputs, to, *batch, f"int {_origin(s)}", "int k0", "int tid"])
    return f"TW_DEVICE void {'copy' if p.copy == 'async' else 'fetch'}_{s.name}({taken}) {{\n{_moves(p, s)}}}\n"


def _needs(p: Plan, s: SideTile) -> tuple[str, ...]:
    """Which inputs a side's copies read, and whether the batch."""
    return mentioned(_moves(p, s), *(x.name for x in p.c.program.inputs), "batch")


@lru_cache(maxsize=256)
def _moves(p: Plan, s: SideTile) -> str:
    """The body of that function."""
    body = _copy(p, s) if p.copy == "async" else _fetch(p, s)
    mn, k = s.place("e")
    places = {"mn": f"{_origin(s)} + {mn}", "k": f"k0 + {k}"}
    where = "".join(f"        const int {x} = {places[x]};\n" for x in mentioned(body, *places))
    return (
        f"    TW_UNROLL\n    for (int i = 0; i < {s.each}; i++) {{\n"
        f"        const int e = tid + i * {p.threads};\n{where}{body}    }}\n"
    )


def _fetch(p: Plan, s: SideTile) -> str:
    """Statements that read one access into registers."""
    o = s.operand
    ctype = o.ctype
    spare = [f"e < {s.vectors}"] if s.vectors % p.threads else []
    inside = " && ".join([*spare, *_inside(p, s)])
    plain = o.plain
    if plain is None:
        value = o.scalar("batch", "mn", "k")
        text = f"{inside} ? ({ctype})({value}) : ({ctype})0" if inside else f"({ctype})({value})"
        return f"        r[i][0] = {text};\n"
    # A failed guard gives `other`; what is outside of the matrix gives zero, which is `other` as a rule.
    guard = o.guard("batch", "mn", "k")
    tests = " && ".join([*([inside] if inside else []), *([f"({guard})"] if guard else [])])
    storage = STORAGE[plain.tensor.dtype]
    at = f"{plain.tensor.name} + ({o.offset('batch', 'mn', 'k')})"
    kind = storage if s.vector == 1 else f"tw::pack<{storage}, {s.vector}>"
    read = f"tw::load_global<{kind}>({at})"
    loop = f"        TW_UNROLL\n        for (int j = 0; j < {s.vector}; j++) r[i][j] = "
    held = "p.v[j]" if s.vector > 1 else "p"
    value = f"({ctype})({o.converted(from_storage(plain.tensor.dtype, held))})"
    if plain.other == 0 or not tests:
        # Zero is zero in memory too, and through every conversion.
        if tests:
            zero = f"({kind})0" if kind == storage and not kind.startswith("tw::") else f"{kind}{{}}"
            read = f"{tests} ? {read} : {zero}"
        into = loop if s.vector > 1 else "        r[i][0] = "
        return f"        const {kind} p = {read};\n{into}{value};\n"
    outside = printer(p.c.program, {}, {}, {}, ()).scalar(const(plain.other, o.dtype))
    other = f"({inside}) ? ({ctype}){outside} : 0" if inside else f"({ctype}){outside}"
    return (
        f"        if ({tests}) {{\n            const {kind} p = {read};\n"
        f"    {loop.replace(chr(10), chr(10) + '    ')}{value};\n        }} else {{\n"
        f"    {loop.replace(chr(10), chr(10) + '    ')}{other};\n        }}\n"
    )


def _stash(s: SideTile) -> str:
    """``stash_<side>``: those registers, into shared memory."""
    ctype = s.operand.ctype
    mn, k = s.place("e")
    guard = f"        if (e >= {s.vectors}) continue;\n" if s.vectors % s.threads else ""
    head = (
        f"TW_DEVICE void stash_{s.name}({ctype} *s, const {ctype} (&r)[{s.each}][{s.vector}], int tid) {{\n"
        f"    TW_UNROLL\n    for (int i = 0; i < {s.each}; i++) {{\n"
        f"        const int e = tid + i * {s.threads};\n{guard}"
        f"        {ctype} *to = s + ({k}) * {s.stride} + ({mn});\n"
    )
    if s.along == "k":
        body = (
            "        TW_UNROLL\n"
            f"        for (int j = 0; j < {s.vector}; j++) tw::store_shared(to + j * {s.stride}, r[i][j]);\n"
        )
    else:
        w = min(s.vector, 16 // s.item)
        body = (
            "        TW_UNROLL\n"
            f"        for (int j = 0; j < {s.vector}; j += {w}) {{\n"
            f"            tw::pack<{ctype}, {w}> p;\n"
            "            TW_UNROLL\n"
            f"            for (int h = 0; h < {w}; h++) p.v[h] = r[i][j + h];\n"
            "            tw::store_shared(to + j, p);\n"
            "        }\n"
        )
    return f"{head}{body}    }}\n}}\n"


def _copy(p: Plan, s: SideTile) -> str:
    """Statements that start one asynchronous copy. Outside of the tensor it reads nothing and writes zeros:
    its address is still computed, aligned, but may be anything."""
    o = s.operand
    assert o.plain is not None
    guard = o.guard("batch", "mn", "k")
    tests = [*_inside(p, s), *([f"({guard})"] if guard is not None else [])]
    size = s.vector * item(o.plain.tensor.dtype)
    mn, k = s.place("e")
    beyond = max(s.extent, p.bk) * p.stages if tests else 0
    at = f"{o.plain.tensor.name} + ({o.offset('batch', 'mn', 'k', beyond)})"
    to = f"tw::shared_address(s + ({k}) * {s.stride} + ({mn}))"
    skip = f"        if (e >= {s.vectors}) continue;\n" if s.vectors % s.threads else ""
    valid = f"{' && '.join(tests)} ? {size} : 0" if tests else f"{size}"
    return f"{skip}        tw::cp_async<{size}>({to}, {at}, {valid});\n"


# --------------------------------------------------------------------------- shared memory to accumulators


def _shape(p: Plan) -> str:
    vm, vn = p.vector_m, p.vector_n
    return f"[{p.tm // vm}][{vm}][{p.tn // vn}][{vn}]"


def _read(p: Plan, s: SideTile) -> str:
    """``read_<side>``: this thread's fragment of one step of K."""
    tile, vector, threads = (p.tm, p.vector_m, p.threads_m) if s.name == "a" else (p.tn, p.vector_n, p.threads_n)
    t = s.operand.ctype
    return (
        f"TW_DEVICE void read_{s.name}(const {t} *s, {t} (&f)[{tile // vector}][{vector}], int k, int at) {{\n"
        "    TW_UNROLL\n"
        f"    for (int q = 0; q < {tile // vector}; q++) {{\n"
        f"        const tw::pack<{t}, {vector}> p = "
        f"tw::load_shared<tw::pack<{t}, {vector}>>(s + k * {s.stride} + q * {threads * vector} + at * {vector});\n"
        "        TW_UNROLL\n"
        f"        for (int j = 0; j < {vector}; j++) f[q][j] = p.v[j];\n"
        "    }\n}\n"
    )


def _fragment(p: Plan, side: str) -> str:
    """Dimensions of a side's fragment: groups, and elements in one."""
    tile, vector = (p.tm, p.vector_m) if side == "a" else (p.tn, p.vector_n)
    return f"[{tile // vector}][{vector}]"


def _loops(p: Plan, indent: str, body: str) -> str:
    """``body`` for every accumulator ``acc[q][i][r][j]``."""
    text = ""
    for depth, (name, count) in enumerate(
        (("q", p.tm // p.vector_m), ("i", p.vector_m), ("r", p.tn // p.vector_n), ("j", p.vector_n))
    ):
        pad = indent + "    " * depth
        text += f"{pad}TW_UNROLL\n{pad}for (int {name} = 0; {name} < {count}; {name}++)\n"
    return f"{text}{indent}                {body}\n"


def _step(p: Plan) -> str:
    """``step``: adds one step of K, held in fragments, to the accumulators."""
    c = p.c
    fragments = "".join(f"const {s.operand.ctype} (&{s.name}){_fragment(p, s.name)}, " for s in p.sides)
    value = update(c, "acc[q][i][r][j]", "a[q][i]", "b[r][j]")
    return (
        f"TW_DEVICE void step({fragments}{VALUE[c.acc]} (&acc){_shape(p)}) {{\n"
        + _loops(p, "    ", f"acc[q][i][r][j] = {value};")
        + "}\n"
    )


def _ragged(p: Plan) -> bool:
    """Whether steps beyond K must be left out."""
    return not p.c.zero_is_neutral and p.c.k.size % p.bk != 0


def _compute(p: Plan) -> str:
    """``compute``: adds one tile of K to the accumulators; ``left`` is how many steps are inside K.

    Tiles are filled up with zeros beyond K: where these change nothing, steps are not counted.
    """
    c = p.c
    names = [s.name for s in p.sides]
    tiles = "".join(f"const {s.operand.ctype} *s{s.name}, " for s in p.sides)
    ragged = _ragged(p)

    def reads(k: str, which: str) -> str:
        at = {"a": "ty", "b": "tx"}
        return " ".join(f"read_{n}(s{n}, {n}{which}, {k}, {at[n]});" for n in names)

    def step(k: str, which: str) -> str:
        call = f"step({''.join(f'{n}{which}, ' for n in names)}acc);"
        return f"if ({k} < left) {call}" if ragged else call

    out = [_read(p, s) for s in p.sides] + [_step(p)]
    at = "int ty, int tx" + (", int left" if ragged else "")
    out.append(f"TW_DEVICE void compute({tiles}{VALUE[c.acc]} (&acc){_shape(p)}, {at}) {{\n")
    # Two sets by name, not by index: an array indexed in an unrolled loop may end up in memory.
    for s in p.sides:
        held = ", ".join(f"{s.name}{n}{_fragment(p, s.name)}" for n in range(p.fragments))
        out.append(f"    {s.operand.ctype} {held};\n")
    if p.fragments == 2:
        out.append(f"    {reads('0', '0')}\n")
    # The loops and the condition are printed in this form on purpose: with a simpler one the compiler unrolls
    # further than the schedule's registers allow.
    out.append(
        ("    TW_UNROLL\n" if p.unroll == p.bk else ONCE)
        + f"    for (int k0 = 0; k0 < {p.bk}; k0 += {p.unroll}) {{\n        TW_UNROLL\n"
        f"        for (int u = 0; u < {p.unroll}; u += {p.fragments}) {{\n            const int k = k0 + u;\n"
    )
    body: tuple[str, ...]
    if p.fragments == 2:
        body = (
            reads("k + 1", "1"),
            step("k", "0"),
            f"if (u + 2 < {p.unroll} || k0 + {p.unroll} < {p.bk}) {{ {reads('k + 2', '0')} }}",
            step("k + 1", "1"),
        )
    else:
        body = (reads("k", "0"), step("k", "0"))
    out += [f"            {line}\n" for line in body]
    out.append("        }\n    }\n}\n")
    return "".join(out)


# --------------------------------------------------------------------------- the kernel


def _kernel(p: Plan, symbol: str, epilogue: Epilogue) -> str:
    c = p.c
    vm, vn = p.vector_m, p.vector_n
    arguments = ("GROUP", "SPLIT") if p.split else ("GROUP",)
    base = 0
    out = []
    for s in p.sides:
        out.append(f"    {s.operand.ctype} *const s{s.name} = ({s.operand.ctype} *)(smem + {base});\n")
        base += p.stages * s.elements * s.item
    if p.split:
        out.append(f"    {splitk.pieces(p.steps, 'from', 'to')}\n")
    out.append(f"    {epilogue.acc} acc{_shape(p)};\n" + _loops(p, "    ", f"acc[q][i][r][j] = {identity(c)};"))
    out.append(_async_loop(p) if p.copy == "async" else _plain_loop(p) if p.stages == 1 else _buffered_loop(p))
    call = (
        splitk.store(c, "acc[q][i][r]", vn, _edges(p), "m", "n")
        if p.split
        else epilogue.store("acc[q][i][r]", "batch", "m", "n")
    )
    row = f"            const int m = m0 + q * {p.threads_m * vm} + ty * {vm} + i;\n"
    out.append(
        f"    TW_UNROLL\n    for (int q = 0; q < {p.tm // vm}; q++)\n"
        f"        TW_UNROLL\n        for (int i = 0; i < {vm}; i++) {{\n"
        f"{row if mentioned(call, 'm') else ''}"
        f"            TW_UNROLL\n            for (int r = 0; r < {p.tn // vn}; r++) {{\n"
        f"                const int n = n0 + r * {p.threads_n * vn} + tx * {vn};\n"
        f"                {call}\n"
        "            }\n        }\n}\n"
    )
    rest = "".join(out)
    origins = {"m0": f"tile_m * {p.bm}", "n0": f"tile_n * {p.bn}"}
    rest = _declared(origins, rest)
    rest = _declared({"tid": "(int)threadIdx.x", "warp": "tid / 32", "lane": "tid % 32"}, _declared(_lanes(p), rest))
    return (
        f"TW_KERNEL({p.threads}, {p.min_blocks}) void {symbol}({parameters(c.program, arguments)}) {{\n"
        f"    using namespace {symbol}_;\n"
        "    TW_SHARED(smem);\n    (void)ws; (void)out; (void)GROUP;\n"
        f"{raster.raster(p.tiles_m, p.tiles_n, c.batch.size, p.split, reads=mentioned(rest, *RASTER))}{rest}"
    )


RASTER = ("tile_m", "tile_n", "batch")


def _declared(values: Mapping[str, str], rest: str) -> str:
    """Statements, after the declarations of those ``values`` that they mention; these may build on earlier ones."""
    for name, value in reversed(list(values.items())):
        if mentioned(rest, name):
            rest = f"    const int {name} = {value};\n{rest}"
    return rest


def _lanes(p: Plan) -> dict[str, str]:
    """A thread's place in the tile: ``ty`` and ``tx``."""
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
    return {"ty": " + ".join(x for x in (row, inner) if x) or "0", "tx": tx}


def _calls(p: Plan, what: str, origin: str, indent: str, to: Mapping[str, str]) -> str:
    """Calls of ``fetch`` or ``copy`` for every side, for the tile of K that begins at ``origin``."""
    out = ""
    for s in p.sides:
        inputs = [x.name for x in p.c.program.inputs if x.name in _needs(p, s)]
        batch = ["batch"] if "batch" in _needs(p, s) else []
        out += f"{indent}{what}_{s.name}({', '.join([*inputs, to[s.name], *batch, _origin(s), origin, 'tid'])});\n"
    return out


def _fetches(p: Plan, origin: str, indent: str) -> str:
    return _calls(p, "fetch", origin, indent, {s.name: f"r{s.name}" for s in p.sides})


def _first(p: Plan) -> str:
    """Text of the first tile of K, and with :func:`_end` of the one after the last."""
    return "from" if p.split else "0"


def _end(p: Plan) -> str:
    return "to" if p.split else f"{p.steps}"


def _begin(p: Plan, tile: int) -> str:
    """Text of where tile number ``tile`` of the block begins along K."""
    if not p.split:
        return f"{tile * p.bk}"
    return f"(from + {tile}) * {p.bk}" if tile else f"from * {p.bk}"


def _stashes(p: Plan, indent: str) -> str:
    return "".join(f"{indent}stash_{s.name}(s{s.name}, r{s.name}, tid);\n" for s in p.sides)


def _slot(s: SideTile, slot: str) -> str:
    return f"s{s.name} + {slot} * {s.elements}"


def _multiply(p: Plan, tiles: str) -> str:
    """A call of ``compute`` for tile ``t``; ``tiles`` is the text of its first arguments."""
    left = [f"{p.c.k.size} - t * {p.bk}"] if _ragged(p) else []
    return f"compute({tiles}acc, {', '.join(['ty', 'tx', *left])});"


def _registers(p: Plan, indent: str) -> str:
    return "".join(f"{indent}{s.operand.ctype} r{s.name}[{s.each}][{s.vector}];\n" for s in p.sides)


def _plain_loop(p: Plan) -> str:
    tiles = "".join(f"s{s.name}, " for s in p.sides)
    return (
        f"    for (int t = {_first(p)}; t < {_end(p)}; t++) {{\n"
        + _registers(p, "        ")
        + _fetches(p, f"t * {p.bk}", "        ")
        + "        tw::sync();\n"
        + _stashes(p, "        ")
        + f"        tw::sync();\n        {_multiply(p, tiles)}\n    }}\n"
    )


def _buffered_loop(p: Plan) -> str:
    """The next tile travels through registers while this one is multiplied; one barrier a tile.

    The buffer is chosen as a pointer: behind a computed offset the compiler splits 16-byte writes.
    After the last tile, what the registers hold is written to the free buffer once more.
    """
    buffers = "".join(
        f"        {s.operand.ctype} *const now_{s.name} = odd ? s{s.name} + {s.elements} : s{s.name};\n"
        f"        {s.operand.ctype} *const next_{s.name} = odd ? s{s.name} : s{s.name} + {s.elements};\n"
        for s in p.sides
    )
    now = "".join(f"now_{s.name}, " for s in p.sides)
    writes = "".join(f"        stash_{s.name}(next_{s.name}, r{s.name}, tid);\n" for s in p.sides)
    # Beyond K, where every access is checked anyway, nothing is read; the tile after a piece is another's.
    bare = not p.split and p.c.k.size % p.bk != 0
    fetches = _fetches(p, f"(t + 1) * {p.bk}", " " * (8 if bare else 12))
    return (
        _registers(p, "    ")
        + _fetches(p, _begin(p, 0), "    ")
        + _stashes(p, "    ")
        + f"    tw::sync();\n    for (int t = {_first(p)}; t < {_end(p)}; t++) {{\n"
        + f"        const bool odd = {'(t - from)' if p.split else 't'} % 2 != 0;\n{buffers}"
        + (fetches if bare else f"        if (t + 1 < {_end(p)}) {{\n{fetches}        }}\n")
        + f"        {_multiply(p, now)}\n{writes}        tw::sync();\n    }}\n"
    )


def _async_loop(p: Plan) -> str:
    """A ring of tiles: ``stages - 1`` are on their way while one is multiplied; one barrier a tile.

    Every tile that is copied is waited for and multiplied, so none is on its way at the end.
    """
    ahead = p.stages - 1
    tiles = "".join(f"{_slot(s, 'slot')}, " for s in p.sides)

    def copies(origin: str, slot: str, indent: str) -> str:
        to = {s.name: _slot(s, slot) if not slot.isdigit() else _at(s, int(slot)) for s in p.sides}
        return _calls(p, "copy", origin, indent, to)

    first = ""
    for n in range(ahead):
        if p.split and n:
            first += f"    if (from + {n} < to) {{\n{copies(_begin(p, n), str(n), ' ' * 8)}    }}\n"
        elif p.split or n < p.steps:
            first += copies(_begin(p, n), str(n), " " * 4)
        first += "    tw::cp_commit();\n"
    return (
        f"{first}    int slot = 0;\n    for (int t = {_first(p)}; t < {_end(p)}; t++) {{\n"
        f"        tw::cp_wait<{ahead - 1}>();\n        tw::sync();\n"
        f"        const int next = slot + {ahead} < {p.stages} ? slot + {ahead} : slot + {ahead - p.stages};\n"
        f"        if (t + {ahead} < {_end(p)}) {{\n"
        + copies(f"(t + {ahead}) * {p.bk}", "next", " " * 12)
        + f"        }}\n        tw::cp_commit();\n        {_multiply(p, tiles)}\n"
        f"        slot = slot + 1 < {p.stages} ? slot + 1 : 0;\n    }}\n"
    )


def _at(s: SideTile, slot: int) -> str:
    return f"s{s.name} + {slot * s.elements}" if slot else f"s{s.name}"
