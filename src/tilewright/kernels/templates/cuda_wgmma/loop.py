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

# The sum of each slot is scaled, while another group multiplies, and added to those before. Its scales are on their way
# while it is multiplied.
FOLDED = f"""\
TW_UNROLL
for (int i = 0; i < $mi; i++) {{
    TW_UNROLL
    for (int j = 0; j < $each; j++) acc[i][j] = 0;
}}
for (int t = $first; t < $end; t++) {{
$scales
    tw::mbarrier_wait(full + $barrier * slot, turn);
$hold
    multiply(slot, 0);
    tw::wgmma_wait<0>();
$hold
    release(slot);
    next();
$fold
}}
$if turns:if (lane == 0) {TURN}"""


def loop(p: WgmmaTiling, barrier: int, first: str, end: str) -> list[str]:
    """Statements that sum a tile of the output, over steps of k from ``first`` up to ``end``."""
    holes: dict[str, object] = {
        "mi": p.mi, "each": p.sums, "sums": p.summed, "barrier": barrier, "first": first, "end": end,
        "turns": p.ping_pong, "alone": p.ping_pong and p.tiles_k == 1,
    }  # fmt: skip
    if p.fold is None:
        return fill(PLAIN, holes).split("\n")
    row, batch = f"{p.row('i')} + warp * 16", "batch" if p.p.batch > 1 else "0"
    texts = {
        "scales": p.fold.read(batch, row, "n0 + ", f"t * {p.bk}"), "hold": fill(HOLD, holes).split("\n"),
        "fold": p.fold.add("[4 * j + e]", again=False),
    }  # fmt: skip
    return fill(FOLDED, holes | {name: ["    " + x for x in lines] for name, lines in texts.items()}).split("\n")
