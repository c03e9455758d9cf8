"""Search space of a row program.

``threads``: threads of a block. ``lanes``: threads that share a row. ``vector``: adjacent columns that a thread takes
at once. ``keep``: where values stay that several passes read (``none``: they are read or computed again; ``inputs``:
reads stay in shared memory, computed values are computed again). ``order``: whether adjacent threads lie along columns
or along rows. ``pieces``: blocks that share a row. A second kernel merges their results where a row has one value;
otherwise the blocks are a cluster (Hopper and later).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from tilewright.core import Target, Value
from tilewright.kernels.families.row_reduction import RowReduction
from tilewright.kernels.templates.cuda import kernels
from tilewright.kernels.templates.cuda.grid import WARP
from tilewright.kernels.templates.cuda.static import allocated, limit
from tilewright.kernels.templates.cuda_rows.plan import RowTiling, analysis, divides, down, plan, widest
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
KEPT = ("registers", "shared", "inputs")
"""Places of kept values, the fastest first."""
ROUNDS = 32
"""Most iterations whose values stay in registers, since their loop is unrolled."""
KNOBS = ("threads", "lanes", "vector", "keep", "order", "pieces")
PIECES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
FEW_ROWS = 1024
"""Most rows for which a second kernel may merge pieces."""
CLUSTER = 8
"""Cluster size that every device with clusters supports."""
CLUSTERS_FROM = 90
"""Compute capability, times ten, from which on devices have clusters."""
THREADS = 512
"""Threads of a block where the default uses clusters for few rows."""
BESIDE, BESIDE_THREADS = 6, 256
"""Fewest resident blocks of a multiprocessor, and threads of a block, where the default uses clusters for many rows.

The fastest of five choices on an H200.
"""


@lru_cache(maxsize=256)
def refusal(r: RowReduction) -> str:
    """Why this template refuses a row reduction; empty where it does not."""
    exprs = tuple(e for s in r.stages for e in s.body)
    return kernels.refusal(r.program, r.tensors, exprs, r.extents, (r.height, r.width))


def space(r: RowReduction, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of a row program on a target."""
    most, per_block = limit(target, "threads_per_block"), limit(target, "shared_per_block")
    width = 1 << max(0, r.width - 1).bit_length()
    kept = analysis(r, "shared")
    keeps = KEPT if kept.stage_items and kept.read_items else KEPT[:2] if kept.items else ()
    knobs = (
        Choice("threads", tuple(t for t in POWERS if 32 <= t <= most)),
        Choice("lanes", tuple(t for t in POWERS if t <= min(most, width))),
        Choice("vector", tuple(v for v in POWERS if v <= widest(r))),
        Choice("keep", (*keeps, "none"), ordered=False),
        Choice("order", ("columns", "rows") if r.height >= WARP else ("columns",), ordered=False),
        Choice("pieces", tuple(n for n in PIECES if n == 1 or (n <= _most_pieces(r, target) and n * 256 <= r.width))),
    )
    rules = (
        rule("a row has more threads than a block", lambda threads, lanes: lanes <= threads),
        rule(
            "most of a block's threads have no row", lambda threads, lanes: threads // lanes <= max(WARP, 2 * r.height)
        ),
        rule(
            "most of a row's threads have no column", lambda lanes, vector: lanes == 1 or lanes * vector < 2 * r.width
        ),
        rule(
            "neighbouring threads along rows take single columns, in warps of 32 rows",
            lambda threads, lanes, vector, order: order == "columns" or (vector == 1 and threads // lanes >= WARP),
        ),
        rule(
            "one thread a row: neighbouring threads lie along rows",
            lambda lanes, order: lanes > 1 or r.height < WARP or order == "rows",
        ),
        rule(
            "a chunk of a row has fewer elements than threads",
            lambda lanes, vector, pieces: pieces == 1 or pieces * lanes * vector <= r.width,
        ),
        rule(
            "a cluster shares more than one row",
            lambda threads, lanes, order, pieces: (
                pieces == 1 or divides(r) or (threads == lanes and order == "columns")
            ),
        ),
        Constraint(KNOBS, lambda v: _fits(plan(r, v), target, per_block), "registers or shared memory do not suffice"),
    )
    return SearchSpace(template, version, knobs, rules)


def _fits(p: RowTiling, target: Target, per_block: int) -> bool:
    if p.memory.bytes > per_block or p.grid.blocks * p.pieces >= 1 << 31:
        return False
    if p.keep == "registers":
        words = p.rounds * p.vector * sum(2 if i.held in ("double", "long") else 1 for i in p.analysis.items)
        if words > 96 or p.rounds > ROUNDS:
            return False
    return allocated(p.registers) * p.threads <= limit(target, "registers_per_sm")


def default(r: RowReduction, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule: whole warps along a row, few values a thread, kept values where they fit."""
    options = within.options
    sms = limit(target, "sms")
    if down(r) and "rows" in options["order"]:
        # Adjacent rows are contiguous: a warp takes 32 rows, and threads share the columns where rows are few.
        busy = sms * limit(target, "threads_per_sm") // 2
        lanes = max(n for n in map(int, options["lanes"]) if n == 1 or (n <= 16 and n * r.height <= busy))
        threads = max(256 if lanes < 8 else 512, WARP * lanes)
        return within.first(_of_any_threads(_values(threads, lanes, 1, k, "rows") for k in (*KEPT, "none")))
    vector = max(int(v) for v in options["vector"] if int(v) * 4 <= max(4, r.width) or v == 1)
    wanted: list[dict[str, Value]] = []
    if len(options["pieces"]) > 1 and divides(r) and 2 * r.height <= sms:
        # Few long rows: enough pieces to occupy all multiprocessors, none shorter than its threads.
        for lanes in (512, 256, 128, 64, 32):
            most = min(4 * sms // r.height, r.width // (lanes * vector * 4))
            pieces = max(n for n in map(int, options["pieces"]) if n == 1 or n <= most)
            if pieces > 1:
                wanted.append(_values(lanes, lanes, vector, "none", "columns", pieces))
    if len(options["pieces"]) > 1 and not divides(r):
        wanted += _clustered(r, target, options, vector)
    for vec in sorted({vector, 1}, reverse=True):
        # Up to eight accesses a thread; one warp where it has rows enough for all multiprocessors.
        lanes = 1
        while lanes < 1024 and lanes * vec * (8 if lanes >= WARP else 2) < r.width:
            lanes *= 2
        if r.height < 4 * sms:
            while lanes < 1024 and lanes * vec < r.width:
                lanes *= 2
        for keep in (*KEPT, "none"):
            for n in (lanes, 2 * lanes, 4 * lanes, lanes // 2):
                if n in options["lanes"]:
                    order = "rows" if n == 1 and "rows" in options["order"] else "columns"
                    one = 1 if order == "rows" else vec
                    wanted.append(_values(max(n, 128), n, one, keep, order))
    return within.first(_of_any_threads(wanted))


def _of_any_threads(wanted: Iterable[dict[str, Value]]) -> Iterator[dict[str, Value]]:
    """Schedules, each with its own number of threads and then with other numbers."""
    return ({**v, "threads": t} for v in wanted for t in (v["threads"], 256, 64, 32, 512, 1024))


def _clustered(
    r: RowReduction, target: Target, options: Mapping[str, Sequence[Value]], vector: int
) -> list[dict[str, Value]]:
    """Clusters for few long rows, and for rows so long that a multiprocessor holds a single row.

    A single resident block leaves memory idle at every barrier, so several blocks must fit a multiprocessor. Kept reads
    take less shared memory at their own width than values computed from them.
    """

    def cluster(pieces: int, keep: str, threads: int = BESIDE_THREADS) -> dict[str, Value]:
        return _values(threads, threads, vector, keep, "columns", pieces)

    def beside(pieces: int, keep: str) -> int:
        used = plan(r, cluster(pieces, keep)).memory.bytes + limit(target, "shared_reserved")
        return limit(target, "shared_per_sm") // used

    sms, several = limit(target, "sms"), [int(n) for n in options["pieces"] if n != 1]
    if 2 * r.height <= sms:
        most = min(4 * sms // r.height, ceildiv(r.width, 4 * THREADS * vector))
        return [cluster(n, k, THREADS) for n in several[::-1] if n <= most for k in (*KEPT, "none")]
    if "shared" not in options["keep"] or beside(1, "shared") > 1:
        return []
    kept = [str(k) for k in KEPT[:0:-1] if k in options["keep"]]
    found = [cluster(n, k) for k in kept for n in several if beside(n, k) >= BESIDE]
    return found + [cluster(n, "registers") for n in several] + [cluster(several[-1], k) for k in kept]


def _values(threads: int, lanes: int, vector: int, keep: str, order: str, pieces: int = 1) -> dict[str, Value]:
    return {
        "threads": threads, "lanes": lanes, "vector": vector, "keep": keep, "order": order, "pieces": pieces,
    }  # fmt: skip


def _most_pieces(r: RowReduction, target: Target) -> int:
    """Largest number of blocks that may share a row: many for few rows, or a cluster."""
    if divides(r):
        return PIECES[-1] if r.height <= FEW_ROWS else 1
    return CLUSTER if int(target.limit.get("cc", 0)) >= CLUSTERS_FROM else 1
