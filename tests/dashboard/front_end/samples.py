"""Charts as runs make them, for the sample page: deterministic, one of each kind."""

from __future__ import annotations

import math
import random

from tilewright.insight.chart import XY, Axis, Bars, Dimension, Drawn, Grid, Parallel, Series

RUN = "20261121-093005-a1b2c3"


def best(trials: int = 400) -> XY:
    """Best time so far with its noise, every trial, and those predicted to be slow."""
    chance = random.Random(1)
    times = [0.02 * math.exp(-2.2 * (1 - math.exp(-n / 90))) * (1 + chance.expovariate(1.5)) for n in range(trials)]
    steps = [n for n in range(trials) if times[n] <= min(times[: n + 1])]
    lowest = [times[n] for n in steps]
    names = [(RUN, n) for n in range(trials)]
    return XY(
        "Best time over trials",
        Axis("Trial", "trial"),
        Axis("Time", "s", "log"),
        (
            Series("Random start", range(64), times[:64], trials=names[:64]),
            Series("Proposed by the model", range(64, trials), times[64:], trials=names[64:]),
            Series(
                "Best so far", [*steps, trials - 1], [*lowest, lowest[-1]], "step",
                [v * 0.93 for v in [*lowest, lowest[-1]]], [v * 1.08 for v in [*lowest, lowest[-1]]],
                [(RUN, n) for n in [*steps, steps[-1]]], emphasis=True,
            ),
        ),
        f"The best time falls from {times[0] * 1e3:.1f} ms to {lowest[-1] * 1e3:.2f} ms over {trials} trials.",
        "The band holds the middle 95% of the repeats of the best trial.",
    )  # fmt: skip


def roofline() -> XY:
    chance = random.Random(2)
    peak, band = 2.4e12, 3e11
    work = [2 ** chance.uniform(0, 7) for _ in range(150)]
    rates = [min(peak, band * w) * chance.betavariate(2, 2) for w in work]
    return XY(
        "Roofline",
        Axis("Arithmetic intensity", "flop/byte", "log"),
        Axis("Rate", "flop/s", "log"),
        (
            Series("Peak", [0.5, peak / band, 256], [0.5 * band, peak, peak], "line", role="limit"),
            Series("Trials", work, rates, trials=[(RUN, n) for n in range(150)], emphasis=True),
        ),
        "Every trial below the roof that the device sets.",
    )


def dates() -> XY:
    start = 1795253405.0
    return XY(
        "Trials an hour",
        Axis("Time", "date"),
        Axis("Share that failed", "share"),
        (
            Series(
                "Failed",
                [start + 900 * k for k in range(40)],
                [0.1 + 0.05 * math.sin(k / 3) for k in range(40)],
                "line",
            ),
        ),
    )


def importance() -> Bars:
    bars = (
        ("tile_m", 0.412),
        ("vector", 0.27),
        ("pack", 0.151),
        ("a_knob_with_a_rather_long_name", 0.09),
        ("unroll", 0.0),
    )
    low, high = (0.3, 0.2, 0.1, 0.02, 0.0), (0.52, 0.35, 0.2, 0.15, 0.05)
    alt = "tile_m decides most: 41%."
    return Bars(
        "What decides the time", Axis("Share of the variance", "share"), bars, alt, low=low, high=high, reference=1.0
    )


def knobs(rows: int = 400) -> Parallel:
    chance = random.Random(3)
    dimensions = (
        Dimension("template", ("cpu_contraction", "cpu_dot")),
        Dimension("tile_m", ("8", "16", "32", "64", "96", "128", "256")),
        Dimension("tile_n", ("8", "16", "32", "64", "128", "256")),
        Dimension("tile_k", ("8", "16", "32", "64", "128")),
        Dimension("unroll", ("1", "2", "4", "8")),
        Dimension("vector", ("4", "8", "16")),
        Dimension("pack", ("none", "a", "b", "both")),
    )
    made = tuple(tuple(chance.randrange(len(d.values)) for d in dimensions) for _ in range(rows))
    times = [
        0.002 * (1 + abs(r[1] - 4) * 0.5 + abs(r[2] - 3) * 0.3 + (3 - r[6]) * 0.2) * chance.uniform(1, 1.3)
        for r in made
    ]
    return Parallel(
        "Schedules", dimensions, made, tuple(times), Axis("Time", "s", "log"), tuple((RUN, n) for n in range(rows)),
        "Fast schedules have tile_m near 96.",
    )  # fmt: skip


def knob() -> XY:
    """Times by the values of a knob, which are texts."""
    places = [0, 1, 2, 0, 1, 2, 2]
    times = [0.004, 0.002, 0.003, 0.005, 0.0021, 0.0035, 0.0032]
    measured = Series("Measured", places, times, trials=[(RUN, n) for n in range(7)], role="measured")
    fastest = Series("Fastest of each value", [0, 1, 2], [0.004, 0.002, 0.003], "line", emphasis=True)
    return XY(
        "Time by pack", Axis("pack", categories=("none", "both", "a")), Axis("Time", "s", "log"), (measured, fastest)
    )


def pairs() -> Grid:
    """Two knobs against each other, one pair never measured."""
    return Grid(
        "Time by tile_m and pack", Axis("tile_m", categories=("8", "16", "32")), Axis("pack", categories=("none", "both")),
        Axis("Time", "s", "log"), ((0.004, 0.003, None), (0.0025, 0.002, 0.0035)),
        (((RUN, 0), (RUN, 1), None), ((RUN, 2), (RUN, 3), (RUN, 4))), "The fastest is at 16 and both.",
    )  # fmt: skip


def none() -> XY:
    return XY("Nothing yet", Axis("Trial", "trial"), Axis("Time", "s"), ())


CHARTS: dict[str, Drawn] = {
    "best": best(),
    "roofline": roofline(),
    "dates": dates(),
    "importance": importance(),
    "knobs": knobs(),
    "knob": knob(),
    "none": none(),
    "pairs": pairs(),
}
