"""Estimates the duration of a check on the emulator, and finds smaller sizes of a workload."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tilewright.core import TilewrightError, Value, Workload
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.parameters import numbers

if TYPE_CHECKING:
    from tilewright.kernels.operator import Operator

# Per core and sanitizer. Measured operations per second are within a factor of three of these rates for kernels of
# all templates; under the thread sanitizer the start of a run is the start of its threads.
RATES = {"": 1e8, "address": 3e7, "undefined": 3e7, "thread": 3e6}
START = {"": 0.01, "address": 0.02, "undefined": 0.02, "thread": 0.6}
BUILD = {"": 0.3, "address": 0.6, "undefined": 0.6, "thread": 0.4}
LIMIT = 120.0
"""Seconds above which a check is refused unless forced."""
MEMORY = 1 << 30
"""Bytes of tensors above which a check is refused unless forced."""


def estimate(workload: Workload, builds: Sequence[Sequence[str]], orders: int, sets: int, schedules: int = 1) -> float:
    """Estimated core seconds of a check; ``builds``: the sanitizers of each build."""
    total = 0.0
    for sanitize in builds:
        watched = [s for s in sanitize if s in RATES] or [""]
        slowest = min(RATES[s] for s in watched)
        runs = orders * (sets if not sanitize else 1)
        total += max(BUILD[s] for s in watched)
        total += runs * (max(START[s] for s in watched) + workload.flops / slowest)
    return schedules * total


def tensor_bytes(workload: Workload) -> int:
    """Bytes of inputs and outputs."""
    return sum(math.prod(s.shape) * ITEMSIZE[s.dtype] for s in (*workload.inputs, *workload.outputs))


def smaller(operator: Operator, params: Mapping[str, Value], flops: float) -> Workload | None:
    """The workload with its largest sizes halved until it has at most ``flops`` and ``MEMORY`` bytes.

    Attributes such as strides keep their values, and divisibility by powers of two is kept as far as possible.
    ``None`` without suitable sizes.
    """
    now = dict(params)
    stuck: set[tuple[str, int]] = set()
    workload = operator.workload(**now)
    while workload.flops > flops or tensor_bytes(workload) > MEMORY:
        # A size is one number, or a shape of several numbers.
        sizes = {(k, d): n for k in operator.sizes for d, n in enumerate(numbers(now[k]) or ()) if n > 8}
        free = [at for at in sizes if at not in stuck]
        if not free:
            return None
        name, axis = max(free, key=lambda at: sizes[at])
        shape = list(numbers(now[name]) or ())
        shape[axis] = -(-shape[axis] // 2)
        tried = {**now, name: shape[0] if isinstance(now[name], int) else ",".join(map(str, shape))}
        try:
            smaller_one = operator.workload(**tried)
        except TilewrightError:
            stuck.add((name, axis))
            continue
        if smaller_one.flops >= workload.flops and tensor_bytes(smaller_one) >= tensor_bytes(workload):
            stuck.add((name, axis))
            continue
        now, workload = tried, smaller_one
    return workload


def sizes_text(workload: Workload) -> str:
    """Command-line form of a workload's parameters, such as ``m=64 n=64 k=128``."""
    plain = dict(workload.defaults)
    return " ".join(f"{k}={_text(v)}" for k, v in workload.params if k not in plain or plain[k] != v)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
