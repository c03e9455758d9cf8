"""The search space of a scatter: knobs, rules, and the default schedule.

- ``copies``: number of chunks of the sources, each with a private copy of the result, so that threads work in
  parallel.
- ``ways``: number of copies that neighbouring sources use in rotation. Rotation avoids waiting for the previous
  source's store to the same element.
- ``ranges``: number of ranges of the first indexed axis. Each range is a unit of work that reads all sources, and
  accumulates the sources that land in the range.
- ``vectors``: number of vectors of a row per iteration.
- ``piece``: length of a chunk of a row; each chunk is a unit of work.

Copies are combined in order, so a result depends on the number of copies and not on the order of threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from tilewright.core import Target, Value
from tilewright.dtypes import C_BYTES
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.families.scatter import Scatter
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import lanes_for
from tilewright.search_space import Choice, SearchSpace, rule

MOST_BYTES = 1 << 26
"""Largest total size of all copies, in bytes."""


@dataclass(frozen=True, eq=False)
class ScatterTiling:
    """A scatter with the decisions of its schedule."""

    s: Scatter
    target: Target
    lanes: int
    vectors: int
    copies: int
    ways: int
    ranges: int
    piece: int

    @property
    def held(self) -> str:
        """C type of the accumulated elements."""
        return held_type(self.s)

    @property
    def size(self) -> int:
        """Number of elements of the result, and of each copy."""
        return self.s.output.size

    @property
    def stride(self) -> int:
        """Distance between two copies, in elements; padding keeps them off shared cache lines and cache sets."""
        return self.size if self.kept <= 1 else -(-self.size // 32) * 32 + 32

    @property
    def kept(self) -> int:
        """Number of copies in the workspace; 0 where sources are accumulated in the result."""
        own = self.s.direct and storage(self.s.output.dtype) == self.held
        return 0 if own and self.copies * self.ways == 1 else self.copies * self.ways


def held_type(s: Scatter) -> str:
    """C type of the accumulated elements: the type in which the reduction is computed."""
    return computed(s.monoid.identity[0].dtype)


def refusal(s: Scatter) -> str:
    """Why this template cannot compute a scatter; empty if it can."""
    return "has 8-bit reals" if s.program.has_float8 else ""


def lane_count(s: Scatter, target: Target) -> int:
    """Number of lanes of the scatter's vectors."""
    return lanes_for((n for e in (s.element, s.value, *s.monoid.identity) for n in e.walk()), target)


def _fits(s: Scatter, copies: int) -> bool:
    """Whether ``copies`` copies are at most ``MOST_BYTES`` large and 8 times the elements of all sources."""
    walked = s.count * prod(n for _, n in (*s.outer, *s.row))
    return copies * s.output.size * C_BYTES[held_type(s)] <= MOST_BYTES and copies * s.output.size <= 8 * walked


def space(s: Scatter, target: Target, template: str, version: int) -> SearchSpace:
    """Every legal schedule of a scatter."""
    lanes, threads = lane_count(s, target), target.threads
    row = s.row[0][1] if s.row else 1
    many = [threads] if threads > 1 else []
    ways = tuple(w for w in (2, 4, 8) if not s.row and s.sources[-1][1] >= w and _fits(s, w))
    vectors = tuple(v for v in (1, 2, 4) if v == 1 or v * lanes <= row)
    pieces = {row, *(-(-row // (k * 16)) * 16 for k in many if row > 16 * k)}
    knobs = [
        Choice("copies", (1, *(k for k in many if s.sources[0][1] >= 2 * k and _fits(s, k)))),
        Choice("ways", (1, *ways)),
        Choice("ranges", (1, *(k for k in many if s.chosen[0].extent >= 2 * k))),
        Choice("vectors", vectors),
        Choice("piece", tuple(sorted(pieces)), half="launch"),
    ]
    rules = [
        rule("sources and ranges are not both divided", lambda copies, ranges: copies == 1 or ranges == 1),
        rule(
            "copies take more memory than they save", lambda copies, ways: copies * ways == 1 or _fits(s, copies * ways)
        ),
    ]
    return SearchSpace(template, version, tuple(knobs), tuple(rules))


def default(s: Scatter, target: Target, within: SearchSpace) -> dict[str, Value]:
    """The default schedule, computed from the sizes and the caches."""
    options = within.options
    values: dict[str, Value] = {
        "copies": 1, "ways": 1, "ranges": 1, "vectors": options["vectors"][-1], "piece": options["piece"][-1]
    }  # fmt: skip
    if target.threads > 1 and prod(n for _, n in s.outer) < target.threads:
        if len(options["copies"]) > 1:
            values["copies"] = options["copies"][-1]
        elif len(options["piece"]) > 1:
            values["piece"] = options["piece"][0]
        else:
            values["ranges"] = options["ranges"][-1]
    item = C_BYTES[held_type(s)]
    for w in options["ways"]:
        copies = int(values["copies"]) * int(w)
        if int(w) <= 4 and int(w) * s.output.size * item <= target.l1_bytes // 2 and (w == 1 or _fits(s, copies)):
            values["ways"] = w
    return values


def plan(s: Scatter, target: Target, values: Mapping[str, Value]) -> ScatterTiling:
    """Read the decisions of a schedule."""
    return decided(ScatterTiling, values, s=s, target=target, lanes=lane_count(s, target))
