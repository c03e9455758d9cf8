"""What happens to finished sums: the monoid's finish, the elementwise stages after it, the output's type.

All of it is one function on a vector of sums, ``finish``, which reads what the stages read beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.kernels.codegen.access import unrounded
from tilewright.kernels.codegen.printer import Printer, computed
from tilewright.kernels.expression.expr import LEAVES, TRANSCENDENTAL, Expr
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.index_forms import position
from tilewright.kernels.templates.mixed_precision.geometry import DotTiling
from tilewright.kernels.templates.mixed_precision.kinds import BF16
from tilewright.kernels.templates.mixed_precision.match import STORED
from tilewright.kernels.templates.mixed_precision.texts import axis_names, declare, element, linear, number_of

CHEAP_LIMIT = 6
"""Operations up to which the epilogue is printed for every accumulator of a register tile."""


@dataclass(frozen=True)
class Read:
    """A tensor read beside the sums: where, and its steps along M and N, if it is linear there."""

    name: str
    load: Expr
    where: Linear | None
    m: int
    n: int


class Epilogue:
    """The stages after the sum, for one plan."""

    def __init__(self, p: DotTiling) -> None:
        self.p = p
        c = p.c
        assert c.stage.monoid is not None
        self.chain = [(c.stage.name, c.stage.monoid.finish), *((s.name, s.body[0]) for s in c.epilogue)]
        stages = {name for name, _ in self.chain}
        self.reads: list[Read] = []
        for _, e in self.chain:
            for x in e.loads():
                if str(x.value) not in stages and all(repr(x) != repr(r.load) for r in self.reads):
                    self.reads.append(self._read(x))
        ops = [x for _, e in self.chain for x in e.walk() if x.op not in LEAVES and x.dtype != "index"]
        self.cheap = len(ops) <= CHEAP_LIMIT and all(x.op not in ("div", *TRANSCENDENTAL) for x in ops)

    def _read(self, x: Expr) -> Read:
        c = self.p.c
        name = f"e{len(self.reads)}"
        where = position(x, c.program.tensors[str(x.value)])
        m = c.m.stride(where) if where else None
        n = c.n.stride(where) if where else None
        if where is None or m is None or n not in (0, 1):
            return Read(name, x, None, 0, 0)
        return Read(name, x, where, m, n)

    # ------------------------------------------------------------------ pointers

    @property
    def out_type(self) -> str:
        return STORED[self.p.c.output.dtype]

    def _column(self, n: str) -> str:
        """C text of the elements before column ``n`` of a row of the output."""
        return n if self.p.c.n_step == 1 else f"{n}*{self.p.c.n_step}L"

    def pointers(self) -> str:
        """Declarations of the addresses at row ``m``, column ``n`` of outer position ``o``."""
        c = self.p.c
        names = axis_names(c)
        out = linear(Linear(0, {a: c.out_strides[a] for a in c.batch.axes}), names)
        at = f"{out}+m*{c.ldc}L+{self._column('n')}"
        texts = [
            declare(c.batch, "o"),
            f"{self.out_type} *const out=({self.out_type}*)x->t[{len(c.program.inputs)}]+{at}; ",
        ]
        for r in self.reads:
            if r.where is not None:
                at = linear(Linear(r.where.const, {a: r.where.of(a) for a in c.batch.axes}), names)
                kind = STORED[r.load.dtype]
                number = number_of(c, str(r.load.value))
                texts.append(f"const {kind} *const {r.name}=(const {kind}*)x->t[{number}]+{at}+{r.m}L*m+{r.n}L*n; ")
        return "".join(texts)

    def call(self, value: str, i: str, j: str, count: str) -> str:
        """The finish of a vector at row ``m + i``, columns from ``n + j``; ``count`` of them, or all."""
        reads = "".join(f",{r.name}+{r.m}L*({i}){f'+({j})' if r.n else ''}" for r in self.reads if r.where is not None)
        name = "finish_n" if count else "finish"
        tail = f",{count}" if count else ""
        at = f"({i})*{self.p.c.ldc}L+{self._column(f'({j})')}"
        return f"{name}(x,o,m+{i},n+{j},{value},out+{at}{reads}{tail});"

    # ------------------------------------------------------------------ values

    def functions(self) -> str:
        """``finish`` for a whole vector, and ``finish_n`` for its first lanes."""
        return self._function(False) + self._function(True)

    def _function(self, some: bool) -> str:
        p, c = self.p, self.p.c
        parameters = "".join(f",const {STORED[r.load.dtype]} *{r.name}" for r in self.reads if r.where is not None)
        count = ",long count" if some else ""
        lines = [
            f"TW_INLINE void finish{'_n' if some else ''}(const Ctx *x,long o,long m,long n,V v,{self.out_type} *d"
            f"{parameters}{count}) {{ (void)x; (void)o; (void)m; (void)n;"
        ]
        names = axis_names(c)
        known: dict[str, str] = {}
        for r in self.reads:
            lane = f"tw::vec<{computed(r.load.dtype)},L>"
            text = f"v_{r.name}"
            known[repr(r.load)] = text
            if r.where is None:
                index = declare(c.batch, "o") + declare(c.m, "m") + declare(c.n, "(n+l)")
                upto = "count" if some else "L"
                lines.append(f" {lane} {text}={{}}; for(long l=0;l<{upto};l++) {{ {index}"
                             f"{text}[l]={element(c, r.load, names)}; }}")  # fmt: skip
            elif r.n == 0:
                one = f"tw::widen(*{r.name})" if STORED[r.load.dtype].startswith("tw::") else f"*{r.name}"
                lines.append(f" const {lane} {text}=tw::splat<{lane}>({one});")
            else:
                get = f"load_n<{lane}>({r.name},count)" if some else f"load<{lane}>({r.name})"
                lines.append(f" const {lane} {text}=tw::{get};")
        stages: dict[str, str] = {}
        last = "v"
        for number, (stage, e) in enumerate(self.chain):
            texts = {"l0": "v"}

            def as_variable(x: Expr, texts: dict[str, str] = texts) -> Expr | None:
                if x.op != "load":
                    return None
                texts[repr(x)] = stages.get(str(x.value)) or known[repr(x)]
                return Expr("var", x.dtype, (), repr(x))

            final = number == len(self.chain) - 1
            value = (unrounded(e, self.p.c.output.dtype) if final else e).map(as_variable)
            last = stages[stage] = f"s{number}"
            printer = Printer({}, var=texts, lanes=p.lanes, varying=frozenset(texts))
            printer.bind((value,), lambda s: lines.append(" " + s), lambda t: f"{t}{len(lines)}")
            lines.append(f" const auto {last}={printer.text(value)};")
        lines.append(f" {self._store(last, some)} }}\n")
        return "\n".join(lines)

    def _store(self, value: str, some: bool) -> str:
        if self.p.kind == BF16 and self.p.c.output.dtype == "bfloat16":
            # The instruction rounds as tw::narrow does, but for results below the smallest normal float.
            target, value = "(unsigned short*)d", f"rounded({value})"
        else:
            target = "d"
        count = ",count" if some else ""
        if self.p.c.n_step != 1:
            return f"tw::store_step({target},{self.p.c.n_step}L,{value}{count});"
        return f"tw::store{'_n' if some else ''}({target},{value}{count});"
