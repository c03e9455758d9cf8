"""C++ that all kernels share: a block's place, copies of tiles to shared memory, scores, masks, results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from tilewright.kernels.expression.expr import FLOATS, INDEX, ITEMSIZE, Expr, axis, const
from tilewright.kernels.expression.linear import linearise
from tilewright.kernels.expression.program import strides_of
from tilewright.kernels.families.attention import SCORE, VALUE
from tilewright.kernels.templates.cpu_attention.blocks import FALSE, TRUE, Blocks, Condition
from tilewright.kernels.templates.cuda.functions import Function, pointers
from tilewright.kernels.templates.cuda.text import (
    STORAGE,
    DevicePrinter,
    Names,
    bound,
    printer,
    split,
    stored,
    to_storage,
)
from tilewright.kernels.templates.cuda_attention.geometry import AttentionTiling
from tilewright.kernels.templates.cuda_attention.match import Side
from tilewright.kernels.templates.cuda_attention.pack import joined

HELD = 16 << 20
"""Bytes of keys and values that stay in the L2 cache while blocks read them."""
FAR = "-0x1p30f"
"""Finite scores below this number are clamped to it: its exponent of 2 is exact, while a type's lowest number
overflows."""


def indented(lines: list[str], depth: int = 1) -> list[str]:
    return [" " * 4 * depth + x for x in lines]


Body = tuple[list[str], set[str]]
"""Statements, and the names of the variables that they use. The index along an outer axis ``x`` is named ``o_x``."""


def outer_text(p: AttentionTiling, e: Expr, used: set[str], **axes: str) -> str:
    """Text of an index expression over outer axes and over ``axes``, whose texts are given.

    ``used``, here and below, receives the variables that texts use.
    """
    return _printer(p, axes, {}, used, e).scalar(e)


def _printer(
    p: AttentionTiling, axes: Mapping[str, str], var: Mapping[str, str], used: set[str], *exprs: Expr
) -> DevicePrinter:  # fmt: skip
    texts = Names({x: f"o_{x}" for x in p.a.outer} | dict(axes), used)
    ranges = {**p.a.ranges, p.a.query: p.query_blocks * p.block_q, "e": p.a.width}
    return printer(p.a.program, ranges, texts, var, exprs, used=used)


def placed(p: AttentionTiling, symbol: str, body: Body) -> str:
    """All statements of the first kernel: ``body`` behind a block's place. A persistent body declares places itself."""
    statements, used = body
    head = ["const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;", "(void)ws; (void)lane; (void)warp;"]
    if not p.persistent:
        head += place(p, used)
    lines = [
        "TW_SHARED(smem);",
        f"using namespace {symbol}_;",
        *(["tw::grid_launch();"] if p.divided else []),  # a launch that waits for this one merges parts
        *head,
        *statements,
    ]
    return "\n".join(indented(lines)) + "\n"


def place(p: AttentionTiling, used: set[str], work: str = "blockIdx.x") -> list[str]:
    """Statements that declare the heads, queries and keys of a block, or of an iteration of its persistent loop.

    ``work``: text of the work item's number.
    """
    lines = []
    if p.tail > 1:
        whole = p.query_tiles - p.left
        lines += [
            f"const int work = (int){work}, part = work < {whole} ? 0 : (work - {whole}) / {p.left};",
            f"const int start = work < {whole} ? 0 : part * {p.key_blocks} / {p.tail};",
            f"const int end = work < {whole} ? {p.key_blocks} : (part + 1) * {p.key_blocks} / {p.tail};",
            *tile(p, f"(work < {whole} ? work : {whole} + (work - {whole}) % {p.left})"),
        ]
    else:
        lines += tile(p, work)
    if p.parts > 1:
        end = f"int((part + 1) * {p.key_blocks}u / {p.parts}u)"
        start = f"int(part * {p.key_blocks}u / {p.parts}u)"
        lines.append(f"const int part = (int)blockIdx.y, start = {start}, end = {end};")
    return lines + heads(p, used)


def tile(p: AttentionTiling, number: str) -> list[str]:
    """Statements that declare the ``block`` of heads and first query ``i0`` of a tile of queries."""
    together = _together(p)
    # With a causal mask the last queries have the most keys: they start first.
    return [
        f"const unsigned tile = {number};",
        f"const unsigned inside = tile % {together * p.query_blocks}u;",
        f"const int block = int(tile / {together * p.query_blocks}u * {together}u + inside % {together}u);",
        f"const int i0 = int({p.query_blocks - 1}u - inside / {together}u) * {p.block_q};",
        "(void)block; (void)i0;",
    ]


def heads(p: AttentionTiling, used: set[str]) -> list[str]:
    """Statements that declare the indices along outer axes that are ``used``, from the number ``block``."""
    places = split(p.a.group, "block")
    limit = p.f.v.limit
    # Number of valid keys of the block's sequence.
    known = [] if limit is None else [f"const int known = tw::imin({outer_text(p, limit, used)}, {p.a.keys});"]
    return [*(f"const int o_{x} = {places[x]};" for x in p.a.outer if f"o_{x}" in used), *known]


# --------------------------------------------------------------------------- tiles


def _inside(p: AttentionTiling, s: Side, row: str, col: str, padded: int) -> list[str]:
    found = []
    if s.limit is not None:
        found.append(f"{row} < known")
    elif s.rows % (p.block_q if s is p.f.q else p.block_k):
        found.append(f"{row} < {s.rows}")
    if padded != s.length:
        found.append(f"{col} < {s.length}")
    return found


def copied(p: AttentionTiling, name: str, to: str, first: str, used: set[str]) -> list[str]:
    """Statements that copy a tile to shared memory at ``to``: rows ``first``, ``first + 1``, ...; zeros out of bounds.

    ``to``: a shared address for asynchronous copies, and a pointer where elements pass through registers.
    """
    s = dict(zip("qkv", p.f.sides, strict=True))[name]
    height = p.block_q if name == "q" else p.block_k
    padded, pitch = p.width if name == "v" else p.depth, p.pitch(name)
    vector = s.vector if p.async_copies else 1
    across = padded // vector
    count = height * across
    even = p.threads % across == 0  # each thread has fixed columns, and its rows have a constant stride
    many = count > p.threads
    if even:
        # A warp copies adjacent rows where possible: their addresses are then constant offsets from one address.
        start, apart = f"tid / {across}", p.threads // across
        if 32 % across == 0 and height % apart == 0:
            start, apart = f"warp * {height // p.warps} + lane / {across}", 32 // across
        lines = [f"const int low = {start}{f' + n * {apart}' if many else ''};"]
        test, places = f"low < {height}", ("low", f"tid % {across}")
        ragged = height % (p.threads // across) != 0
    else:
        lines = [f"const int at = tid{f' + n * {p.threads}' if many else ''};"]
        test, places = f"at < {count}", (f"at / {across}", f"at % {across}")
        ragged = count % p.threads != 0
    inside = " && ".join(_inside(p, s, "row", "col", padded))
    place, own, by_row = f"{places[0]} * {pitch} + col", set[str](), True
    names = {s.row: "row", s.along: "col"}
    if p.async_copies:
        assert s.where is not None
        assert s.tensor is not None
        size = vector * ITEMSIZE[s.tensor.dtype]
        where = s.where.expr()
        step, further = s.where.step(s.row), ""
        if s.gathered and s.rows % height:
            names[s.row] = f"tw::imin(row, {s.rows - 1})"  # rows past the last one have no entry in the page table
        if even and step is not None:  # a thread's rows are constant offsets from one address
            names[s.row], further = f"({start})", f" + n * {apart * step}" if many else ""
            by_row = False
        made = _printer(p, names, {}, own, where)
        source = made.scalar(where)
        if even and step is not None:
            source += f" + {'' if made.narrow else '(long)'}({first}) * {step}"
        source = f"{s.tensor.name} + ({source}){further}"
        valid = f", {inside} ? {size} : 0" if inside else ""
        copy = f"tw::cp_async<{size}>({to} + ({place}) * {p.item}, {source}{valid});"
    else:
        value = _printer(p, names, {}, own, s.value).scalar(s.value)
        value = f"{inside} ? (float)({value}) : 0.0f" if inside else f"(float)({value})"
        copy = f"tw::store_shared({to} + ({place}), {value});"
    col = f"{places[1]} * {vector}" if vector > 1 else places[1]
    used |= own
    by_row = (by_row and bool(own & {"row", s.row})) or s.limit is not None or s.rows % height != 0
    row = [f"const int row = {first} + {places[0]};"] if by_row else []
    body = [*row, f"const int col = {col};", copy]
    lines += [f"if ({test}) {{", *indented(body), "}"] if ragged else body
    if not many:
        return ["{", *indented(lines), "}"]
    return ["TW_UNROLL", f"for (int n = 0; n < {-(-count // p.threads)}; n++) {{", *indented(lines), "}"]


# --------------------------------------------------------------------------- scores


def _blocks(p: AttentionTiling, key: str) -> Blocks:
    ends = {x: (f"(long)o_{x}", f"(long)o_{x}") for x in p.a.outer}
    last_q = f"(long)tw::imin(i0 + {p.block_q}, {p.a.queries}) - 1"
    last_k = f"(long)tw::imin({key} + {p.block_k}, {p.a.keys}) - 1"
    axes = {**ends, p.a.query: ("(long)i0", f"({last_q})"), p.a.key: (f"(long)({key})", f"({last_k})")}
    return Blocks(axes, lambda e: _printer(p, {}, {}, set(), e).scalar(e))


def _masked(p: AttentionTiling) -> Condition:
    """C condition under which block ``t`` of keys is completely masked."""
    return _blocks(p, f"t * {p.block_k}").masked(p.score)


def skips(p: AttentionTiling) -> bool:
    """Whether masks leave some blocks of queries fewer keys than others."""
    return _masked(p) != FALSE


def _together(p: AttentionTiling) -> int:
    """Number of heads whose blocks of queries are interleaved in launch order.

    It is 1, unless masks leave some blocks fewer keys. Then it is the number of heads whose keys and values the L2
    cache holds. The longest blocks then start first, and the shortest blocks fill the end.
    """
    most = 1 if not skips(p) else HELD // (p.a.keys * (p.depth + p.width) * p.item)
    return next(n for n in range(max(1, min(most, p.a.outer_size)), 0, -1) if p.a.outer_size % n == 0)


def _tested(p: AttentionTiling, test: Condition) -> set[str]:
    """Names of the indices along outer axes in a condition."""
    return {f"o_{x}" for x in test.axes if x in p.a.outer}


def next_block(p: AttentionTiling, used: set[str]) -> list[str]:
    """A lambda that returns the first block of keys from ``t`` on that is not completely masked."""
    test = _masked(p)
    if test == FALSE:
        return ["const auto next = [&](int t) { return t; };"]
    used |= _tested(p, test)
    return [
        "const auto next = [&](int t) {",
        f"    while (t < {p.end} && {test}) t++;",
        "    return t;",
        "};",
    ]


def scores(
    p: AttentionTiling, loops: list[str], element: str, query: str, key: str, used: set[str]
) -> list[str]:  # fmt: skip
    """Statements that turn the products of the block at ``j0`` into scores, in two variants if masks or edges need
    tests.

    ``loops`` (unrolled) iterate over a thread's products ``element``, with texts of their ``query`` and ``key``.
    """
    test, simple = _blocks(p, "j0").open(p.score)
    tests: list[str] = [] if test == TRUE else [test]
    used |= _tested(p, test)
    if p.a.keys % p.block_k:
        tests.append(f"j0 + {p.block_k} <= {p.a.keys}")
    if p.a.queries % p.block_q and (p.score.loads() or simple.loads()):
        tests.append(f"i0 + {p.block_q} <= {p.a.queries}")
    if not tests:
        return _scored(p, simple, {}, loops, element, query, key, used)
    inside = {}
    if p.a.keys % p.block_k:
        inside["j"] = p.a.keys
    if p.a.queries % p.block_q and p.score.loads():
        inside["i"] = p.a.queries
    return [
        f"if ({' && '.join(tests)}) {{",
        *indented(_scored(p, simple, {}, loops, element, query, key, used)),
        "} else {",
        *indented(_scored(p, p.score, inside, loops, element, query, key, used)),
        "}",
    ]


def _reaches_far(score: Expr) -> bool:
    """Whether scores may be masked by a very low finite number, which is read or is a constant of the program."""
    return any(
        e.dtype in FLOATS and (e.op == "load" or (e.op == "const" and -math.inf < float(str(e.value)) < -(2.0**30)))
        for e in score.walk()
    )  # fmt: skip


def _scored(
    p: AttentionTiling, score: Expr, inside: Mapping[str, int], loops: list[str], element: str, query: str, key: str,
    used: set[str],
) -> list[str]:  # fmt: skip
    """Statements that compute scores of elements; ``inside``: the sizes of ``i`` and ``j``, where they may be
    exceeded."""
    if score.op == "var" and not inside:
        return []
    own, body = set(inside), list[str]()
    made = _printer(p, {p.a.query: "i", p.a.key: "j"}, {SCORE: "x"}, own, score)
    (value,) = bound(made, (score,), body)
    if p.one_rounding and _reaches_far(score):
        body.append(f"const float y = {value};")
        value = f"y < {FAR} && y > -__builtin_inff() ? {FAR} : y"
    if inside:
        result = [
            f"{element} = -__builtin_inff();",
            f"if ({' && '.join(f'{x} < {end}' for x, end in inside.items())}) {{",
        ]
        result += [*indented([*body, f"{element} = {value};"]), "}"]
    else:
        result = [*body, f"{element} = {value};"]
    names = {"i": query, "j": key}
    places = [f"const int {n} = {names[n]};" for n in ("i", "j") if n in own]
    used |= own
    heads = [line for depth, loop in enumerate(loops) for line in indented(["TW_UNROLL", loop], depth)]
    return [
        *heads[:-1],
        f"{heads[-1]} {{",
        *indented([*places, f"const float x = {element};", "(void)x;", *result]),
        "}",
    ]


# --------------------------------------------------------------------------- results


def position(p: AttentionTiling, query: str, e: str, used: set[str]) -> str:
    """Text of an element's position in the output."""
    rank = len(p.a.output.shape)
    total: Expr = const(0, INDEX)
    for n, step in enumerate(strides_of(p.a.output.shape)):
        total = total + (p.a.places.get(f"i{n}", axis(f"i{n}")) if n < rank - 1 else axis(p.a.key)) * step
    total = joined(p.a, linearise(total)).expr()
    wide = Expr("load", p.a.output.dtype, tuple(const(0, INDEX) for _ in range(rank)), p.a.output.name)
    return _printer(p, {p.a.query: query, p.a.key: e}, {}, used, wide, total).scalar(total)


@lru_cache(maxsize=256)
def finish(p: AttentionTiling) -> Function:
    """``finish(inputs..., o, outer axes..., i, e)``: the value to be stored for a normalised result."""
    dtype = p.a.output.dtype
    e = stored(p.a.finish, dtype)
    places = [*(f"o_{x}" for x in p.a.outer), "i", "e"]
    used, body = {"o", *places}, list[str]()
    made = _printer(p, {p.a.query: "i", p.a.key: "e"}, {VALUE: "o"}, used, e)
    (value,) = bound(made, (e,), body)
    lines = [" ".join(f"(void){x};" for x in places), *body, f"return {to_storage(dtype, value)};"]
    taken = {**pointers(p.a.program), "o": "float o", **{x: f"int {x}" for x in places}}
    return Function("finish", STORAGE[dtype], taken, "".join(f"    {x}\n" for x in lines), used)
