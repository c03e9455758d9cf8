"""Recognition of attention: a contraction, a softmax over its last axis, and a contraction with the weights.

Map stages are merged into their readers first, so the position of scale, mask, exp and division does not matter. The
remaining stages must be four reductions, over one axis each, related as follows::

    scores[.., i, j]  sum over r of q(.., i, r) * k(.., j, r)
    top[.., i]        max over j of score(scores[.., i, j])
    total[.., i]      sum over j of exp(score(..) - top[.., i])
    mixed[.., i, e]   sum over j of exp(score(..) - top[.., i]) * v(.., j, e)

The result must be an elementwise function of ``mixed / total``. Neither k nor v may depend on the query axis ``i``;
they may depend on the other axes in any way (``h // c``: heads that share keys). In the PV product ``mixed``, the
softmax weight may be rounded to 16 bits first. v may be zero from a valid length on, which may depend on the outer
axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tilewright.caching import cached_property
from tilewright.kernels.expression.expr import FLOATS, SIXTEEN, Expr, axis, cast, const, in_place, same
from tilewright.kernels.expression.linear import flat_step
from tilewright.kernels.expression.program import Program, Stage, Tensor, count_ops, strides_of
from tilewright.kernels.families.group import Group
from tilewright.kernels.families.parts import computed_inside
from tilewright.kernels.families.sides import NoMatch, limited, need, recogniser
from tilewright.kernels.loopnest import Access

EXP_OPERATIONS = 3
"""Operations of a softmax weight beside its score: difference, exp, sum."""
SCORE, VALUE = "s", "o"
"""Names of the vars in a matched program's ``score`` and ``finish``."""


@dataclass(frozen=True)
class Rows:
    """Keys or values: their read, and its strides in elements along keys (``along``) and along the other axis
    (``inner``).

    ``gathered``: an index tensor locates each row, as the block table of a paged cache does; ``along`` is then 0.
    ``limit``: the valid length, which depends on outer axes; rows from it on count as zeros, whatever memory holds.
    """

    load: Expr
    tensor: Tensor
    along: int
    inner: int
    gathered: bool = False
    limit: Expr | None = None

    @property
    def axes(self) -> frozenset[str]:
        """Axes on which a row depends."""
        return self.load.axes() | (frozenset() if self.limit is None else self.limit.axes())

    @property
    def converted(self) -> bool:
        """Whether the elements need a conversion, because they are not float32."""
        return self.tensor.dtype != "float32"


@dataclass(frozen=True, eq=False)
class Attention:
    """A matched program.

    Axes are named as in ``scores``: outer axes and the query axis, in the output's order, then ``key``; ``r0`` is the
    depth. The width is ``e`` in ``v``. In ``finish``, whose axes are the output's, the width has the name of ``key``.

    ``q``: value of the queries. ``score``: function of the var ``s``. ``finish``: function of the var ``o``, the
    normalised result. ``rounded``: 16-bit type to which the program rounds weights before the PV product, or empty; the
    softmax's sum adds unrounded weights. ``places``: output axes that are no axes of the match, as expressions of its
    axes.
    """

    program: Program
    outer: tuple[str, ...]
    query: str
    key: str
    ranges: Mapping[str, int]  # of the axes of scores, and r0
    width: int
    q: Expr
    k: Rows
    v: Rows
    score: Expr
    finish: Expr
    rounded: str = ""
    places: Mapping[str, Expr] = field(default_factory=dict)

    @property
    def queries(self) -> int:
        return self.ranges[self.query]

    @property
    def keys(self) -> int:
        return self.ranges[self.key]

    @property
    def depth(self) -> int:
        return self.ranges["r0"]

    @property
    def group(self) -> Group:
        """The outer axes, fused into one."""
        return Group(self.outer, tuple(self.ranges[a] for a in self.outer))

    @property
    def outer_size(self) -> int:
        return self.group.size

    @property
    def output(self) -> Tensor:
        return self.program.output

    @property
    def q_steps(self) -> tuple[int | None, int | None]:
        """Elements between neighbouring queries, and along the depth; ``None`` if the distance varies."""
        if self.q.op != "load" or self.q.dtype != "float32":
            return None, None
        strides = strides_of(self.program.tensors[str(self.q.value)].shape)
        return flat_step(self.q.args, strides, self.query), flat_step(self.q.args, strides, "r0")

    @property
    def plain_finish(self) -> bool:
        """Whether the normalised values are the result, without conversion."""
        return self.finish.op == "var" and self.output.dtype == "float32"

    @property
    def score_operations(self) -> int:
        """Operations of a softmax weight, without its dot product: the score, then difference, exp and sum."""
        return count_ops(self.score) + EXP_OPERATIONS

    @cached_property
    def accesses(self) -> tuple[tuple[Access, ...], Access, tuple[Access, ...]]:
        """Reads for the scores, the store of the scores, and reads of the values with the output's store.

        Axes are ``o`` (the fused outer axes), ``i`` (queries), ``j`` (keys), ``r`` (the depth) and ``e`` (the width).
        """
        names: dict[str, Expr] = dict.fromkeys(self.outer, const(0, "index"))
        names |= self.group.indices("o") | {self.query: axis("i"), "r0": axis("r"), "e": axis("e")}

        def of(load: Expr, key: str, outside: bool = False) -> Access:
            at = {**names, self.key: axis(key)}
            return Access(str(load.value), tuple(i.substitute(at) for i in load.args), load.dtype, outside=outside)

        reads = [of(x, "j") for x in (*self.q.loads(), *self.k.load.loads())]
        reads += [of(x, "j", outside=True) for x in self.score.loads()]
        scores = Access("scores", (axis("o"), axis("i"), axis("j")), "float32", store=True)
        after = [of(x, "e", outside=True) for x in self.finish.loads()]
        order = (f"i{n}" for n in range(len(self.output.shape) - 1))
        place = (*(self.places.get(x, axis(x)).substitute(names) for x in order), axis("e"))
        out = Access(self.output.name, place, self.output.dtype, store=True)
        return tuple(reads), scores, (*(of(x, "j") for x in self.v.load.loads()), *after, out)


def merged(program: Program) -> list[Stage]:
    """The stages with every map except the result inlined into its readers."""
    maps: dict[str, Stage] = {}
    out = []
    for s in program.stages:
        body = tuple(computed_inside(e, maps) for e in s.body)
        made = Stage(s.name, s.extents, s.reduce, body, s.dtype, s.monoid)
        if s.monoid is None and s is not program.stages[-1]:
            need(s.dtype == body[0].dtype)
            maps[s.name] = made
        else:
            out.append(made)
    return out


@recogniser
def match(program: Program) -> Attention:
    """The attention in a program, or ``None``."""
    need(program.plain and 4 <= len(program.stages) <= 24)
    stages = merged(program)
    reductions = [s for s in stages if s.monoid is not None]
    need(len(reductions) == 4 and len(stages) <= 5)
    for s in reductions:
        need(len(s.reduce) == 1 and len(s.body) == 1 and s.reduction.name in ("sum", "max"))
        need(s.reduction.finish.op == "var" or s is stages[-1])
        need(s.body[0].dtype == "float32" and s.reduction.identity[0].dtype == "float32")
        need(s.dtype == "float32" or s is stages[-1])
    names = {s.name for s in program.stages}
    tops = [s for s in reductions if s.reduction.name == "max"]
    need(len(tops) == 1)
    top = tops[0]
    before = {str(x.value) for x in top.body[0].loads()} & names
    need(len(before) == 1)
    scores = next(s for s in reductions if s.name in before)
    rest = [s for s in reductions if s is not top and s is not scores]
    rank = len(top.extents)
    need(len(rest) == 2 and rank >= 1 and len(scores.extents) == rank + 1 and scores is not stages[-1])
    totals = [s for s in rest if len(s.extents) == rank]
    need(len(totals) == 1)
    total = totals[0]
    mixed = next(s for s in rest if s is not total)
    rows, key = scores.axes[:-1], scores.axes[-1]
    need(total.extents == top.extents and mixed.extents[:-1] == top.extents and len(mixed.extents) == rank + 1)
    need(scores.extents == (*top.extents, *top.reduce) and total.reduce == top.reduce == mixed.reduce)
    score = _score(top.body[0], scores.name, rows, key, names)
    weight = _Weight(score, top.name, total.name, rows, key)
    need(weight.is_exp(_replaced(total.body[0], scores.name, rows, key)))
    value, normalised, rounded = _factor(_replaced(mixed.body[0], scores.name, rows, key), weight)
    ranges = scores.ranges
    q, k_value = _products(scores.body[0], key)
    value, limit = limited(value, key)
    need(limit is None or "e" not in limit.axes())
    k, v = _rows(program, k_value, key, "r0"), replace(_rows(program, value, key, "e"), limit=limit)
    free = [a for a in rows if a not in k.axes | v.axes]
    need(bool(free))
    query = free[-1]
    read = [q, k.load, v.load, *([] if limit is None else [limit])]
    need(not {str(x.value) for e in read for x in e.loads()} & names)
    finish = _finish(stages[-1], mixed, total, rows, normalised, names)
    # Values that are read from memory or rounded are converted to float32 first.
    need(all(x.dtype == "float32" for x in score.walk() if x.dtype in FLOATS and x.op not in ("load", "const")))
    return Attention(
        program=program, outer=tuple(a for a in rows if a != query), query=query, key=key, ranges=ranges,
        width=mixed.extents[-1], q=q, k=k, v=v, score=score, finish=finish, rounded=rounded,
    )  # fmt: skip


def _replaced(e: Expr, scores: str, rows: tuple[str, ...], key: str) -> Expr:
    """A body over the reduce axis ``r0``, with reads of the scores as a var, and ``r0`` renamed to ``key``."""
    e = e.substitute({key: axis("e")})  # the last output axis of ``mixed``, if there is one

    def score(x: Expr) -> Expr | None:
        if x.op != "load" or x.value != scores:
            return None
        need(in_place(x, (*rows, "r0")))
        return Expr("var", "float32", (), SCORE)

    return e.map(score).substitute({"r0": axis(key)})


def _score(body: Expr, scores: str, rows: tuple[str, ...], key: str, names: set[str]) -> Expr:
    e = _replaced(body, scores, rows, key)
    need(any(x.op == "var" for x in e.walk()) and not {str(x.value) for x in e.loads()} & names)
    return e


@dataclass(frozen=True)
class _Weight:
    """Recognises a softmax weight."""

    score: Expr
    top: str
    total: str
    rows: tuple[str, ...]
    key: str

    def is_read(self, e: Expr, tensor: str) -> bool:
        """Whether ``e`` reads ``tensor`` at the current row."""
        return e.op == "load" and e.value == tensor and in_place(e, self.rows)

    def is_exp(self, e: Expr) -> bool:
        """Whether ``e`` is exp(score - top)."""
        if e.op != "exp" or e.args[0].op != "sub":
            return False
        a, b = e.args[0].args
        return self.is_read(b, self.top) and same(a, self.score)

    def normalised(self, e: Expr) -> bool:
        """Whether ``e`` is exp(score - top) / total."""
        return e.op == "div" and self.is_exp(e.args[0]) and self.is_read(e.args[1], self.total)


def _factor(e: Expr, weight: _Weight) -> tuple[Expr, bool, str]:
    """The factor beside a weight, whether the weight is divided by the total, and the type to which it is rounded."""
    need(e.op == "mul")
    for factor, other in (e.args, e.args[::-1]):
        w, rounded = factor, ""
        if w.op == "cast" and w.args[0].op == "cast" and w.args[0].dtype in SIXTEEN:
            w, rounded = w.args[0].args[0], w.args[0].dtype
        if weight.is_exp(w):
            return other, False, rounded
        if weight.normalised(w):
            return other, True, rounded
    raise NoMatch


def _products(body: Expr, key: str) -> tuple[Expr, Expr]:
    """The queries' factor and the keys' factor of a product."""
    need(body.op == "mul")
    a, b = body.args
    if key in a.axes():
        a, b = b, a
    need(key in b.axes() and key not in a.axes())
    return a, b


def _rows(program: Program, e: Expr, key: str, inner: str) -> Rows:
    """Matches keys or values: a read, converted to float32 if its tensor has another type."""
    load = e.args[0] if e.op == "cast" and e.dtype == "float32" else e
    need(load.op == "load" and e.dtype == "float32" and str(load.value).startswith("x"))
    tensor = program.tensors[str(load.value)]
    strides = strides_of(tensor.shape)
    along, step = flat_step(load.args, strides, key), flat_step(load.args, strides, inner)
    gathered = any(x.loads() for x in load.args)
    need(step is not None and (along is not None or gathered))
    assert step is not None
    return Rows(load, tensor, 0 if along is None or gathered else along, step, gathered)


def _finish(last: Stage, mixed: Stage, total: Stage, rows: tuple[str, ...], normalised: bool, names: set[str]) -> Expr:
    """The result as a function of the normalised value ``o``."""
    value = Expr("var", "float32", (), VALUE)
    if last is mixed:
        need(normalised)
        return cast(mixed.reduction.finish.substitute({"l0": value}), mixed.dtype)
    need(last.monoid is None and last.extents == mixed.extents)

    def is_mixed(e: Expr) -> bool:
        return e.op == "load" and e.value == mixed.name and in_place(e, mixed.axes)

    def is_value(e: Expr) -> bool:
        if normalised or e.op != "div":
            return normalised and is_mixed(e)
        quotient, divisor = e.args
        return is_mixed(quotient) and divisor.value == total.name and in_place(divisor, rows)

    finish = last.body[0].map(lambda e: value if is_value(e) else None)
    need(any(x.op == "var" for x in finish.walk()))
    need(not {str(x.value) for x in finish.loads()} & names)
    return cast(finish, last.dtype)
