"""Multiply-adds that every kernel of a program computes, whatever its schedule: what bounds of its time stand on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from tilewright.kernels.expression.expr import Expr, axis
from tilewright.kernels.expression.program import Program, Stage, landing
from tilewright.kernels.families import attention
from tilewright.kernels.reference.expressions import Scope

_ROWS = 512  # queries that are looked at


@dataclass(frozen=True)
class Arithmetic:
    """``products``: multiply-adds of each sum of products, in the program's order. ``share``: how much of the products
    a mask leaves, which is not the same everywhere."""

    products: tuple[float, ...]
    share: float = 1.0

    @property
    def flops(self) -> float:
        """Operations, two for a multiply-add."""
        return 2 * sum(self.products)


@lru_cache(maxsize=1024)
def arithmetic(program: Program) -> Arithmetic:
    """The arithmetic of a program.

    Of attention the pairs of queries and keys that a mask leaves, where positions alone say which; none where lengths
    that are read do. What stands around a sum of products, as an activation, is not counted.
    """
    found = attention.match(program)
    if found is not None:
        share = _visible(found)
        pairs = share * found.outer_size * found.queries * found.keys
        return Arithmetic((pairs * found.depth, pairs * found.width), share)
    return Arithmetic(tuple(float(s.points // _places(s)) for s in program.stages if _multiplies(s)))


def _multiplies(s: Stage) -> bool:
    """Whether it is a sum of products."""
    added = s.monoid is not None and s.monoid.combine[0].op == "add"
    return added and any(x.op == "mul" for e in s.body for x in e.walk())


def _places(s: Stage) -> int:
    """How many elements of the result what is combined at a point may land at; it lands at one."""
    return math.prod(s.ranges[a] for a in landing(s))


def _visible(a: attention.Attention) -> float:
    """The share of pairs whose score is not certainly minus infinity: of queries evenly apart, from the first on."""
    apart = max(1, a.queries // _ROWS)
    score = a.score.substitute({a.query: axis(a.query) * apart})
    scope = Scope((a.query, a.key), ((0, a.queries // apart), (0, a.keys)), {}, {})
    seen = _seen(a, score, scope)
    return float(np.broadcast_to(seen, (a.queries // apart, a.keys)).mean())


def _seen(a: attention.Attention, e: Expr, scope: Scope) -> npt.NDArray[np.bool_]:
    if e.op == "const":
        return np.asarray(e.value != -math.inf)
    if e.op != "select":
        return np.asarray(True)
    yes, no = _seen(a, e.args[1], scope), _seen(a, e.args[2], scope)
    own = e.args[0].axes() & {a.query, a.key}
    if any(x.axes() & {a.query, a.key} for x in e.args[0].loads()):
        return yes | no  # a mask that is read for each pair: no kernel knows it before
    if e.args[0].loads() or e.args[0].axes() - own:
        return yes & no  # a length, or what differs between heads: it may leave nothing
    return np.where(scope.value(e.args[0]), yes, no)
