"""The schedule of a convolution by minimal filtering that is taken untuned: that of the fewest estimated cycles."""

from __future__ import annotations

from tilewright.core import Target, Value
from tilewright.kernels.templates.cpu_contraction.space import core, step_cycles
from tilewright.kernels.templates.cpu_winograd.match import Winograd
from tilewright.kernels.templates.cpu_winograd.plan import channel_pitch
from tilewright.kernels.templates.cpu_winograd.space import SPLITS, shared_axes, tiles
from tilewright.kernels.templates.cpu_winograd.transforms import transforms
from tilewright.kernels.templates.sharing import FEW_THREADS, chosen, evenness
from tilewright.kernels.templates.tiles import Blocks, balanced, ceildiv
from tilewright.search_space import SearchSpace

NEAR, FAR = 32.0, 8.0
"""Bytes a cycle that are read from the second-level cache, and from beyond it."""
STORED = 4.0
"""Cycles for each vector of a register tile until its sums are stored."""
KEPT = 0.8
"""Share of a cache in which operands stay."""


def default(w: Winograd, target: Target, within: SearchSpace) -> dict[str, Value]:
    """A member of the space."""
    c, lanes = w.convolution, target.vector_bytes // 4
    tests = {r.reads: r for r in within.constraints}

    def legal(values: dict[str, Value]) -> bool:
        return all(r.holds({n: values[n] for n in r.reads}) for r in tests.values() if set(r.reads) <= values.keys())

    found: list[tuple[float, dict[str, Value]]] = []
    for m in w.variants:
        blocks = [b for b in within.options["TB"] if isinstance(b, int) and balanced(w.count(m), b)]
        for rows, vectors in tiles(c.features, w.count(m), lanes, target.registers):
            shared = evenness(target.threads, 1, shared_axes(w, target, m, vectors))
            panels = ceildiv(ceildiv(c.features, lanes), vectors)
            for TB in blocks:
                for PB in (b for b in within.options["PB"] if isinstance(b, int) and balanced(panels, b)):
                    one: dict[str, Value] = {"outputs": m, "MR": rows, "NV": vectors, "TB": TB, "PB": PB}
                    found.append((_cycles(w, target, m, rows, vectors, TB, PB) / shared, one))
    found.sort(key=lambda f: f[0])
    values: dict[str, Value] = {**next(v for _, v in found if legal(v)), "unroll": 1, "prefetch": 0}
    outputs, width = values["outputs"], values["NV"]
    assert isinstance(outputs, int)
    assert isinstance(width, int)
    if target.threads > FEW_THREADS:
        values |= zip(SPLITS, chosen(target.threads, 1, shared_axes(w, target, outputs, width)), strict=True)
    elif target.threads > 1:
        splits = [(a, b) for a in within.options["TT"] for b in within.options["TP"]]
        # Each part of the tiles reads all weights, each part of the panels transforms all tiles.
        points = transforms(outputs).points ** 2
        image, weights = w.count(outputs) * points * c.channels, points * c.channels * c.features
        values["TT"], values["TP"] = min(
            ((a, b) for a, b in splits if legal({**values, "TT": a, "TP": b})),
            key=lambda t: (t[0] * t[1] < target.threads, t[0] * weights + 2 * t[1] * image, t),
        )
    return values


def _cycles(w: Winograd, target: Target, outputs: int, rows: int, vectors: int, TB: int, PB: int) -> float:
    """Roughly, on one core: the products of all register tiles, and their operands read from where they lie."""
    c, width = w.convolution, vectors * target.vector_bytes // 4
    on, points = core(target.registers), transforms(outputs).points ** 2
    panels = ceildiv(c.features, width)
    weights = 4 * points * c.channels * panels * width
    total, room = 0.0, KEPT * target.l2_bytes
    # The weights of a point and a panel are read by every register tile: from the first-level cache if they fit it.
    fetched = 4 * width / NEAR if 4 * c.channels * width > KEPT * target.l1_bytes else 0.0

    def step(rows: int) -> float:
        return max(step_cycles(rows, vectors, on), fetched) * (1 + 1 / (rows * vectors))

    for size, times in Blocks(w.count(outputs), TB).counted:
        inputs = 4 * points * size * channel_pitch(c.channels)
        sums = 4 * points * size * width
        held = inputs + PB * sums
        moved = weights / (NEAR if held + weights <= room else FAR) + 2 * inputs / NEAR
        moved += panels * (inputs + 2 * sums) / (NEAR if held <= room else FAR)
        whole, rest = divmod(size, rows)
        products = whole * step(rows) + (step(rest) if rest else 0)
        products = c.channels * products + STORED * size * vectors
        total += times * (panels * points * products + moved)
    return total
