"""C++ by which a warp group multiplies the tiles of the ring's slots.

``multiply(slot, add)`` starts the products of a slot, ``release(slot)`` says that they have read it, ``next()`` steps
to the slot that follows.
"""

from __future__ import annotations

from tilewright.kernels.codegen.holes import fill
from tilewright.kernels.templates.cuda_wgmma.geometry import WgmmaTiling

HOLD = """\
TW_UNROLL
for (int i = 0; i < $mi; i++) tw::wgmma_hold($sums[i]);"""

TURN = "tw::mbarrier_arrive(may + $barrier * (group ^ 1));"
"""The other group may multiply."""

# Products of one slot wait while those of the next one start. The turn is given in the loop, where the last ones have
# started: where it is given behind it, assemblers (CUDA 13.0 to 13.5) read sums before they are waited for.
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

# The sum of each slot is scaled and added to those before. ONE: while another group multiplies. TWO: while the next
# slot is multiplied into a sum of its own. Nothing is under way there when the loop begins anew: else assemblers (CUDA
# 13.0) make all products wait for each other.
ZERO = """\
TW_UNROLL
for (int i = 0; i < $mi; i++) {
    TW_UNROLL
    for (int j = 0; j < $each; j++) acc[i][j] = 0;
}"""
START = f"""\
tw::mbarrier_wait(full + $barrier * slot, turn);
{HOLD}
multiply(slot, 0, $sums);
held[$part] = slot;
next();"""
WAIT = f"""\
tw::wgmma_wait<$left>();
{HOLD}
$unless shared:release(held[$part]);"""
ADD = """\
$fold
$if shared:tw::sync_warp();  // all lanes have read the scales
$if shared:release(held[$part]);"""
ONE = """\
$zero
int held[1];
for (int t = $first; t < $end; t++) {
$scales
$start
$wait
$add
}
$if turns:if (lane == 0) $turn"""
TWO = """\
$zero
int held[2];
$start
$wait
const int last = $end - 1 - ($end - 1 - ($first)) % 2;  // or the one before it
TW_KEEP_LOOP
for (int t = $first; t < last; t += 2) {
    {
$other_start
$scales
$add
    }
$again_start
$other_scales
$other_wait_1
$other_add
$again_wait
}
{
    const int t = last;
    if (t + 1 < $end) {
$other_start
    }
$scales
$add
}
if (last + 1 < $end) {
    const int t = last;
$other_scales
$other_wait_0
$other_add
}
$if turns:if (lane == 0) $turn"""


def loop(p: WgmmaTiling, barrier: int, first: str, end: str) -> list[str]:
    """Statements that sum a tile of the output, over steps of k from ``first`` up to ``end``."""
    holes: dict[str, object] = {
        "mi": p.mi, "each": p.sums, "sums": p.summed, "barrier": barrier, "first": first, "end": end,
        "turns": p.ping_pong, "alone": p.ping_pong and p.tiles_k == 1,
    }  # fmt: skip
    if p.fold is None:
        return fill(PLAIN, holes).split("\n")
    holes |= {"zero": fill(ZERO, holes), "turn": TURN.replace("$barrier", str(barrier)), "shared": p.scale_bytes > 0}

    def filled(text: str, depth: int, part: int = 0, left: int = 0) -> list[str]:
        shared = f"scales + held[{part}] * {p.bn} + lane % 4 * 2" if p.scale_bytes else ""
        add = fold.add("[4 * j + e]", again=False, part=f"part[{part}]", shared=shared)
        found = fill(text, {**holes, "part": part, "left": left, "sums": f"part[{part}]", "fold": add})
        return ["    " * depth + x for x in found.split("\n")]

    def scales(depth: int, t: str = "t") -> list[str]:
        return ["    " * depth + x for x in fold.read(batch, row, "n0", f"{t} * {p.bk}")]

    fold, row, batch = p.fold, f"{p.row('i')} + warp * 16", "batch" if p.p.batch > 1 else "0"
    if p.parts == 1:
        return fill(ONE, holes | {
            "scales": scales(1), "start": filled(START, 1), "wait": filled(WAIT, 1), "add": filled(ADD, 1),
        }).split("\n")  # fmt: skip
    return fill(TWO, holes | {
        "start": filled(START, 0), "wait": filled(WAIT, 0), "other_start": filled(START, 2, 1), "scales": scales(2),
        "add": filled(ADD, 2), "again_start": filled(START, 1), "other_scales": scales(1, "(t + 1)"),
        "other_wait_1": filled(WAIT, 1, 1, 1), "other_wait_0": filled(WAIT, 1, 1, 0), "other_add": filled(ADD, 1, 1),
        "again_wait": filled(WAIT, 1),
    }).split("\n")  # fmt: skip
