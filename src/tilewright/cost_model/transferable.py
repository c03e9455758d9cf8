"""What means the same for every task: numbers of a schedule from which a model of one task may judge another.

Counts are related to the task (cycles to the fewest that its arithmetic can take, traffic to the bytes that must move),
so that a value says how good a schedule is and not how large its task is. :data:`FEATURES` names them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.core import Target, Task

VERSION = 1
"""Stored with saved models. Bump it when a feature changes its meaning."""

UNITS = 2
"""Vector operations (and vector loads) begun per cycle."""
LATENCY = 4
"""Cycles until a result can be accumulated to again: UNITS * LATENCY accumulators hide it."""
BYTES_PER_CYCLE = {"l2": 32.0, "l3": 16.0, "memory": 8.0}
"""What a core gets from each level in a cycle."""
STAGED = 16.0
"""Bytes copied per cycle, while no arithmetic is done."""
LOOP_START = 8.0
"""Cycles lost whenever an outer loop begins a round."""
TRIP = 3.0
"""Cycles per trip of an innermost loop beyond its arithmetic."""
GATHER = 4.0
"""How much slower a vector is whose elements lie apart."""
SPILL = 2.0
"""How much slower arithmetic is, at most, per register too many."""
LEVELS = ("l1", "l2", "l3", "memory")

_LOGARITHMS = (
    "reuse.registers", "reuse.l1", "reuse.l2", "reuse.l3", "intensity.l1", "intensity.l2", "intensity.l3",
    "intensity.memory", "parallel", "task.flops", "block.points", "block.outputs", "unroll", "trips.inner",
    "trips.reduce", "iterations.flops", "stores.repeated", "work.0", "work.1", "work.2", "work.3", "work.4",
)  # fmt: skip
_AS_THEY_ARE = (
    "nests", "loops", "depth.parallel", "parallel.share", "vector.length", "vector.share", "vector.useful",
    "vector.even", "vector.across", "block.registers", "block.pressure", "block.useful", "work.l1", "work.l2",
    "work.l3", "lines",
)  # fmt: skip

FEATURES: dict[str, str] = {
    "cycles.arithmetic": "estimated cycles of arithmetic over the fewest the target's units can take (log2)",
    **{f"cycles.{level}": f"cycles of traffic with {level}, over the same (log2)" for level in LEVELS},
    "cycles.staged": "cycles of copying tiles, over the same (log2)",
    "cycles.loops": "cycles of starting and counting loops, over the same (log2)",
    **{f"traffic.{level}": f"bytes at {level} over the bytes of all operands (log2)" for level in LEVELS},
    "traffic.staged": "bytes copied to staged tiles, over the same (log2)",
    "traffic.intermediate": "bytes of results that a later nest reads back, over the same (log2)",
    **{name: f"the footprint's {name} (log2 of one more)" for name in _LOGARITHMS},
    **{name: f"the footprint's {name}" for name in _AS_THEY_ARE},
    "target.lanes": "float32 elements of the target's vectors",
    "target.registers": "vector registers of the target",
    "target.threads": "threads of the target",
}
"""Every feature's name and meaning. A template's ``static.*`` and ``template=*`` come after them."""


def transferable(
    task: Task, template: str, footprint: Mapping[str, float], static: Mapping[str, float]
) -> dict[str, float]:
    """The features of one schedule: those of :data:`FEATURES` whose origins ``footprint`` has, then the static ones.

    ``footprint``: as :func:`tilewright.kernels.loopnest.footprint.footprint` gives it; ``static``: as templates do.
    """
    target = task.target
    out = {f"cycles.{k}": _log(v, fewest_cycles(footprint, target)) for k, v in cycles(footprint, target).items()}
    compulsory = footprint.get("bytes.compulsory", 1.0)
    for name in (*LEVELS, "staged", "intermediate"):
        if f"bytes.{name}" in footprint:
            out[f"traffic.{name}"] = _log(footprint[f"bytes.{name}"], compulsory)
    out.update((n, math.log2(1.0 + abs(footprint[n]))) for n in _LOGARITHMS if n in footprint)
    out.update((n, footprint[n]) for n in _AS_THEY_ARE if n in footprint)
    out["target.lanes"] = target.vector_bytes / 4
    out["target.registers"] = target.registers
    out["target.threads"] = target.threads
    out.update((f"static.{n}", v) for n, v in static.items())
    out[f"template={template}"] = 1.0
    return out


def fewest_cycles(footprint: Mapping[str, float], target: Target) -> float:
    """Cycles of a core whose vector units do nothing but the arithmetic."""
    return max(footprint.get("flops", 1.0) / (2 * UNITS * max(target.vector_bytes / 4, 1.0)), 1.0)


def cycles(footprint: Mapping[str, float], target: Target) -> dict[str, float]:
    """Estimated cycles of a core by what takes them, as if each were alone, at the rates of a core of recent years.

    Keys: ``arithmetic``, each of :data:`LEVELS`, ``staged``, ``loops``.
    """
    get = footprint.get
    # A mean vector length of 1 is scalar code; lanes that hang over an edge work for nothing.
    lanes = max(get("vector.length", 1.0) * get("vector.useful", 1.0), 1.0)
    waiting = max(1.0, UNITS * LATENCY / max(get("block.registers", 8.0), 1.0)) if get("trips.reduce", 1.0) > 1 else 1.0
    spilt = 1.0 + SPILL * max(0.0, get("block.pressure", 0.0) - 1.0)
    scattered = 1.0 + (GATHER - 1.0) * (1.0 - get("vector.even", 1.0))
    return {
        "arithmetic": get("flops", 1.0) / (2 * UNITS * lanes) * waiting * spilt / max(get("block.useful", 1.0), 0.05),
        "l1": get("bytes.l1", 0.0) / (UNITS * min(target.vector_bytes, lanes * 4)) * scattered,
        **{level: get(f"bytes.{level}", 0.0) / rate for level, rate in BYTES_PER_CYCLE.items()},
        "staged": get("bytes.staged", 0.0) / STAGED,
        "loops": LOOP_START * get("overhead", 0.0) + TRIP * get("iterations", 0.0),
    }


def _log(value: float, unit: float) -> float:
    return math.log2((value + 1.0) / max(unit, 1.0))
