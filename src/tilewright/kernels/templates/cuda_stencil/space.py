"""Search space of a stencil.

``threads``: threads of a block. ``axis``: output axis along which a thread computes ``outputs`` adjacent outputs, which
share reads. ``vector``: adjacent outputs along the innermost axis. ``unroll``: whether the loops over the window's
other axes are unrolled.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod

from tilewright.core import Target, Value
from tilewright.kernels.templates.cuda.static import allocated, limit
from tilewright.kernels.templates.cuda_stencil.match import Stencil
from tilewright.kernels.templates.cuda_stencil.plan import WindowTiling, plan
from tilewright.search_space import Choice, Constraint, SearchSpace, rule

MOST_CODE = 256
"""Most elements that one unrolled body folds; with ``unroll``, most elements of a thread."""


def space(s: Stencil, target: Target, template: str, version: int) -> SearchSpace:
    """The search space of a stencil on a target."""
    most = limit(target, "threads_per_block")
    axes = tuple(w.axis for w in s.windows)
    longest = max(s.ranges[a] for a in axes)
    others = any(n > 1 for w in s.windows for r, n in zip(s.part.reduce_axes, s.part.reduce, strict=True) if r != w.tap)
    knobs = (
        Choice("threads", tuple(t for t in (64, 128, 256, 512) if t <= most)),
        Choice("axis", axes, ordered=False),
        Choice("outputs", tuple(n for n in (1, 2, 4, 8) if n <= longest)),
        Choice("vector", tuple(v for v in (1, 2, 4, 8, 16) if v <= s.widest)),
        Choice("unroll", (False, True) if others else (False,)),
    )
    rules = (
        rule("a thread has more outputs than the axis", lambda axis, outputs: outputs <= s.ranges[axis]),
        Constraint(
            ("threads", "axis", "outputs", "vector", "unroll"),
            lambda v: _fits(plan(s, v), target),
            "registers do not suffice, or the code is too long",
        ),
    )
    return SearchSpace(template, version, knobs, rules)


def _fits(p: WindowTiling, target: Target) -> bool:
    code = p.taps * p.outputs
    total = code * prod(n for r, n in zip(p.s.part.reduce_axes, p.s.part.reduce, strict=True) if r != p.window.tap)
    if (code > MOST_CODE and p.outputs > 1) or code > 4096:
        return False
    if p.unroll and (total > MOST_CODE or total == code):
        return False
    words = p.outputs * p.vector * p.accumulators.bytes // 4 + p.vector * len(p.offsets) * len(p.shared)
    if words > 160 and (p.outputs > 1 or p.vector > 1):
        return False
    return allocated(p.registers) * p.threads <= limit(target, "registers_per_sm")


def default(s: Stencil, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule: adjacent threads along the innermost axis, a few outputs a thread along another axis."""
    options = within.options
    axes = [str(a) for a in options["axis"]]
    axis = next((a for a in reversed(axes) if a != s.inner), axes[-1])
    sms, size = limit(target, "sms"), prod(s.part.extents)
    # On an H200, four outputs a thread are faster by a quarter even if only a fifth of all threads are busy.
    busy = sms * limit(target, "threads_per_sm") // 8
    vectors = sorted((int(v) for v in options["vector"] if int(v) * min(4, s.item) <= 16), reverse=True)

    def candidates() -> Iterator[dict[str, Value]]:
        for vector, outputs, unroll in itertools.product(vectors, (4, 2, 1), (True, False)):
            if outputs in options["outputs"] and (outputs == 1 or size >= busy * vector * outputs):
                threads = 128 if size >= 4 * sms * 128 * vector * outputs else 64
                yield {"threads": threads, "axis": axis, "outputs": outputs, "vector": vector, "unroll": unroll}

    return within.first(candidates())
