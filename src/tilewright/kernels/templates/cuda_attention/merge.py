"""Parts of the keys, which blocks share: what each leaves in the workspace, and the second kernel, which merges them.

Where queries are few, blocks of them leave multiprocessors idle (Dao and others, "Flash-Decoding", 2023). The workspace
holds a row of the result for each part and query, not divided yet; behind these the bases, then the sums of the
weights, all float32.
"""

from __future__ import annotations

from tilewright.core import Launch
from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.cuda.text import declared, parameters, split
from tilewright.kernels.templates.cuda_attention.geometry import ITEM, AttentionTiling
from tilewright.kernels.templates.cuda_attention.text import finish, position
from tilewright.kernels.templates.tiles import ceildiv

THREADS = 256


def workspace(p: AttentionTiling) -> int:
    """Bytes of workspace."""
    return p.parts * p.rows_of_result * (p.a.width + 2) * ITEM if p.parts > 1 else 0


def left(p: AttentionTiling, first: str, base: str, total: str) -> list[str]:
    """Statements by which a query's ``first`` thread leaves base and sum; its result belongs at ``partial``."""
    if p.parts == 1:
        return []
    bases, rows = p.parts * p.rows_of_result * p.a.width, p.parts * p.rows_of_result
    return [
        f"const int row = (part * {p.a.outer_size} + block) * {p.a.queries} + i;",
        f"float *const partial = (float *)ws + row * {p.a.width};",
        f"if ({first}) {{",
        f"    tw::store_global((float *)ws + {bases} + row, {base});",
        f"    tw::store_global((float *)ws + {bases + rows} + row, {total});",
        "}",
    ]


def kernel(p: AttentionTiling, symbol: str, weight: str) -> str:
    """The second kernel, ``<symbol>_merge``; ``weight``: of a part, from its ``base`` and that of all, ``top``."""
    if p.parts == 1:
        return ""
    rows, width = p.rows_of_result, p.a.width
    text = fill(MERGED, {
        "parts": p.parts, "rows": rows, "results": rows * width, "bases": p.parts * rows * width, "weight": weight,
        "sums": p.parts * rows, "at": position(p, "i", "e"), "value": finish(p).call(o="o / sum", e="e"),
    })  # fmt: skip
    group = Group(p.a.outer, tuple(p.a.ranges[x] for x in p.a.outer))
    texts = {"e": f"int(unsigned(at) % {width}u)", "row": f"int(unsigned(at) / {width}u)"}
    texts |= {"i": f"int(unsigned(row) % {p.a.queries}u)", "block": f"int(unsigned(row) / {p.a.queries}u)"}
    texts |= {f"o_{x}": place for x, place in split(group, "block").items()}
    return fill(MERGE, {
        "threads": THREADS, "symbol": symbol, "parameters": parameters(p.a.program),
        "spare": rows * width % THREADS, "results": rows * width, "body": declared(texts, text),
    })  # fmt: skip


# A part that has no key for a query has the least base, and a sum of 0: no other part, no weight.
MERGE = """\
TW_KERNEL($threads, 1) void ${symbol}_merge($parameters) {
    using namespace ${symbol}_;
    const int at = (int)(blockIdx.x * $threads + threadIdx.x);
$if spare:    if (at >= $results) return;
$body
}
"""

MERGED = """\
    const float *const results = (const float *)ws + at, *const bases = (const float *)ws + $bases + row;
    float top = tw::load_global<float>(bases), sum = 0.0f, o = 0.0f;
    TW_UNROLL
    for (int s = 1; s < $parts; s++) top = tw::max_number(top, tw::load_global<float>(bases + s * $rows));
    TW_UNROLL
    for (int s = 0; s < $parts; s++)
    {
        const float base = tw::load_global<float>(bases + s * $rows), weight = $weight;
        sum = tw::fma(weight, tw::load_global<float>(bases + $sums + s * $rows), sum);
        o = tw::fma(weight, tw::load_global<float>(results + s * $results), o);
    }
    tw::store_global(out + ($at), $value);"""


def launch(p: AttentionTiling, symbol: str) -> tuple[Launch, ...]:
    """The second launch, where there is one."""
    if p.parts == 1:
        return ()
    blocks = ceildiv(p.rows_of_result * p.a.width, THREADS)
    return (Launch(f"{symbol}_merge", grid=(blocks, 1, 1), block=(THREADS, 1, 1)),)
