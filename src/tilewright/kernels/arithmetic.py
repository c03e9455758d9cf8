"""Count of the multiply-adds that every kernel of a program computes under any schedule: the basis of time bounds."""

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

_ROWS = 512  # queries that are sampled


@dataclass(frozen=True)
class Arithmetic:
    """Multiply-adds of a program.

    ``products``: multiply-adds of each sum of products, in the program's order. ``share``: fraction of the products
    that a static mask keeps; the fraction may differ between rows.
    """

    products: tuple[float, ...]
    share: float = 1.0

    @property
    def flops(self) -> float:
        """Operations, two for a multiply-add."""
        return 2 * sum(self.products)


@lru_cache(maxsize=1024)
def arithmetic(program: Program) -> Arithmetic:
    """Counts the multiply-adds of a program's sums of products.

    For attention, counts the pairs of queries and keys that a mask keeps if positions alone decide it. If lengths that
    are read decide, no pair is counted. Operations around a sum of products, such as an activation, are not
    counted.
    """
    found = attention.match(program)
    if found is not None:
        share = _visible(found)
        pairs = share * found.outer_size * found.queries * found.keys
        return Arithmetic((pairs * found.depth, pairs * found.width), share)
    return Arithmetic(tuple(float(s.points // _places(s)) for s in program.stages if _multiplies(s)))


def _multiplies(s: Stage) -> bool:
    """Whether a stage is a sum of products."""
    added = s.monoid is not None and s.monoid.combine[0].op == "add"
    return added and any(x.op == "mul" for e in s.body for x in e.walk())


def _places(s: Stage) -> int:
    """Number of output elements along the axes where a scatter's source chooses its place; each source lands at one."""
    return math.prod(s.ranges[a] for a in landing(s))


def _visible(a: attention.Attention) -> float:
    """Fraction of pairs whose score is not certainly minus infinity, over evenly spaced queries from the first on."""
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
        return yes | no  # a mask that is read per pair: no kernel knows it in advance
    if e.args[0].loads() or e.args[0].axes() - own:
        return yes & no  # a length, or a value that differs between heads: it may keep no pair
    return np.where(scope.value(e.args[0]), yes, no)
