"""Features with one meaning for every task: a model of one task may use them to judge another task's schedules.

Counts are relative to the task (cycles to the fewest that its arithmetic can take, traffic to the bytes that must
move). So a value says how good a schedule is, not how large its task is. :data:`FEATURES` names them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tilewright.core import Target, Task
from tilewright.kernels.expression.expr import ITEMSIZE

VERSION = 2
"""Stored with saved models. Increment it when a feature changes its meaning."""

UNITS = 2
"""Vector operations (and vector loads) issued per cycle."""
LATENCY = 4
"""Latency in cycles of a dependent accumulation: UNITS * LATENCY accumulators hide it."""
BYTES_PER_CYCLE = {"l2": 32.0, "l3": 16.0, "memory": 8.0}
"""Bytes that a core receives per cycle from each level."""
STAGED = 16.0
"""Bytes copied per cycle into staged tiles, without overlapping arithmetic."""
LOOP_START = 8.0
"""Cycles lost at the start of each iteration of an outer loop."""
TRIP = 3.0
"""Overhead in cycles of an iteration of an innermost loop."""
GATHER = 4.0
"""Slowdown of a vector access with scattered elements."""
FIRST, SECOND = 3.0, 15.0
"""Cycles to translate an address after a miss of the first-level TLB, and after a miss of both TLBs."""
LINE = 64.0
"""Bytes that a core reads from its L1 cache per cycle."""
STREAM = 6.0
"""Cycles at the start of a page until the prefetcher fetches lines ahead of their use."""
OVERLAP = 4.0
"""Exponent of the norm that adds overlapping times (1: their sum, large: the largest)."""
SPILL = 2.0
"""Slowdown of arithmetic per unit of register pressure above 1."""
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
    "cycles.arithmetic": "estimated cycles of arithmetic over the task's least cycles (log2)",
    **{f"cycles.{level}": f"cycles of traffic with {level} over the task's least cycles (log2)" for level in LEVELS},
    "cycles.staged": "cycles of copying tiles over the task's least cycles (log2)",
    "cycles.reads": "cycles of reading operands of the register block over the task's least cycles (log2)",
    "cycles.moves": "cycles of the instructions that copy tiles over the task's least cycles (log2)",
    "cycles.pages": "cycles of address translation over the task's least cycles (log2)",
    "cycles.streams": "cycles of waiting at the start of pages over the task's least cycles (log2)",
    "cycles.sets": "cycles of traffic with few sets of L2 and L3 over the task's least cycles (log2)",
    "cycles.all": "total cycles over the task's least cycles (log2)",
    "cycles.loops": "cycles of loop overhead over the task's least cycles (log2)",
    **{f"traffic.{level}": f"bytes at {level} over the bytes of all operands (log2)" for level in LEVELS},
    "traffic.staged": "bytes copied to staged tiles over the bytes of all operands (log2)",
    "traffic.intermediate": "bytes of results that a later nest reads back over the bytes of all operands (log2)",
    **{name: f"the footprint's {name}, as log2(1 + |value|)" for name in _LOGARITHMS},
    **{name: f"the footprint's {name}" for name in _AS_THEY_ARE},
    "target.lanes": "float32 elements of the target's vectors",
    "target.registers": "vector registers of the target",
    "target.threads": "threads of the target",
}
"""Name and meaning of every feature. A template's ``static.*`` follow them."""


def transferable(task: Task, footprint: Mapping[str, float], static: Mapping[str, float]) -> dict[str, float]:
    """Features of one schedule: those of :data:`FEATURES` that ``footprint`` provides, then the static features.

    ``footprint``: from :func:`tilewright.kernels.loopnest.footprint.footprint`; ``static``: from templates.
    """
    target = task.target
    spent = cycles(footprint, target)
    spent["all"] = together(spent)
    fewest = fewest_cycles(task)
    out = {f"cycles.{k}": _log(v, fewest) for k, v in spent.items()}
    compulsory = least_bytes(task)
    for name in (*LEVELS, "staged", "intermediate"):
        if f"bytes.{name}" in footprint:
            out[f"traffic.{name}"] = _log(footprint[f"bytes.{name}"], compulsory)
    out.update((n, math.log2(1.0 + abs(footprint[n]))) for n in _LOGARITHMS if n in footprint)
    out.update((n, footprint[n]) for n in _AS_THEY_ARE if n in footprint)
    out["target.lanes"] = target.vector_bytes / 4
    out["target.registers"] = target.registers
    out["target.threads"] = target.threads
    out.update((f"static.{n}", v) for n, v in static.items())
    return out


def fewest_cycles(task: Task) -> float:
    """Least cycles of a core for the task: all vector units busy with its arithmetic, or its operands read from the
    L1 cache."""
    lanes = max(task.target.vector_bytes / 4, 1.0)
    return max(task.workload.flops / (2 * UNITS * lanes), least_bytes(task) / LINE, 1.0)


def cycles(footprint: Mapping[str, float], target: Target) -> dict[str, float]:
    """Estimated cycles of a core by cause, each as if alone, at the rates of a recent core.

    Keys: ``arithmetic``, each of :data:`LEVELS`, ``reads``, ``sets``, ``pages``, ``streams``, ``staged``, ``moves``,
    ``loops``.
    """
    get = footprint.get
    # A mean vector length of 1 is scalar code; lanes beyond an edge do no useful work.
    lanes = max(get("vector.length", 1.0) * get("vector.useful", 1.0), 1.0)
    waiting = max(1.0, UNITS * LATENCY / max(get("block.registers", 8.0), 1.0)) if get("trips.reduce", 1.0) > 1 else 1.0
    spilt = 1.0 + SPILL * max(0.0, get("block.pressure", 0.0) - 1.0)
    scattered = 1.0 + (GATHER - 1.0) * (1.0 - get("vector.even", 1.0))
    return {
        "arithmetic": get("flops", 1.0) / (2 * UNITS * lanes) * waiting * spilt / max(get("block.useful", 1.0), 0.05),
        "l1": get("bytes.l1", 0.0) / (UNITS * min(target.vector_bytes, lanes * 4)) * scattered,
        **{level: get(f"bytes.{level}", 0.0) / rate for level, rate in BYTES_PER_CYCLE.items()},
        "reads": (get("reads.block", 0.0) + get("reads.split", 0.0)) / UNITS,
        "moves": get("moves.staged", 0.0),
        "pages": FIRST * get("pages.first", 0.0) + SECOND * get("pages.second", 0.0),
        "streams": STREAM * get("pages.streams", 0.0),
        "sets": get("sets.l2", 0.0) / BYTES_PER_CYCLE["l2"] + get("sets.l3", 0.0) / BYTES_PER_CYCLE["l3"],
        "staged": get("bytes.staged", 0.0) / STAGED,
        "loops": LOOP_START * get("overhead", 0.0) + TRIP * get("iterations", 0.0),
    }


def together(spent: Mapping[str, float]) -> float:
    """Total cycles: arithmetic and traffic overlap, copies and loop overhead hardly do."""
    at_once = (
        spent["arithmetic"], max(spent["reads"], spent["l1"]), max(spent["sets"], spent["l2"] + spent["l3"]),
        spent["memory"], spent["pages"] + spent["streams"],
    )  # fmt: skip
    total = float(sum(x**OVERLAP for x in at_once) ** (1 / OVERLAP))
    return total + max(spent["staged"], spent["moves"]) + 0.5 * spent["loops"]


def least_bytes(task: Task) -> float:
    """Bytes of the task's inputs and outputs."""
    tensors = (*task.workload.inputs, *task.workload.outputs)
    return float(sum(math.prod(t.shape) * ITEMSIZE[t.dtype] for t in tensors))


def _log(value: float, unit: float) -> float:
    return math.log2((value + 1.0) / max(unit, 1.0))
