"""The software-pipelined main loop over tiles of k: later tiles are copied while one is multiplied.

Every split of k has at least ``STAGES - 1`` tiles. If all of k has fewer (``short``), copies of all tiles start first.
"""

from __future__ import annotations

from tilewright.kernels.codegen.substitution import substituted
from tilewright.kernels.templates.cuda_mma.geometry import MmaTiling

ONE_AHEAD = """\
$if copies:copy(0, $tile);
$if copies:tw::cp_commit();
$if carries:fetch($tile);
$if carries:put(0);
$unless short:int slot = 0, fill = 1;"""

AHEAD = """\
$unless short:int slot = 0, fill = 0;
TW_UNROLL
$if short:for (int s = 0; s < $ahead; s++) {
$unless short:for (; fill < $ahead; fill++) {
$if copies:    copy($fill, $tile);
$if copies:    tw::cp_commit();
$if carries:    fetch($tile);
$if carries:    put($fill);
}"""

# After the last copy, the commit is empty, so that one constant wait count fits every iteration.
NEXT = """\
$if puts:const bool more = t + $ahead < $end;
$if asks:if ($more) copy(fill, t + $ahead);
$if copies:tw::cp_commit();
$if puts:if (more) fetch(t + $ahead);"""

# Waits until the oldest tile has arrived for all threads. The slot before it is free then.
READY = """\
$if copies:tw::cp_wait<$older>();
tw::sync();"""

PLAIN = f"""\
{READY}
{NEXT}
$scales
TW_UNROLL
for (int q = 0; q < $steps; q++) {{
    $register fa[$mi][4], fb[$ni][2];
    read(fa, fb, $slot, q);
    multiply(fa, fb);
}}
$fold
$if puts:if (more) put(fill);
$unless short:slot = $after_slot;
$unless short:fill = $after_fill;"""

# Fragments of the next step are read while the current ones are multiplied, across tiles too. After the last tile, this
# reads fragments that are never multiplied: cheaper than a test in every tile.
BUFFERED = f"""\
{NEXT}
$scales
$unless short:const int next = $after_slot;
$if pairs:TW_UNROLL
$if pairs:for (int q = 0; q < $last; q += 2) {{
$if pairs:    read(fa[1], fb[1], $slot, q + 1);
$if pairs:    multiply(fa[0], fb[0]);
$if pairs:    read(fa[0], fb[0], $slot, q + 2);
$if pairs:    multiply(fa[1], fb[1]);
$if pairs:}}
$if pair:read(fa[1], fb[1], $slot, 1);
$if pair:multiply(fa[0], fb[0]);
$if pair:read(fa[0], fb[0], $slot, 2);
$if pair:multiply(fa[1], fb[1]);
read(fa[1], fb[1], $slot, $steps_less);
multiply(fa[0], fb[0]);
$if puts:if (more) put(fill);
{READY}
read(fa[0], fb[0], $following, 0);
multiply(fa[1], fb[1]);
$fold
$unless short:slot = next;
$unless short:fill = $after_fill;"""

FIRST = f"""\
$register fa[2][$mi][4], fb[2][$ni][2];
{READY}
read(fa[0], fb[0], 0, 0);"""

TILES = """\
$if rolled:for (int t = $first; t < $end; t++) {
$unless rolled:for (int start = $first; start < $end; start += $unroll) {
$unless rolled:    TW_UNROLL
$unless rolled:    for (int u = 0; u < $unroll; u++) {
$unless rolled:        const int t = start + u;
$if guarded:        if (t < $end) {
$body
$if guarded:        }
$unless rolled:    }
}"""


def ring(p: MmaTiling) -> list[str]:
    """The statements of the main loop and its prologue."""
    copies, carries = any(s.direct for s in p.sides), not all(s.direct for s in p.sides)
    first, end = ("first_tile", "end_tile") if p.split_k else ("0", str(p.tiles_k))
    number = "0" if p.ahead == 1 else "s" if p.short else "fill"
    slot = "t" if p.short else "slot"
    rolled, guarded = p.unrolled == 1, p.unrolled > 1 and (p.split_k or p.tiles_k % p.unrolled > 0)
    mapping = {
        "copies": copies, "carries": carries, "short": p.short, "puts": carries and not p.short,
        "asks": copies and not p.short, "more": "more" if carries else f"t + {p.ahead} < {end}",
        "ahead": p.ahead, "older": p.ahead - 1, "first": first, "end": end, "fill": number,
        "tile": f"{first} + {number}" if p.split_k else number,
        "register": p.instruction.register, "mi": p.mi, "ni": p.ni, "steps": p.steps, "steps_less": p.steps - 1,
        "last": p.steps - 2, "pairs": p.steps not in (2, 4), "pair": p.steps == 4,
        "slot": slot, "following": "t + 1" if p.short else "next",
        "after_slot": f"slot + 1 == {p.stages} ? 0 : slot + 1", "after_fill": f"fill + 1 == {p.stages} ? 0 : fill + 1",
        "unroll": p.unrolled, "rolled": rolled, "guarded": guarded, "scales": [], "fold": [],
    }  # fmt: skip
    if p.fold is not None:
        row, column = f"m0 + {p.warp_at('a')}i * 16", f"n0 + {p.warp_at('b')}".removesuffix(" + ")
        mapping |= {
            "scales": p.fold.read(p.batch, row, column, f"t * {p.bk}"), "fold": p.fold.add("[j][e]", again=True),
        }  # fmt: skip
    depth = 1 if rolled else 3 if guarded else 2
    body = [" " * 4 * depth + x for x in substituted(BUFFERED if p.double_buffer else PLAIN, mapping)]
    parts = [ONE_AHEAD if p.ahead == 1 else AHEAD, *([FIRST] if p.double_buffer else []), TILES]
    return [line for x in parts for line in substituted(x, {**mapping, "body": body})]
