"""Split of the keys among blocks: what each part leaves in the workspace, and the second kernel, which merges parts.

Where queries are few, their blocks leave multiprocessors idle (Dao and others, "Flash-Decoding", 2023). So do the tiles
of an incomplete last wave (Osama and others, "Stream-K", 2023).
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substitute, substituted
from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import count_ops
from tilewright.kernels.kernel import Array, Workspace
from tilewright.kernels.loopnest import Access, Loop, LoopNest
from tilewright.kernels.templates.cuda.describe import WORKSPACE
from tilewright.kernels.templates.cuda.launches import GlobalFunction
from tilewright.kernels.templates.cuda.text import STORAGE
from tilewright.kernels.templates.cuda_attention.geometry import ITEM, AttentionTiling
from tilewright.kernels.templates.cuda_attention.text import finish, heads, position, tile
from tilewright.kernels.templates.tiles import ceildiv

THREADS = 256
FLOPS = 4
"""Operations of a part's element: its weight, sum and result."""
MANY = 4
"""Number of adjacent elements of a row that a thread merges where the last wave is split."""


def workspace(p: AttentionTiling) -> Workspace:
    """The workspace: for each part and query the unnormalised result, the base and the sum of the weights."""
    rows = p.each * p.merged_rows
    return Workspace((Array("results", "float", rows * p.a.width), Array("bases", "float", rows),
                      Array("sums", "float", rows)), ITEM)  # fmt: skip


def _first(p: AttentionTiling, name: str) -> int:
    """Offset of an array in the workspace, in floats."""
    return workspace(p).at(name) // ITEM


def left(p: AttentionTiling, first: str, base: str, total: str) -> list[str]:
    """Statements that store a query's base and sum of weights, by the thread for which ``first`` holds.

    They declare ``partial``, where the query's unnormalised result belongs.
    """
    if not p.divided:
        return []
    row = f"(part * {p.a.outer_size} + block) * {p.a.queries} + i"
    if p.tail > 1:
        row = f"(part * {p.left} + int(tile) - {p.query_tiles - p.left}) * {p.block_q} + i - i0"
    return [
        f"const int row = {row};",
        f"float *const partial = (float *)ws + row * {p.a.width};",
        f"if ({first}) {{",
        f"    tw::store_global((float *)ws + {_first(p, 'bases')} + row, {base});",
        f"    tw::store_global((float *)ws + {_first(p, 'sums')} + row, {total});",
        "}",
    ]


def kernels(p: AttentionTiling, weight: str) -> tuple[GlobalFunction, ...]:
    """The kernel ``<symbol>_merge``, where parts are merged.

    ``weight``: text of a part's weight, from its ``base`` and the largest base, ``top``.
    """
    if not p.divided:
        return ()
    return (
        GlobalFunction(
            program=p.a.program, body=lambda symbol: _body(p, symbol, weight), threads=THREADS, symbol="_merge",
            blocks=ceildiv(p.merged_rows * p.a.width, THREADS * _each(p)), early=True,
            loops=lambda: (_nest(p),) if p.parts > 1 else (),
        ),
    )  # fmt: skip


def _body(p: AttentionTiling, symbol: str, weight: str) -> str:
    rows, width = p.merged_rows, p.a.width
    each, together, used = _each(p), min(_each(p), p.output_vector), set(finish(p).taken)
    lines = substituted(MERGED, {
        "parts": p.each, "rows": rows, "results": rows * width, "bases": _first(p, "bases"), "weight": weight,
        "sums": _first(p, "sums") - _first(p, "bases"), "each": each, "together": together,
        "out": STORAGE[p.a.output.dtype], "at": position(p, "i", "e + n", used),
        "value": finish(p).call(o="o[n + c] / sum", e="e + n + c"),
    })  # fmt: skip
    places = [f"const int e = int(unsigned(at) % {width}u), row = int(unsigned(at) / {width}u);"]
    if p.tail > 1:
        places += [
            *tile(p, f"{p.query_tiles - p.left} + row / {p.block_q}"),
            f"const int i = i0 + row % {p.block_q};",
            *([f"if (i >= {p.a.queries}) return;"] if p.a.queries % p.block_q else []),
        ]
    else:
        of_row = f"block = int(unsigned(row) / {p.a.queries}u)"
        places.append(f"const int i = int(unsigned(row) % {p.a.queries}u), {of_row};")
    body = [*places, "(void)i; (void)e; (void)block;", *heads(p, used), *lines]
    return substitute(MERGE, {
        "threads": THREADS, "symbol": symbol,
        "of_each": f" * {each}" if each > 1 else "", "spare": rows * width % (THREADS * each),
        "results": rows * width, "body": body,
    })  # fmt: skip


# A part without a visible key for a query has the lowest base and a sum of 0: beside any other part its weight is 0.
MERGE = """\
    using namespace ${symbol}_;
    tw::grid_wait();
    const int at = (int)(blockIdx.x * $threads + threadIdx.x)$of_each;
$if spare:    if (at >= $results) return;
    $body
"""

MERGED = """\
const float *const results = (const float *)ws + at, *const bases = (const float *)ws + $bases + row;
float top = tw::load_written<float>(bases), sum = 0.0f, o[$each] = {};
TW_UNROLL
for (int s = 1; s < $parts; s++) top = tw::max_number(top, tw::load_written<float>(bases + s * $rows));
TW_UNROLL
for (int s = 0; s < $parts; s++)
{
    const float base = tw::load_written<float>(bases + s * $rows), weight = $weight;
    sum = tw::fma(weight, tw::load_written<float>(bases + $sums + s * $rows), sum);
    const tw::pack<float, $each> part = tw::load_written<tw::pack<float, $each>>(results + s * $results);
    TW_UNROLL
    for (int n = 0; n < $each; n++) o[n] = tw::fma(weight, part.v[n], o[n]);
}
TW_UNROLL
for (int n = 0; n < $each; n += $together)
{
    tw::pack<$out, $together> result;
    TW_UNROLL
    for (int c = 0; c < $together; c++) result.v[c] = $value;
    tw::store_global(out + ($at), result);
}"""


def _each(p: AttentionTiling) -> int:
    """Number of adjacent elements of a row that a thread merges."""
    return MANY if p.tail > 1 and p.a.width % MANY == 0 else 1


def partial(p: AttentionTiling, part: Expr) -> Access:
    """A part's element of the result in the workspace."""
    rows, at = p.merged_rows * p.a.width, (axis("o") * p.a.queries + axis("i")) * p.a.width + axis("e")
    return Access(WORKSPACE, (part * rows + at,), "float32")


def _nest(p: AttentionTiling) -> LoopNest:
    """The loop nest of the merge."""
    a = p.a
    result = a.accesses[2]
    return LoopNest(
        "merge",
        {"o": a.outer_size, "i": a.queries, "e": a.width, "s": p.parts},
        (
            Loop("o", a.outer_size, 1, "parallel"),
            Loop("i", a.queries, 1, "parallel", "l2"),
            Loop("s", p.parts, 1, "unroll", "register"),
            Loop("e", a.width, 1, "vector", "register"),
        ),
        (partial(p, axis("s")), *(x for x in result if x.store or x.outside)),
        flops_per_point=FLOPS,
        flops_per_output=1 + count_ops(a.finish),
    )
