"""Exact counting and sampling of the legal assignments of knobs that share constraints.

Knobs that share no constraint are independent, so a space is a product of :class:`Component`s. Within a component,
legal assignments are the root-to-leaf paths of a layered graph with one layer for each knob. A node stands for all
prefixes that agree on the knobs which later constraints still read, or that have equal completions. Every node counts
the assignments below it. So sampling is uniform, no path is a dead end, and the graph stays small even with many
assignments.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Union

from tilewright.caching import cached_property
from tilewright.core import IllegalSchedule

EDGE_LIMIT = 500_000
"""Tested edges above which a component is searched by rejection instead of counted up front."""

NEAR = 0.6
"""Probability that the mutation of an ordered knob moves to a neighbouring value."""

TRIES = 100_000
"""Consecutive rejected draws after which a wide component is declared impossible."""

Check = tuple[tuple[int, ...], Callable[[Sequence[int]], bool]]
"""Positions within the component that a rule reads, and the rule over value indices by position."""


class TooWide(Exception):
    """Raised when a graph would need more edges than allowed."""


class Node:
    """Legal values of one knob (indices, ascending), given the earlier knobs that later constraints read."""

    __slots__ = ("count", "cumulative", "next", "options")

    def __init__(self, branches: dict[int, Node]) -> None:
        self.next = branches
        self.options = tuple(branches)
        self.cumulative: list[int] = []
        self.count = 0
        for child in branches.values():
            self.count += child.count
            self.cumulative.append(self.count)


LEAF = Node({})
LEAF.count = 1


def step(rng: random.Random, options: Sequence[int], now: int, ordered: bool) -> int:
    """A value index of ``options`` (ascending) other than ``now``; often a neighbouring index if ordered."""
    if ordered and rng.random() < NEAR:
        at = bisect_right(options, now)
        near = []
        if at < len(options):
            near.append(options[at])
        below = at - 1 if at and options[at - 1] != now else at - 2
        if below >= 0:
            near.append(options[below])
        return near[int(rng.random() * len(near))]
    others = [o for o in options if o != now]
    return others[int(rng.random() * len(others))]


def nearest(rng: random.Random, options: Sequence[int], wanted: int, ordered: bool) -> int:
    """``wanted`` if it is an option, else the closest option, or a random option for an unordered knob."""
    if wanted in options:
        return wanted
    if ordered:
        return min(options, key=lambda o: abs(o - wanted))
    return options[int(rng.random() * len(options))]


class Counted:
    """Knobs that share constraints, with their graph built. Vectors hold one value index for each knob."""

    def __init__(self, widths: Sequence[int], ordered: Sequence[bool], checks: Sequence[Check], limit: int) -> None:
        self.ordered = tuple(ordered)
        self.root = _build(widths, checks, limit)

    @property
    def count(self) -> int:
        """Number of legal vectors."""
        return self.root.count

    @property
    def some(self) -> int:
        """Number of legal vectors, capped at 2: cheap even where counting is not."""
        return min(2, self.root.count)

    def sample(self, rng: random.Random) -> list[int]:
        """A legal vector, uniformly distributed."""
        out = []
        node = self.root
        left = rng.randrange(node.count)
        while node is not LEAF:
            at = bisect_right(node.cumulative, left)
            if at:
                left -= node.cumulative[at - 1]
            out.append(node.options[at])
            node = node.next[node.options[at]]
        return out

    def options(self, prefix: Sequence[int]) -> Sequence[int]:
        """Values of the next knob after ``prefix`` from which a legal vector can be completed."""
        node = self.root
        for choice in prefix:
            node = node.next[choice]
        return node.options

    def movable(self, vector: Sequence[int]) -> list[int]:
        """Positions that :meth:`move` may be asked to change."""
        # A component with two legal vectors branches somewhere on the path of each.
        out = []
        node = self.root
        for position, choice in enumerate(vector):
            if len(node.options) > 1:
                out.append(position)
            node = node.next[choice]
        return out

    def move(self, rng: random.Random, vector: Sequence[int], position: int) -> list[int]:
        """A legal vector close to ``vector``, and different from it if possible."""
        out = list(vector[:position])
        node = self.root
        for choice in out:
            node = node.next[choice]
        new = step(rng, node.options, vector[position], self.ordered[position])
        out.append(new)
        node = node.next[new]
        for p in range(position + 1, len(vector)):
            choice = nearest(rng, node.options, vector[p], self.ordered[p])
            out.append(choice)
            node = node.next[choice]
        return out

    def mix(self, rng: random.Random, a: Sequence[int], b: Sequence[int]) -> list[int]:
        """A legal vector with each value from ``a`` or ``b`` wherever that is possible."""
        out = []
        node = self.root
        for p, (x, y) in enumerate(zip(a, b, strict=True)):
            first, second = (x, y) if rng.random() < 0.5 else (y, x)
            if first in node.next:
                choice = first
            elif second in node.next:
                choice = second
            else:
                choice = nearest(rng, node.options, first, self.ordered[p])
            out.append(choice)
            node = node.next[choice]
        return out


class Wide:
    """Knobs that share constraints, with too many values to count up front: sampled by rejection, with equal
    distribution."""

    def __init__(self, widths: Sequence[int], ordered: Sequence[bool], checks: Sequence[Check]) -> None:
        self.widths = tuple(widths)
        self.ordered = tuple(ordered)
        self.checks = tuple(checks)

    @cached_property
    def count(self) -> int:
        return _build(self.widths, self.checks, None).count

    @cached_property
    def some(self) -> int:
        return sum(1 for _ in islice(self._complete([]), 2))

    def legal(self, vector: Sequence[int]) -> bool:
        return all(rule(vector) for _, rule in self.checks)

    def sample(self, rng: random.Random) -> list[int]:
        for _ in range(TRIES):
            vector = [int(rng.random() * w) for w in self.widths]
            if self.legal(vector):
                return vector
        raise IllegalSchedule(
            f"{TRIES} draws in a row were illegal", "Order the knobs so that linked ones are neighbours"
        )

    def options(self, prefix: Sequence[int]) -> Sequence[int]:
        return [i for i in range(self.widths[len(prefix)]) if next(self._complete([*prefix, i]), None) is not None]

    def _complete(self, prefix: list[int]) -> Iterator[list[int]]:
        """Legal vectors that start with ``prefix``."""
        at = len(prefix) - 1
        if all(rule(prefix) for reads, rule in self.checks if max(reads) == at):
            if at + 1 == len(self.widths):
                yield prefix
            else:
                for i in range(self.widths[at + 1]):
                    yield from self._complete([*prefix, i])

    def movable(self, vector: Sequence[int]) -> list[int]:
        return [p for p, w in enumerate(self.widths) if w > 1]

    def move(self, rng: random.Random, vector: Sequence[int], position: int) -> list[int]:
        for _ in range(8):
            out = list(vector)
            out[position] = step(rng, range(self.widths[position]), vector[position], self.ordered[position])
            if self.legal(out):
                return out
        for _ in range(8):
            out = self.sample(rng)
            if out != list(vector):
                break
        return out

    def mix(self, rng: random.Random, a: Sequence[int], b: Sequence[int]) -> list[int]:
        for _ in range(4):
            out = [x if rng.random() < 0.5 else y for x, y in zip(a, b, strict=True)]
            if self.legal(out):
                return out
        return list(a if rng.random() < 0.5 else b)


Component = Union[Counted, Wide]


def component(widths: Sequence[int], ordered: Sequence[bool], checks: Sequence[Check]) -> Component:
    """The component of knobs with these numbers of values, under these rules."""
    try:
        return Counted(widths, ordered, checks, EDGE_LIMIT)
    except TooWide:
        return Wide(widths, ordered, checks)


def _build(widths: Sequence[int], checks: Sequence[Check], limit: int | None) -> Node:
    """The graph's root (``count`` 0 if nothing is legal). Raises :class:`TooWide` over ``limit`` edges."""
    depth = len(widths)
    ending: list[list[Callable[[Sequence[int]], bool]]] = [[] for _ in range(depth)]
    kept: list[set[int]] = [set() for _ in range(depth + 1)]
    read: list[set[int]] = [set() for _ in range(depth)]
    for reads, rule in checks:
        last = max(reads)
        ending[last].append(rule)
        read[last] |= {r for r in reads if r < last}
        for layer in range(depth):
            kept[layer] |= {r for r in reads if r < layer <= last}
    state_of, asked_of = ([_picked(positions) for positions in sets] for sets in (kept[:depth], read))
    seen: list[dict[Any, Node]] = [{} for _ in range(depth)]
    legal: list[dict[Any, list[int]]] = [{} for _ in range(depth)]
    nodes: dict[tuple[Any, ...], Node] = {}
    current = [0] * depth
    edges = 0

    def allowed(layer: int) -> list[int]:
        """The knob's values that satisfy all rules ending at this layer, given the current values of earlier knobs."""
        asked = asked_of[layer](current)
        known = legal[layer].get(asked)
        if known is None:
            rules, known = ending[layer], []
            for choice in range(widths[layer]):
                current[layer] = choice
                for rule in rules:
                    if not rule(current):
                        break
                else:
                    known.append(choice)
            legal[layer][asked] = known
        return known

    def visit(layer: int) -> Node:
        nonlocal edges
        state = state_of[layer](current)
        known = seen[layer].get(state)
        if known is not None:
            return known
        edges += widths[layer]
        if limit is not None and edges > limit:
            raise TooWide
        choices, after = allowed(layer), layer + 1
        if layer in kept[after]:
            branches = {}
            for choice in choices:
                current[layer] = choice
                child = visit(after)
                if child.count:
                    branches[choice] = child
        else:  # no later rule reads this knob: all values lead to one node
            child = visit(after) if choices and after < depth else LEAF
            branches = dict.fromkeys(choices, child) if child.count else {}
        alike = (*branches, *branches.values())
        if alike not in nodes:
            nodes[alike] = Node(branches)
        node = seen[layer][state] = nodes[alike]
        return node

    return visit(0)


def _picked(positions: Iterable[int]) -> Callable[[Sequence[int]], Any]:
    """Returns the values of a vector at these positions, as a key."""
    return itemgetter(*sorted(positions)) if positions else lambda vector: ()


def paths(order: Sequence[tuple[Component, int]]) -> Iterator[list[int]]:
    """Every legal vector of a product of components, in lexicographic order of ``order``.

    ``order`` gives, for each knob, its component and the number of that component's earlier knobs.
    """
    chosen: dict[int, list[int]] = {id(c): [] for c, _ in order}

    def walk(at: int) -> Iterator[list[int]]:
        if at == len(order):
            yield []
            return
        prefix = chosen[id(order[at][0])]
        for option in order[at][0].options(prefix):
            prefix.append(option)
            for rest in walk(at + 1):
                rest.append(option)
                yield rest
            prefix.pop()

    for reversed_vector in walk(0):
        reversed_vector.reverse()
        yield reversed_vector
