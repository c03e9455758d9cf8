"""C++ of the main loop, in which a warp group multiplies the tiles of the ring's slots.

``multiply(slot, add)`` issues the WGMMA instructions of a slot, ``release(slot)`` signals that they have read it, and
``next()`` advances to the next slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.kernels.codegen.substitution import substitute, substituted
from tilewright.kernels.templates.cuda.warpgroups import BARRIER
from tilewright.kernels.templates.cuda_wgmma.geometry import WgmmaTiling

HOLD = """\
TW_UNROLL
for (int i = 0; i < $mi; i++) tw::wgmma_hold(acc[i]);"""

TURN = "tw::mbarrier_arrive(may + $barrier * (group ^ 1));"
"""Ping-pong: the other group may multiply."""

# A slot is released after the next slot's instructions have started. With ping-pong, the other group is admitted inside
# the loop, after the last instructions have started. An arrival behind the loop made assemblers (CUDA 13.0 to 13.5)
# read sums before they are waited for.
PLAIN = f"""\
tw::mbarrier_wait(full + $barrier * slot, turn);
{HOLD}
multiply(slot, 0);
$if alone:if (lane == 0) {TURN}
int before = slot;
next();
for (int t = $first + 1; t < $end; t++) {{
    tw::mbarrier_wait(full + $barrier * slot, turn);
    multiply(slot, 1);
$if turns:    if (t + 1 == $end && lane == 0) {TURN}
    tw::wgmma_wait<1>();
    release(before);
    before = slot;
    next();
}}
tw::wgmma_wait<0>();
{HOLD}
release(before);"""

# 64 rows of a slot are multiplied into a sum of their own, which is scaled and added to the accumulators. ONE: this
# happens while another group multiplies. TWO: it happens while the next 64 rows are multiplied into a second sum. No
# instruction is in flight when TWO's loop starts an iteration: otherwise assemblers (CUDA 13.0) serialise all of them.
ZERO = """\
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int j = 0; j < $each; j++) acc[i][j] = 0;
}"""
START = """\
$if begins:tw::mbarrier_wait(full + $barrier * slot, turn);
$if begins:$slot = slot;
$if begins:next();
tw::wgmma_hold(part[$part]);
multiply($slot, $i, part[$part]);"""
WAIT = """\
tw::wgmma_wait<$left>();
tw::wgmma_hold(part[$part]);"""
ADD = """\
{
    $fetch
    $wait
$if early:    release($slot);
    $fold
$if late:    release($slot);
}"""
ONE = """\
$zero
int now;
for (int t = $first; t < $end; t++) {
    $each_part
}
$if turns:if (lane == 0) $turn"""
TWO = """\
$zero
int now, then;
$start_0
$wait_0
const int last = $last;
TW_KEEP_LOOP
for (int t = $first; t < last; t += $slots) {
    $start_1
    $add_0
    $start_2
    $wait_1
    $add_1
    $wait_2
$if alike:    now = then;
}
$unless alike:if (last + 1 < $end)
{
    $start_1
    $add_0
    $end_1
    $add_1
}
$unless alike:else {
$unless alike:    $add_0
$unless alike:}
$if turns:if (lane == 0) $turn"""


def loop(p: WgmmaTiling, first: str, end: str) -> list[str]:
    """Statements that accumulate a tile of the output over steps of k from ``first`` up to ``end``."""
    mapping: dict[str, object] = {
        "mi": p.mi, "each": p.sums, "barrier": BARRIER, "first": first, "end": end,
        "turns": p.ping_pong, "alone": p.ping_pong and p.tiles_k == 1,
    }  # fmt: skip
    if p.fold is None:
        return substituted(PLAIN, mapping)
    mapping |= {"zero": substitute(ZERO, mapping), "turn": TURN.replace("$barrier", str(BARRIER))}
    if p.parts == 1:
        parts = []
        for i in range(p.mi):
            parts += _start(0, i, "now", i == 0) + _add(p, 0, i, "now", i == p.mi - 1, _wait(0, 0))
        return substituted(ONE, mapping | {"each_part": parts})
    # An iteration takes one slot of two 64-row parts, or two slots of one part each.
    alike = p.mi == 2
    i, slot, more = (1, "now", "then") if alike else (0, "then", "now")
    return substituted(TWO, mapping | {
        "alike": alike, "slots": 1 if alike else 2,
        "last": f"{end} - 1" if alike else f"{end} - 1 - ({end} - 1 - ({first})) % 2",
        "start_0": _start(0, 0, "now", True), "wait_0": _wait(0, 0), "start_1": _start(1, i, slot, not alike),
        "add_0": _add(p, 0, 0, "now", not alike), "start_2": _start(0, 0, more, True), "wait_1": _wait(1, 1),
        "add_1": _add(p, 1, i, slot, True), "wait_2": _wait(0, 0), "end_1": _wait(1, 0),
    })  # fmt: skip


def _start(part: int, i: int, slot: str, begins: bool) -> list[str]:
    """Statements that start the sum ``part`` of 64 rows, number ``i``, of the slot in the variable ``slot``.

    ``begins``: this is the slot's first sum, so the statements wait for the slot.
    """
    return substituted(START, {"barrier": BARRIER, "part": part, "i": i, "slot": slot, "begins": begins})


def _wait(part: int, left: int) -> list[str]:
    """Statements that wait for the sum ``part`` while ``left`` later sums stay in flight."""
    return substituted(WAIT, {"part": part, "left": left})


def _add(p: WgmmaTiling, part: int, i: int, slot: str, ends: bool, wait: Sequence[str] = ()) -> list[str]:
    """Statements that scale a slot sum and add it; ``wait``: statements that wait for it.

    ``ends``: this is the slot's last sum, so the slot is released.
    """
    fold = p.fold
    assert fold is not None
    rows = p.bm if "a" in fold.scales.of else 0
    at = f"scales + {slot} * {p.scale_bytes // 4}"
    pairs = f"{at} + {rows} + lane % 4 * 4" if fold.pairs else ""
    return substituted(ADD, {
        "fetch": fold.fetch(at, f"{p.within('i')} + warp * 16", rows, i), "wait": wait, "slot": slot,
        "fold": fold.add("[4 * j + e]", again=False, part=f"part[{part}][4 * j + e]", pairs=pairs, rows=(i, i + 1)),
        "early": ends and not fold.pairs, "late": ends and fold.pairs,
    })  # fmt: skip
