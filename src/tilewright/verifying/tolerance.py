"""Tolerances: the largest distance from the float64 reference that rounding explains, element by element.

First-order rounding analysis of a program, written as another program in the same language, which the
interpreter evaluates whole or by blocks. Let ``u`` be half the spacing of the stage's dtype at 1. Every
operation adds ``u`` times its result to the errors of its operands, which propagate through its
derivatives. A sum of K terms ``t`` gets

    2 u sqrt(K) (|sum| + (4 + q) sqrt(sum t^2))

where ``q u`` bounds a term's own relative error. Rounding errors of one sum have independent signs,
so they grow with sqrt(K) times the size of a typical partial sum, in any order of summation.
Worst-case bounds, with K instead of sqrt(K), would hide real mistakes. Terms that can't be negative
get ``u (2 sqrt(K) + q) sum``. The result is doubled once at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

from tilewright.dtypes import DTYPES, VALUES
from tilewright.kernels.expression.expr import (
    FLOATS,
    INDEX,
    TF32,
    TRANSCENDENTAL,
    Expr,
    const,
    holds,
    remainder,
)
from tilewright.kernels.expression.program import Monoid, Program, Stage, Tensor, leading_to, left, right, simple_monoid
from tilewright.verifying.monoids import at_term, chosen_part, here, nudged, with_errors
from tilewright.verifying.propagation import SLACK, power, propagated, stepped
from tilewright.verifying.recurrences import with_errors as with_states
from tilewright.verifying.terms import F64, Terms, added, constant, expression, f64, number, product, scaled, term, wide

FUNCTION_UNITS = 5.0  # largest error in u of a kernel's sqrt, rsqrt and transcendental functions
WIDE = 32.0  # in u: above the error of a term that was not rounded to a narrower type
TINY = 1e-35  # results below this may be flushed to zero
TF32_STEP = 2.0**-10  # largest relative distance of neighbouring TF32 values


@dataclass(frozen=True)
class ErrorProgram:
    """``program`` computes the tolerance; its inputs are derived from the checked program's.

    ``derivations`` names, in order, each input's source and function (``same``, ``abs``, ``square``).
    An infinite error means that any value is correct; for a condition, that either value is.

    ``chosen``: two programs for a result that is a position decided by rounded values (argmax). Their inputs are
    those of ``program`` and the positions that a kernel found (int64). They compute the position after the values at
    the kernel's position were improved, or worsened, by the errors of both candidates. A position is correct if either
    program finds it.
    """

    program: Program
    derivations: tuple[tuple[str, str], ...]
    chosen: tuple[Program, ...] = ()


def error_program(program: Program, exact: frozenset[str] = frozenset(), rounding: float = 1.0) -> ErrorProgram:
    """Derive the tolerances of a program; stages named in ``exact`` add no error of their own.

    ``rounding``: factor of the rounding of sums over the program's own (:class:`~tilewright.launch.LaunchProgram`).
    """
    return _Deriver(program, exact, rounding).run()


@dataclass
class _Deriver:
    source: Program
    exact: frozenset[str]
    rounding: float
    stages: list[Stage] = field(default_factory=list)
    inputs: dict[str, tuple[Tensor, str, str]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)  # stage -> tensor of its error
    positive: set[str] = field(default_factory=set)
    infinite: set[str] = field(default_factory=set)  # stages that may hold infinities by definition (masks)
    chosen: dict[str, tuple[Stage, ...]] = field(default_factory=dict)  # position -> reductions with nudged terms

    def run(self) -> ErrorProgram:
        self.positive |= {t.name for t in self.source.inputs if t.low is not None and t.low >= 0}
        for s in self.source.stages:
            self._stage(s)
        out = self.source.output
        axes = tuple(Expr("axis", INDEX, (), f"i{d}") for d in range(len(out.shape)))
        position = self._position_stored(self.source.stages[-1])
        terms = self._rounding(out.name, axes) if position is None else {}
        if not terms:
            terms = term(0.0, ()) or {(): (0.0, ())}
        floor = constant(TINY if out.name not in self.exact else 0.0)
        body = f64("add", f64("mul", constant(SLACK), expression(terms)), floor)
        last = Stage(f"s{len(self.source.stages) + len(self.stages)}e", out.shape, (), (body,), F64)
        found = self.chosen[position] if position is not None else ()
        kept = [leading_to([*self.stages, *found, x], x.name) for x in (last, *found)]
        used = {str(x.value) for stages in kept for s in stages for x in s.loads()}
        inputs = [t for t in self.inputs.values() if t[0].name in used]
        tensors = tuple(t for t, _, _ in inputs)
        return ErrorProgram(
            Program(tensors, kept[0]),
            tuple((source, how) for _, source, how in inputs),
            tuple(Program((*tensors, self._found(out)), stages) for stages in kept[1:]),
        )

    def _found(self, out: Tensor) -> Tensor:
        """The input with the positions that a kernel found."""
        return Tensor(f"x{3 * len(self.source.inputs)}", out.shape, "int64")

    def _position_stored(self, s: Stage) -> str | None:
        """The stage of positions that is the result, directly or cast to another whole-number type."""
        if s.name in self.chosen:
            return s.name
        body = s.body[0]
        while body.op == "cast":
            body = body.args[0]
        plain = s.monoid is None and body.op == "load" and [x.value for x in body.args] == list(s.axes)
        return str(body.value) if plain and s.dtype not in FLOATS and str(body.value) in self.chosen else None

    # ------------------------------------------------------------------ stages

    def _stage(self, s: Stage) -> None:
        if s.step is not None:
            self._recurrence(s)
            return
        if s.monoid is None:
            body = self._value(s.body[0])
            self.stages.append(Stage(s.name, s.extents, (), (body,), F64))
            if self._nonnegative(s.body[0]):
                self.positive.add(s.name)
            if self._infinite(s.body[0]):
                self.infinite.add(s.name)
            if s.name not in self.exact:
                self._finish(s, self._whether(s.body[0]) if s.dtype == "bool" else self._error(s.body[0], {}))
            return
        ops = {n.op for e in s.monoid.combine for n in e.walk()} - {"var"}
        if len(s.body) == 1 and ops == {"add"}:
            self._sum(s)
        elif len(s.body) == 1 and ops in ({"min"}, {"max"}):
            self._extreme(s)
        elif len(s.body) == 1 and ops == {"mul"}:
            self._prod(s)
        else:
            self._any_monoid(s)

    def _recurrence(self, s: Stage) -> None:
        """Add one recurrence with values and errors as its components."""
        both = with_states(s, f"{s.name}m", DTYPES[s.dtype].unit, self._value, self._error)
        self.stages.append(both)
        at = here(s)
        self.stages.append(Stage(s.name, s.extents, (), (Expr("load", F64, at, both.name),), F64))
        error = at[0] + s.extents[0]
        self._finish(s, term(1.0, (Expr("load", F64, (error, *at[1:]), both.name),)))

    def _sum(self, s: Stage) -> None:
        assert s.monoid is not None
        body, dt = s.body[0], s.body[0].dtype
        acc = self._reduce(s, f"{s.name}v", "add", self._value(body))
        nonnegative = self._nonnegative(body)
        if nonnegative:
            self.positive.add(acc)
        k = s.terms
        u = VALUES[dt].unit
        total = _load(acc, s)
        terms: Terms = {}
        if s.name not in self.exact:
            c, size = self._magnitude(body)
            size_key = term(1.0, size)
            own = 0.0
            other: Terms = {}
            for key, (coefficient, factors) in self._error(body, {}).items():
                if u and key in size_key and c:
                    own += coefficient / c
                else:
                    other = added(other, {key: (coefficient, factors)})
            if nonnegative:
                terms = term(self.rounding * (2 * u * math.sqrt(k) + own), (total,))
            elif u:
                square = self._reduce(s, f"{s.name}q", "add", self._squared(body))
                self.positive.add(square)
                spread = f64("sqrt", _load(square, s))
                wide = min(own, WIDE * u)
                narrow = own - wide  # from a cast to a narrower type, which rounds to nearest in either direction
                terms = added(
                    term(self.rounding * (2 * u * math.sqrt(k) + narrow), (f64("abs", total),)),
                    term(self.rounding * ((8 * u + wide) * math.sqrt(k) + 2 * narrow), (spread,)),
                )
            for n, (coefficient, factors) in enumerate(other.values()):
                carried = self._reduce(s, f"{s.name}p{n}", "add", product(factors))
                terms = added(terms, term(coefficient, (_load(carried, s),)))
        self._apply_finish(s, acc, terms, nonnegative)

    def _extreme(self, s: Stage) -> None:
        assert s.monoid is not None
        body = s.body[0]
        op = s.monoid.combine[0].op
        acc = self._reduce(s, f"{s.name}v", op, self._value(body))
        nonnegative = self._nonnegative(body)
        if nonnegative:
            self.positive.add(acc)
        terms: Terms = {}
        error = self._error(body, {}) if s.name not in self.exact else {}
        c, size = self._magnitude(body)
        if error and nonnegative and op == "max" and error.keys() == term(1.0, size).keys() and c:
            ((coefficient, _),) = error.values()
            terms = term(coefficient / c, (_load(acc, s),))
        elif error:
            worst = self._reduce(s, f"{s.name}p", "max", expression(error))
            terms = term(1.0, (_load(worst, s),))
        self._apply_finish(s, acc, terms, nonnegative)

    def _prod(self, s: Stage) -> None:
        """Relative errors add up: roundings, with independent signs, as sqrt(K); errors of factors in full."""
        body = s.body[0]
        acc = self._reduce(s, f"{s.name}v", "mul", self._value(body))
        size = f64("abs", _load(acc, s))
        u = VALUES[body.dtype].unit
        terms: Terms = {}
        error = self._error(body, {}) if s.name not in self.exact else {}
        if error and not u:  # a factor may be off by a step
            worst = self._reduce(s, f"{s.name}p", "max", expression(error))
            terms = _everything(_positive(term(1.0, (_load(worst, s),))))
        elif s.name not in self.exact and u:
            terms = term(2 * u * math.sqrt(s.terms), (size,))
            if error:
                share = f64("div", expression(error), f64("max", f64("abs", self._value(body)), constant(TINY)))
                terms = added(terms, term(1.0, (size, _load(self._reduce(s, f"{s.name}p", "add", share), s))))
        self._apply_finish(s, acc, terms, False)

    def _any_monoid(self, s: Stage) -> None:
        """A monoid of several parts, or of other operations: errors go through its ``combine`` pair by pair.

        In another order more partial results may be large: rounding may be up to sqrt(K) times as large.
        """
        assert s.monoid is not None
        m = s.monoid
        widened = Monoid(
            m.name,
            tuple(self._value(x) for x in m.identity),
            tuple(self._value(x) for x in m.combine),
            self._value(m.finish),
        )
        dtype = F64 if s.dtype in FLOATS else s.dtype
        plain = Stage(s.name, s.extents, s.reduce, tuple(self._value(e) for e in s.body), dtype, widened, s.scan)
        self.stages.append(plain)
        if s.name in self.exact:
            return
        errors = [self._whether(e) if e.dtype == "bool" else self._error(e, {}) for e in s.body]
        ops = {n.op for e in m.combine for n in e.walk()}
        rounds = bool(ops & {"add", "sub", "mul", "div", "sqrt", "rsqrt", *TRANSCENDENTAL})
        if not any(errors) and not (rounds and any(e.dtype in FLOATS for e in s.body)):
            return
        dtypes = [e.dtype for e in s.body]
        known = {f"{a}{c}": (Expr("var", F64, (), f"{a}{c}"), Terms()) for a in "lr" for c in range(len(dtypes))}
        growth = constant(math.sqrt(s.terms) if rounds else 1.0)
        own = [f64("mul", growth, expression(self._error(x, known))) for x in m.combine]
        carrying = with_errors(widened, dtypes, own, expression(self._error(m.finish, known)), SLACK)
        given = [
            expression(e if d in FLOATS else _everything(_positive(e))) for e, d in zip(errors, dtypes, strict=True)
        ]
        name = f"{s.name}m"
        self.stages.append(Stage(name, s.extents, s.reduce, (*plain.body, *given), F64, carrying, s.scan))
        self._finish(s, term(1.0, (_load(name, s),)))
        part = chosen_part(widened)
        if s.dtype not in FLOATS and s.scan is None and part is not None and not errors[part]:
            self._position(s, plain, part, errors)

    def _position(self, s: Stage, plain: Stage, part: int, errors: list[Terms]) -> None:
        """Reductions with the kernel's chosen term improved or worsened by the errors of this and the best term."""
        best = Expr("load", s.dtype, here(s), s.name)
        is_best = at_term(plain, part, best)
        reach: list[Expr | None] = []
        for n, error in enumerate(errors):
            if error:
                its = expression(error)
                same = self._reduce(s, f"{s.name}b{n}", "max", f64("select", is_best, its, constant(0.0)))
                reach.append(f64("mul", constant(SLACK), f64("add", its, _load(same, s))))
            else:
                reach.append(None)
        there = at_term(plain, part, Expr("load", "int64", here(s), self._found(s.tensor).name))
        back = [None if e is None else f64("neg", e) for e in reach]
        self.chosen[s.name] = (
            nudged(plain, f"{s.name}c", there, reach),
            nudged(plain, f"{s.name}d", there, back),
        )

    def _reduce(self, s: Stage, name: str, op: str, body: Expr) -> str:
        identity = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}[op]
        combine = f64(op, left(0, F64), right(0, F64))
        kind = {"add": "sum", "mul": "prod"}.get(op, op)
        m = simple_monoid(kind, F64, identity, combine)
        self.stages.append(Stage(name, s.extents, s.reduce, (body,), F64, m, s.scan))
        return name

    def _apply_finish(self, s: Stage, acc: str, terms: Terms, nonnegative: bool) -> None:
        """Apply the monoid's ``finish`` to the reduced value and its error."""
        assert s.monoid is not None
        finish = s.monoid.finish
        total = _load(acc, s)
        value = self._value(finish, {"l0": total})
        self.stages.append(Stage(s.name, s.extents, (), (value,), F64))
        plain = finish.op == "var"
        if nonnegative and plain:
            self.positive.add(s.name)
        if s.name in self.exact:
            terms = {}
        elif not plain:
            terms = self._error(finish, {"l0": (total, terms)})
        self._finish(s, terms)

    def _finish(self, s: Stage, terms: Terms) -> None:
        if not terms:
            return
        name = f"{s.name}e"
        self.stages.append(Stage(name, s.extents, (), (expression(terms),), F64))
        self.positive.add(name)
        self.errors[s.name] = name

    def _rounding(self, stage: str, indices: tuple[Expr, ...]) -> Terms:
        error = self.errors.get(stage)
        return term(1.0, (Expr("load", F64, indices, error),)) if error else {}

    # ------------------------------------------------------------------ inputs

    def _input(self, name: str, how: str) -> str:
        """Name in the derived program of an input, its absolute values or its squares."""
        key = f"{name}.{how}"
        if key not in self.inputs:
            t = next(x for x in self.source.inputs if x.name == name)
            dtype = F64 if t.dtype in FLOATS else t.dtype
            index = int(name[1:]) * 3 + ("same", "abs", "square").index(how)
            self.inputs[key] = (Tensor(f"x{index}", t.shape, dtype), name, how)
        return self.inputs[key][0].name

    def _is_input(self, name: str) -> bool:
        return any(t.name == name for t in self.source.inputs)

    # ------------------------------------------------------------------ expressions

    def _value(self, e: Expr, variables: Mapping[str, Expr] | None = None, how: str = "same") -> Expr:
        """The expression in float64, over the derived program's tensors."""

        def convert(n: Expr) -> Expr | None:
            if n.op == "load":
                source = str(n.value)
                if self._is_input(source):
                    dtype = F64 if n.dtype in FLOATS else n.dtype
                    kind = how if n.dtype in FLOATS else "same"
                    return Expr("load", dtype, n.args, self._input(source, kind))
                whole = n.dtype not in FLOATS and self._kept_whole(source)
                return Expr("load", n.dtype if whole else F64, n.args, source)
            if n.op == "var" and variables and str(n.value) in variables:
                return variables[str(n.value)]
            return wide(n)

        return e.map(convert)

    def _kept_whole(self, stage: str) -> bool:
        s = next(x for x in self.source.stages if x.name == stage)
        return s.monoid is not None and len(s.body) > 1

    def _magnitude(self, e: Expr) -> tuple[float, tuple[Expr, ...]]:
        """|e| as a coefficient and factors."""
        if e.op == "const":
            return abs(number(e)), ()
        if e.op == "mul":
            (c, a), (d, b) = self._magnitude(e.args[0]), self._magnitude(e.args[1])
            return c * d, (*a, *b)
        if e.op in ("neg", "abs") or (e.op == "cast" and e.args[0].dtype in FLOATS):
            return self._magnitude(e.args[0])
        if e.op == "load" and self._is_input(str(e.value)):
            value = self._value(e, how="abs")
            return 1.0, (value if e.dtype in FLOATS else f64("abs", f64("cast", value)),)
        if self._guarded(e):
            return 1.0, (self._value(e, how="abs"),)
        value = self._value(e)
        if value.dtype != F64:
            value = f64("cast", value)
        return 1.0, (value if self._nonnegative(e) else f64("abs", value),)

    def _squared(self, e: Expr) -> Expr:
        """e squared; for products of inputs as products of squared inputs, which stay contractions."""
        if e.op == "const":
            return constant(number(e) ** 2)
        if e.op == "mul":
            return f64("mul", self._squared(e.args[0]), self._squared(e.args[1]))
        if e.op in ("neg", "abs") or (e.op == "cast" and e.args[0].dtype in FLOATS):
            return self._squared(e.args[0])
        if (e.op == "load" and e.dtype in FLOATS and self._is_input(str(e.value))) or self._guarded(e):
            return self._value(e, how="square")
        value = self._value(e)
        if value.dtype != F64:
            value = f64("cast", value)
        return f64("mul", value, value)

    def _guarded(self, e: Expr) -> bool:
        """Whether e is a padded read: ``select(inside, x[...], 0)`` of an input, with a condition on axes alone."""
        return (
            e.op == "select"
            and e.dtype in FLOATS
            and e.args[1].op == "load"
            and self._is_input(str(e.args[1].value))
            and e.args[2].op == "const"
            and number(e.args[2]) == 0
            and not e.args[0].loads()
        )

    def _nonnegative(self, e: Expr) -> bool:
        if e.op in ("abs", "exp", "sqrt", "rsqrt") or e.dtype == "bool":
            return True
        if e.op == "const":
            return number(e) >= 0
        if e.op == "load":
            return str(e.value) in self.positive
        if e.op == "mul" and repr(e.args[0]) == repr(e.args[1]):
            return True
        if e.op in ("add", "mul", "div", "min"):
            return all(self._nonnegative(a) for a in e.args)
        if e.op == "pow":
            return self._nonnegative(e.args[0])
        if e.op == "max":
            return any(self._nonnegative(a) for a in e.args)
        if e.op == "select":
            return all(self._nonnegative(a) for a in e.args[1:])
        return e.op in ("cast", "floor", *TF32) and self._nonnegative(e.args[0])

    def _infinite(self, e: Expr) -> bool:
        """Whether the expression may be infinite by definition, as masks are."""
        if e.op == "const":
            return math.isinf(number(e))
        if e.op == "load":
            return str(e.value) in self.infinite
        return e.op not in ("exp", "div", "tanh", "erf", "rsqrt") and any(
            self._infinite(a) for a in e.args if a.dtype in FLOATS
        )

    def _error(self, e: Expr, variables: Mapping[str, tuple[Expr, Terms]]) -> Terms:
        """Absolute error of ``e`` as computed in its own dtype."""
        u = VALUES[e.dtype].unit
        if e.op == "load":
            moved = added(*(self._error(a, variables) for a in e.args))
            elsewhere = _everything(_positive(moved)) if moved else Terms()
            return added(self._rounding(str(e.value), self._value(e).args), elsewhere)
        if e.op == "var":
            return variables[str(e.value)][1] if str(e.value) in variables else {}
        if e.op == "const":
            exact = not u or number(e) % 2.0**-8 == 0 or not math.isfinite(number(e))
            return {} if exact else term(u * abs(number(e)), ())
        if e.op == "axis":
            return {}
        parts = [self._error(a, variables) for a in e.args]
        if e.op in ("neg", "abs"):
            return parts[0]
        if e.op in ("min", "max"):
            return added(*parts)
        if e.op == "select":
            return self._select(e, parts, variables)
        if e.op == "cast":
            return self._cast(e, parts[0], variables)
        if e.dtype == "bool":  # uses of a condition call _uncertain
            return {}
        if not u:
            return self._whole_arithmetic(e, parts) if any(parts) else {}
        names = {k: v[0] for k, v in variables.items()}
        return self._operation(e, parts, u, names)

    def _whole_arithmetic(self, e: Expr, parts: list[Terms]) -> Terms:
        """Whole numbers are computed exactly; an operand's error of a step propagates."""
        if e.op in ("add", "sub"):
            return added(*parts)
        x, y = (self._value(a) for a in e.args)
        if e.op == "mul":
            a, b = (f64("mul", constant(SLACK), expression(p)) for p in parts)
            ends = f64("add", f64("mul", f64("abs", x), b), f64("mul", a, f64("add", f64("abs", y), b)))
            return term(1 / SLACK, (ends,))
        if e.op == "floordiv" and not parts[1]:
            return stepped(x, parts[0], lambda v: f64("floor", f64("div", v, y)))
        return _everything(_positive(added(*parts)))

    def _whether(self, e: Expr) -> Terms:
        """The error of a condition: 1 where rounding may flip it."""
        uncertain = self._uncertain(e, {})
        return {} if uncertain is None else term(1.0, (f64("select", uncertain, constant(1), constant(0)),))

    def _select(self, e: Expr, parts: list[Terms], variables: Mapping[str, tuple[Expr, Terms]]) -> Terms:
        names = {k: v[0] for k, v in variables.items()}
        condition, a, b = (self._value(x, names) for x in e.args)
        yes, no = expression(parts[1]), expression(parts[2])
        uncertain = self._uncertain(e.args[0], variables)
        if uncertain is not None:  # either branch may be taken
            apart = f64("mul", constant(1 / SLACK), f64("abs", f64("sub", a, b)))
            either = f64("add", apart, f64("max", yes, no))
            return term(1.0, (f64("select", uncertain, either, f64("select", condition, yes, no)),))
        if not parts[1] and not parts[2]:
            return {}
        return term(1.0, (f64("select", condition, yes, no),))

    def _uncertain(self, e: Expr, variables: Mapping[str, tuple[Expr, Terms]]) -> Expr | None:
        """Where rounding may flip a condition; ``None`` if it cannot."""
        if e.op == "load":
            error = self._error(e, variables)
            return _positive(error) if error else None
        if e.op in ("lt", "le", "gt", "ge", "eq", "ne") and e.args[0].dtype != "bool":
            names = {k: v[0] for k, v in variables.items()}
            error = added(*(self._error(a, variables) for a in e.args))
            if not error:
                return None
            apart = f64("abs", f64("sub", *(self._value(a, names) for a in e.args)))
            return Expr("le", "bool", (apart, f64("mul", constant(SLACK), expression(error))))
        if e.op == "cast" and e.args[0].dtype != "bool":
            return self._uncertain(Expr("ne", "bool", (e.args[0], const(0, e.args[0].dtype))), variables)
        parts = [x for a in e.args if a.dtype == "bool" and (x := self._uncertain(a, variables)) is not None]
        return reduce(lambda a, b: Expr("or", "bool", (a, b)), parts) if parts else None

    def _cast(self, e: Expr, error: Terms, variables: Mapping[str, tuple[Expr, Terms]]) -> Terms:
        source = e.args[0].dtype
        if e.dtype in FLOATS and (holds(e.dtype, source) or (not error and source != "bool")):
            return error  # an exact value rounds to a single value
        value = self._value(e.args[0], {k: v[0] for k, v in variables.items()})
        if source == "bool":
            uncertain = self._uncertain(e.args[0], variables)
            return {} if uncertain is None else term(1 / SLACK, (f64("select", uncertain, constant(1), constant(0)),))
        if e.dtype in FLOATS:
            c, size = (1.0, (f64("abs", value),)) if variables else self._magnitude(e.args[0])
            record = DTYPES[e.dtype]
            least = record.half_step if record.half_step > TINY else 0.0
            return added(error, term(record.unit * c, size), term(least, ()))
        if source in FLOATS and e.dtype != "bool":
            return stepped(value, error, lambda x: f64("cast", Expr("cast", "int64", (x,))))
        return error

    def _operation(self, e: Expr, parts: list[Terms], u: float, names: Mapping[str, Expr]) -> Terms:
        op = e.op
        args = [self._value(a, names) for a in e.args]
        value = Expr(op, F64, tuple(args))
        size = value if self._nonnegative(e) else f64("abs", value)
        if self._infinite(e):  # infinities are exact
            size = f64("select", Expr("lt", "bool", (f64("abs", value), constant(math.inf))), size, constant(0))
        if op == "mul" and not self._infinite(e):
            c, factors = self._magnitude(e) if not names else (1.0, (size,))
            (ca, fa), (cb, fb) = (
                self._magnitude(a) if not names else (1.0, (f64("abs", v),)) for a, v in zip(e.args, args, strict=True)
            )
            return added(scaled(parts[0], cb, fb), scaled(parts[1], ca, fa), term(u * c, factors))
        own = {} if remainder(e) else term(u, (size,))
        if op in ("add", "sub"):
            return added(*parts, own)
        if op == "div":
            inverse = f64("div", constant(1.0), f64("abs", args[1]))
            carried = added(scaled(parts[0], 1.0, (inverse,)), scaled(parts[1], 1.0, (size, inverse)))
            return added(carried, term(2 * u, (size,)), self._vanished(e, args[1], parts[1], size))
        if op == "mul":
            return added(*(scaled(p, 1.0, (f64("abs", x),)) for p, x in zip(parts, reversed(args), strict=True)), own)
        if op == "floor":
            return stepped(args[0], parts[0], lambda x: f64("floor", x))
        if op == "fmod":  # exact, but a wrong quotient may be the next integer
            x, y = args
            moved = added(parts[0], scaled(parts[1], 1.0, (f64("abs", f64("div", x, y)),)))
            return added(moved, stepped(x, moved, lambda v: f64("mul", y, f64("floor", f64("div", v, y)))))
        if op in TF32:  # defined to the bit, but an inaccurate value may round to the neighbour
            return added(parts[0], term(TF32_STEP, (size,))) if parts[0] else {}
        near = term(FUNCTION_UNITS * u, (size,))
        if op == "pow":
            return added(near, *power(args[0], args[1], size, parts))
        return added(near, propagated(op, args[0], value, parts[0]), term(u, ()) if op == "log" else {})

    def _vanished(self, e: Expr, divisor: Expr, error: Terms, size: Expr) -> Terms:
        """Error of the size of the result where the divisor may overflow in its type, as ``1 + exp(-x)`` does."""
        if e.dtype == F64 or not any(n.op in ("exp", "pow") for n in e.args[1].walk()):
            return {}
        reach = f64("add", f64("abs", divisor), f64("mul", constant(SLACK), expression(error)))
        over = Expr("lt", "bool", (constant(DTYPES[e.dtype].largest), reach))
        return term(1 / SLACK, (f64("select", over, size, constant(0)),))


def _load(name: str, s: Stage) -> Expr:
    return Expr("load", F64, here(s), name)


def _positive(error: Terms) -> Expr:
    return Expr("gt", "bool", (expression(error), constant(0.0)))


def _everything(where: Expr) -> Terms:
    """An error that allows any value where a condition holds."""
    return term(1.0, (f64("select", where, constant(math.inf), constant(0.0)),))
