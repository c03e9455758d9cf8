"""Search space of an attention on a GPU, and its default schedule.

Knobs of all kernels: ``warps`` of a block, ``BK`` keys of a block, ``stages`` blocks of keys in shared memory,
``min_blocks`` that a multiprocessor must hold. On Tensor Cores, each warp has ``tiles`` tiles of 16 queries, and
``q_registers`` keeps their fragments in registers. On CUDA cores, ``lanes`` threads share ``rows`` queries.

On Hopper, ``groups`` warp groups multiply where TMA can copy all operands; 0: each warp multiplies on its own. With
``ping_pong`` groups take turns to start products, so that one group computes its softmax while another multiplies (Shah
and others, "FlashAttention-3", 2024).

Where there may be fewer blocks than multiprocessors, ``KP`` blocks split the keys of their queries, and a second kernel
merges the parts. ``pack``: where heads share keys, rows of a tile are the queries of all of these heads.

Knobs of warp groups only (``geometry.AttentionTiling``): ``overlap`` orders softmax and products. ``persistent`` and
``tail`` distribute tiles of queries where they outnumber multiprocessors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

from tilewright.core import Schedule, Target, Value
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.cuda.static import blocks_per_sm, limit
from tilewright.kernels.templates.cuda.warpgroups import REGISTERS, WARPS, available, launched, peak
from tilewright.kernels.templates.cuda_attention.boxes import fetched
from tilewright.kernels.templates.cuda_attention.geometry import DEPTH, ITEM, ROWS, AttentionTiling, fits, plan
from tilewright.kernels.templates.cuda_attention.match import Form
from tilewright.kernels.templates.cuda_attention.text import skips
from tilewright.kernels.templates.tiles import ceildiv
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

POWERS = (16, 32, 64, 128)
KEYS = (16, 32, 64, 96, 128, 192)
"""Numbers of keys of a block for warp groups."""
CODE_LIMIT = 4096
"""Most multiply-adds in one unrolled loop body."""
DEEP = 5
"""Number of blocks of keys in shared memory where a group has few queries and memory is the bottleneck."""
L2_BYTES = 64
"""Bytes a clock from the L2 cache to a multiprocessor."""
LATENCY = 1200
"""Cycles from a copy's start to its end where memory is busy, on an H200."""
PART = 64
"""Fewest keys of a part."""
MOST_PARTS = 64
TAILS = (1, 2, 3, 4, 5, 8)
"""Numbers of splits of a tile in the last, incomplete wave."""
MERGE = 4000
"""Cycles of a second launch, guessed."""
MERGED_BYTES = L2_BYTES / 2
"""Bytes of partial results that a multiprocessor writes or reads in a clock, on an H200."""
ENDS = {0: 2000, 1: 5200, 2: 5200, 3: 8500}
"""Cycles before a block's first product and behind its last product together, by number of groups, on an H200."""
WALKED = 3000
"""Cycles of :data:`ENDS` that a persistent loop saves.

Blocks of a split tail with long rows save them without a persistent loop: there an H200 took 1.02 of the time with one.
"""
SHORT = 64
"""Most elements of a short row."""
COPIED_RATE = 0.94
"""Bandwidth of memory with copies by threads, relative to TMA, on an H200."""
FEW_KEYS = 8192
"""Keys of a part from which on a warp group is known to be faster for a few queries, on an H200."""
GAIN = 1.25
"""Estimated speed-up from which on the default splits the keys."""
TURNS = {2: 1.02, 3: 0.96}
"""Time of a block of keys with ping-pong, relative to the time without, by number of groups, on an H200."""
SAFE = 252
"""Most estimated registers without any spill seen."""


def _knobs(f: Form, target: Target) -> list[Choice]:
    a, pack = f.a, [Choice("pack", (False, True))] if f.packed else []
    rows = (f.packed or f).a.queries
    if f.tensor_cores:
        groups = available(target) and any(fetched(x) for x in (f, f.packed) if x)
        return [
            Choice("warps", tuple(w for w in (1, 2, 4, 8) if w == 1 or 16 * w < 2 * rows or (groups and w == WARPS))),
            Choice("tiles", tuple(t for t in (1, 2) if t == 1 or rows > 16)),
            Choice("BK", tuple(b for b in (KEYS if groups else POWERS) if b == 16 or b < 2 * a.keys)),
            Choice("stages", (1, 2, 3, *([DEEP] if groups and rows <= ROWS * WARPS else []))),
            Choice("q_registers", (False, True)),
            Choice("min_blocks", (1, 2)),
            *(_of_groups(rows) if groups else []),
            *pack,
        ]
    copied = plan(f, target, {}).async_copies
    return [
        Choice("warps", (1, 2, 4, 8)),
        Choice("lanes", (4, 8, 16, 32)),
        Choice("rows", (1, 2, 4, 8)),
        Choice("BK", tuple(b for b in (16, 32, 64) if b == 16 or b < 2 * a.keys)),
        Choice("stages", (1, 2) if copied else (1,)),
        Choice("min_blocks", (1, 2)),
        *pack,
    ]


def _of_groups(rows: int) -> list[Choice]:
    """Knobs of warp groups. Few queries allow only one group."""
    return [
        Choice("groups", (0, *(REGISTERS if rows > ROWS * WARPS else (1,)))),
        Choice("ping_pong", (False, True)),
        Choice("overlap", (False, True)),
    ]


def _parts(f: Form, target: Target) -> tuple[int, ...]:
    """Values of ``KP``: powers of 2, and numbers that fill whole waves of multiprocessors.

    Only 1 where even the largest blocks keep all multiprocessors busy.
    """
    largest = plan(f, target, {"warps": 8, "tiles": 2, "lanes": 4, "rows": 8, "pack": f.packed is not None})
    found = [1]
    while _worth_split(largest, target, 2 * found[-1]) and 2 * found[-1] * PART <= f.a.keys and found[-1] < MOST_PARTS:
        found.append(2 * found[-1])
    rounds = {n * limit(target, "sms") // largest.query_tiles for n in range(1, 5)} if len(found) > 1 else set()
    return tuple(sorted({*found, *(n for n in rounds if n * PART <= f.a.keys and n <= 2 * found[-1])}))


def _worth_split(p: AttentionTiling, target: Target, parts: int) -> bool:
    """Whether unsplit blocks leave multiprocessors idle, and ``parts`` times as many are at most four a
    multiprocessor."""
    sms, alone = limit(target, "sms"), p.query_tiles
    return alone < sms and parts * alone <= 4 * sms


def space(f: Form, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of an attention on a target."""
    knobs = _knobs(f, target)
    parts = _parts(f, target)
    if len(parts) > 1:
        knobs.append(Choice("KP", parts))
    two = plan(f, target, {"BK": KEYS[0], "warps": WARPS, "groups": 2})
    if any(k.name == "groups" and 2 in k.values for k in knobs) and two.query_tiles > two.sms and not skips(two):
        knobs += [Choice("persistent", (False, True)), Choice("tail", TAILS)]
    names = tuple(k.name for k in knobs)
    # The most expensive rule is tested last, and once for all values of KP, which it does not depend on.
    room = Constraint(
        tuple(n for n in names if n != "KP"),
        lambda v: fits(plan(f, target, v), target),
        "a block takes more registers or shared memory",
    )
    rules: list[Constraint] = []
    if not f.tensor_cores:
        rules = [
            rule("threads have no key to score", lambda lanes, BK: lanes <= BK),
            rule(
                "the unrolled loop bodies are too long",
                lambda lanes, rows, BK: _code(plan(f, target, {"lanes": lanes, "rows": rows, "BK": BK})) <= CODE_LIMIT,
            ),
        ]
    if "groups" in names:
        rules += [
            rule("a group has four warps", lambda warps, groups: not groups or warps == WARPS),
            rule("groups read queries in shared memory", lambda q_registers, groups: not (q_registers and groups)),
            rule("groups share out all registers", lambda min_blocks, groups: groups < 2 or min_blocks == 1),
            rule("other numbers of keys are for groups", lambda BK, groups: groups or BK in POWERS),
            rule(
                "a warp group has no other warp group to take turns with",
                lambda groups, ping_pong: groups > 1 or not ping_pong,
            ),
        ]
        rules.append(rule("warps have too few slots of the ring", lambda stages, groups: groups or stages < DEEP))
        rules.append(rule("warps have no product in flight", lambda groups, overlap: groups or not overlap))
    if "tail" in names:
        rules += _wave_rules(f, target, names)
    sizes = tuple(n for n in names if n in ("warps", "tiles", "lanes", "rows", "groups", "pack"))
    if "pack" in names and f.tensor_cores:
        rules.append(Constraint(sizes, lambda v: _filled(plan(f, target, v)), "half of a block's rows hold no queries"))
    if "pack" in names and "groups" in names:
        form = {False: f, True: f.packed or f}
        rules.append(
            rule("no tensor map describes the operands", lambda groups, pack: not groups or fetched(form[pack]))
        )
    rules.append(room)
    if len(parts) > 1:
        rules += [
            rule("each part of the keys has only one block", lambda BK, KP: KP == 1 or f.a.keys // BK >= 2 * KP),
            Constraint(
                (*sizes, "KP"),
                lambda v: v["KP"] == 1 or _worth_split(plan(f, target, v), target, int(v["KP"])),
                "there are blocks enough",
            ),
        ]
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def _wave_rules(f: Form, target: Target, names: tuple[str, ...]) -> list[Constraint]:
    """Constraints on ``persistent`` and ``tail``: several groups of one block a multiprocessor, and more tiles than
    multiprocessors."""
    parts = ("KP",) if "KP" in names else ()

    def tiles(groups: int, tiles: int) -> AttentionTiling:
        return plan(f, target, {"warps": WARPS, "groups": groups, "tiles": tiles, "tail": 2})

    def rounds(v: Mapping[str, Value]) -> bool:
        if not v["persistent"] and v["tail"] == 1:
            return True
        p = tiles(int(v["groups"]), int(v["tiles"]))
        return p.groups > 1 and v.get("KP", 1) == 1 and p.query_tiles > p.sms and (v["tail"] == 1 or p.left > 0)

    return [
        Constraint(
            ("groups", "tiles", *parts, "persistent", "tail"),
            rounds,
            "several groups have no whole round of tiles, or no tiles behind those",
        ),
        rule("each part of the keys has only one block", lambda BK, tail: tail == 1 or f.a.keys // BK >= 2 * tail),
    ]


def _filled(p: AttentionTiling) -> bool:
    """Whether more than half of a block's rows are queries, or the block is a single tile."""
    return p.block_q < 2 * p.a.queries or p.block_q == p.unit_rows


def _code(p: AttentionTiling) -> int:
    return max(p.rows * p.keys_each * 4, p.rows * p.value_groups * p.value_vector * 4)


@lru_cache(maxsize=64)
def usable(f: Form, target: Target) -> bool:
    """Whether any schedule is legal: the smallest block fits."""
    smallest = {"BK": 16, "warps": 1, "stages": 1, "lanes": 16}
    return fits(plan(f, target, smallest), target)


def default(f: Form, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The schedule with the shortest estimated time."""

    def cost(schedule: Schedule) -> tuple[bool, float]:
        p = plan(f, target, schedule.values)
        few = p.groups > 0 and p.a.queries <= ROWS * WARPS // 2 and p.part_blocks * p.block_k < FEW_KEYS
        return p.registers > SAFE or few, cycles(p, target) * (GAIN if p.parts > 1 else 1)

    best = min((s for s in within if bool(s.values.get("overlap")) == _overlaps(f, s.values)), key=cost)
    return dict(best.values)


def _overlaps(f: Form, v: Mapping[str, Value]) -> bool:
    """Whether an H200 was faster with ``overlap``.

    It took 0.96 of the time for three groups, whole tiles and short rows, and 1.01 of the time with split tiles.
    """
    return v.get("groups") == 3 and v.get("tail", 1) == 1 and max(f.a.depth, f.a.width) <= SHORT


def cycles(p: AttentionTiling, target: Target) -> float:
    """Estimated cycles of the busiest multiprocessor: products, reads of shared memory and softmax of its blocks.

    Splits of the keys add a second launch, which writes and reads partial results.
    """
    held = launched(p.groups) if p.groups > 1 else p.registers
    resident = max(1, blocks_per_sm(target, p.threads, held, p.shared))
    sms = limit(target, "sms")
    rounds, parts = _rounds(p, sms)
    here = rounds + parts / p.tail
    warps = min(resident, math.ceil(here)) * p.warps
    # Every block of queries reads the keys and values of its heads again.
    again = p.block_k * (p.depth + p.width) * p.item / L2_BYTES
    step = _group_cycles(p, target, warps, again, resident) if p.groups else _warp_cycles(p, warps, again, resident)
    # Where memory is the bottleneck, a little of the rest still shows.
    step = max(step, _memory_cycles(p, target, here / math.ceil(here / resident))) + step / 20
    merge = MERGE + 2 * p.each * p.merged_rows * p.width * ITEM / (MERGED_BYTES * sms) if p.divided else 0
    ends = ENDS[p.groups] - (WALKED if p.persistent or (p.tail > 1 and p.depth > SHORT) else 0)
    return here * p.part_blocks * step + (rounds + parts) * ends / max(1, min(resident, here)) + merge


def _rounds(p: AttentionTiling, sms: int) -> tuple[float, int]:
    """Number of whole blocks of the busiest multiprocessor, and of split pieces that follow them."""
    if p.tail > 1:
        return p.query_tiles // sms, ceildiv(p.left * p.tail, sms)
    # The last blocks fill idle multiprocessors, since masks make them short.
    return p.blocks / sms if skips(p) and p.blocks > sms else ceildiv(p.blocks, sms), 0


def _memory_cycles(p: AttentionTiling, target: Target, at_once: float) -> float:
    """Cycles to fetch a block of keys and values from memory: the time of its bytes and the latency of its copies.

    ``at_once``: number of blocks whose copies are in flight together.
    """
    tensors = {str(x.value): x.dtype for side in (p.a.k, p.a.v) for x in side.load.loads()}
    once = sum(p.a.program.tensors[n].size * ITEMSIZE[t] for n, t in tensors.items())
    bytes_ = p.block_k * (p.f.k.length * ITEMSIZE[p.f.k.dtype] + p.f.v.length * ITEMSIZE[p.f.v.dtype])
    first = min(1.0, once / (p.query_tiles * p.key_blocks * bytes_))  # first reads; the rest hits the L2 cache
    # With a single slot, keys and values are copied one after the other.
    way = 2 * LATENCY if p.stages == 1 else LATENCY / (p.stages - 1)
    rate = peak(target, "bandwidth") * (1 if p.groups else COPIED_RATE)
    return first * math.hypot(bytes_ / rate, way / at_once)


def _warp_cycles(p: AttentionTiling, warps: int, again: float, resident: int) -> float:
    """Cycles of a block of keys where warps multiply on their own. ``warps``: of a multiprocessor.

    ``again``: cycles to read the block from the L2 cache.
    """
    if p.cores:
        # Two products, the second maybe with weights in two words; fragments of keys and values for each 16 rows.
        scores = p.block_q * p.block_k
        products = scores * (p.depth + p.words * p.width) / 1024
        reads = p.warps * p.block_k * (p.depth + p.width) * 2 / 128
        reads += 0 if p.q_registers else p.block_q * p.depth * 2 / 128
        # Resources that are busy together slow each other down: with these numbers the best tiles on an A100 are
        # FlashAttention-2's.
        together = math.hypot(products, reads, again) + scores * 10 / 128
    else:
        together = math.hypot(_issue_cycles(p), again)
    # Then a barrier, the latency from scores to weights, and copies that few stages issue too late.
    return together / min(1.0, warps / 8) + (200 + 150 / p.stages) / max(1, resident)


def _issue_cycles(p: AttentionTiling) -> float:
    """Cycles of a block of keys on CUDA cores: instructions of its warps, and waits for shared memory.

    The factors 1.3 and 0.5 were fitted to measured schedules of an H200.
    """
    multiplied = p.rows * p.keys_each * p.depth + p.rows * p.value_groups * p.value_vector * p.block_k
    read = (p.rows + p.keys_each) * p.depth / 4 + (p.rows / 4 + p.value_groups) * p.block_k
    weights = p.rows * (8 * p.keys_each + 6) + 60
    loops = 5 * (p.depth + p.block_k) / 4
    # A read of 16 bytes takes four quarters; lanes that share words save some of them.
    return p.warps * (1.3 * (multiplied + read + weights + loops) / 4 + 0.5 * 2.5 * read)


def _group_cycles(p: AttentionTiling, target: Target, warps: int, again: float, resident: int) -> float:
    """Cycles of a block of keys where warp groups multiply; how much resources slow each other down is an H200's."""
    groups = warps // WARPS
    rate, tiles = peak(target, "fp16_tensor_flops") / 2, p.block_q // p.unit_rows
    # Instructions of 64 x columns x 16, or the time in which their operands arrive from shared memory.
    first = p.steps * max(64 * p.block_k * DEPTH / rate, (64 + p.block_k) * DEPTH * 2 / 128)
    second = p.words * p.block_k // DEPTH * max(64 * p.width * DEPTH / rate, p.width * DEPTH * 2 / 128)
    products = tiles * (first + second)
    # The softmax, and a warp's fixed cost for a block of keys.
    others = p.block_q * p.block_k * 10 / 128 + 20 * p.warps
    # One group's softmax overlaps another group's products, or its own PV product.
    if warps > WARPS:
        together = (products**groups + others**groups) ** (1 / groups)
    else:
        together = tiles * first + math.hypot(tiles * second, others)
    together *= TURNS[p.groups] if p.ping_pong else 1
    return math.hypot(together, again) + (80 if p.stages > 1 else 230) / max(1, resident)
