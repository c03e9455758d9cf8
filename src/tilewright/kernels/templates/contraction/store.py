"""What happens to a finished sum: the monoid's finish and the elementwise stages after it."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.kernels.codegen.printer import print_expr
from tilewright.kernels.expr import LEAVES, Expr
from tilewright.kernels.templates.contraction.geometry import Plan
from tilewright.kernels.templates.contraction.match import Affine, position

CHEAP = ("add", "sub", "mul", "max", "min", "neg", "abs", "select", "lt", "le", "gt", "ge")
CHEAP_LIMIT = 6
C_TYPES = {
    "float32": "float", "float64": "double", "int32": "int", "int64": "long", "int8": "signed char",
    "uint8": "unsigned char", "bool": "unsigned char",
}  # fmt: skip


@dataclass(frozen=True)
class Read:
    """A tensor read by the epilogue: its text is a pointer ``name``, stepping ``m`` and ``n``."""

    name: str
    load: Expr
    where: Affine
    m: int
    n: int


class Epilogue:
    """The finish and the maps after it, for one plan: in registers, or as a pass over a stored tile."""

    def __init__(self, p: Plan) -> None:
        self.p = p
        c = p.c
        assert c.stage.monoid is not None
        finish = c.stage.monoid.finish
        self.chain: list[tuple[str, Expr]] = []
        if not (finish.op == "var" and finish.value == "l0") or finish.dtype != c.dtype:
            self.chain.append((c.stage.name, finish))
        self.chain += [(s.name, s.body[0]) for s in c.epilogue]
        self.trivial = not self.chain and c.in_place
        self.reads: list[Read] = []
        self.vector = (
            all(x.dtype in (c.dtype, "bool", "index") for _, e in self.chain for x in e.walk())
            and c.output.dtype == c.dtype
        )
        stages = {s.name for s in c.program.stages}
        for _, e in self.chain:
            for x in e.loads():
                if str(x.value) in stages or any(repr(x) == repr(r.load) for r in self.reads):
                    continue
                self._read(x)
        if any(x.op == "axis" and not self._inside_load(e, x) for _, e in self.chain for x in e.walk()):
            self.vector = False
        ops = [x.op for _, e in self.chain for x in e.walk() if x.op not in LEAVES and x.dtype != "index"]
        self.inline = (
            bool(self.chain)
            and self.vector
            and c.in_place
            and not p.split_k
            and len(ops) <= CHEAP_LIMIT
            and all(o in CHEAP for o in ops)
        )
        self.pass_over = not self.trivial and not self.inline

    @staticmethod
    def _inside_load(e: Expr, axis: Expr) -> bool:
        return any(axis is y for x in e.loads() for y in x.walk())

    def _read(self, x: Expr) -> None:
        c = self.p.c
        where = position(x, c.program.tensors[str(x.value)])
        m = c.m.stride(where) if where else None
        n = c.n.stride(where) if where else None
        if where is None or m is None or n not in (0, 1) or x.dtype != c.dtype:
            self.vector = False
            return
        self.reads.append(Read(f"e{len(self.reads)}", x, where, m, n))

    # ------------------------------------------------------------------ pointers

    @property
    def parameters(self) -> str:
        return "".join(f", const T *{r.name}" for r in self.reads)

    def base(self, r: Read) -> str:
        """Pointer to the read's first element for the outer position held in ``o_<axis>``."""
        terms = [str(r.where.const)] + [f"{r.where.of(a)}L*o_{a}" for a in self.p.c.outer.axes if r.where.of(a)]
        return f"(const T*)x->t[{self.index(r.load)}]+{'+'.join(terms)}"

    def index(self, load: Expr) -> int:
        return [t.name for t in self.p.c.program.inputs].index(str(load.value))

    def arguments(self, m: str, n: str) -> str:
        return "".join(f",{r.name}+{r.m}L*({m})+{r.n}L*({n})" for r in self.reads) if self.inline else ""

    # ------------------------------------------------------------------ values

    def _value(self, acc: str, read: dict[str, str]) -> list[str]:
        """Statements that turn the vector in ``acc`` into the final one, in ``acc``."""
        out = []
        names = {self.p.c.stage.name: acc}
        for number, (stage, e) in enumerate(self.chain):
            texts = {"l0": acc}

            def name_reads(x: Expr, texts: dict[str, str] = texts) -> Expr | None:
                # Reads become variables: their text is a vector already, whatever they depend on.
                if x.op != "load":
                    return None
                texts[repr(x)] = names.get(str(x.value)) or read[repr(x)]
                return Expr("var", x.dtype, (), repr(x))

            renamed = e.map(name_reads)
            text = print_expr(renamed, axis={}, load=no_load, var=texts, lanes=self.p.lanes)
            final = number == len(self.chain) - 1
            out.append(f"{acc}={text};" if final else f"const V f{number}={text};")
            names[stage] = f"f{number}"
        return out

    def registers(self, rows: int, vectors: int, tail: bool) -> str:
        """The epilogue on accumulators ``c<i>_<j>`` of a register tile."""
        lanes = self.p.lanes
        out = []
        texts: dict[tuple[int, int, str], str] = {}
        for r in self.reads:
            key = repr(r.load)
            for i in range(rows):
                for j in range(vectors):
                    name = f"{r.name}_{i if r.m else 0}_{j if r.n else 0}"
                    texts[i, j, key] = name
                    if (r.m == 0 and i) or (r.n == 0 and j):
                        continue
                    at = f"{r.name}+{r.m * i + r.n * j * lanes}L"
                    if r.n == 0:
                        read = f"tw::splat<V>(*({at}))"
                    elif tail and j == vectors - 1:
                        read = f"(tail=={lanes}?tw::load<V>({at}):tw::load_n<V>({at},tail))"
                    else:
                        read = f"tw::load<V>({at})"
                    out.append(f"  const V {name}={read};")
        for i in range(rows):
            for j in range(vectors):
                read_text = {repr(r.load): texts[i, j, repr(r.load)] for r in self.reads}
                out.append("  { " + " ".join(self._value(f"c{i}_{j}", read_text)) + " }")
        return "\n".join(out)

    def tile_pass(self) -> str:
        """A function that finishes ``rows`` x ``cols`` values at ``s`` into the output at ``d``."""
        c = self.p.c
        out_type = C_TYPES[c.output.dtype]
        head = (
            "TW_NOINLINE void finish(const Ctx *x, long o, long m0, long n0, long rows, long cols, "
            f"const T *s, long lds, {out_type} *d) {{\n (void)x; (void)o; (void)m0; (void)n0;\n"
        )
        lines = [head]
        lines += [f" const long o_{a}={t}; (void)o_{a};" for a, t in c.outer.split("o").items()]
        if self.vector:
            lines += [f" const T *{r.name}={self.base(r)}+{r.m}L*m0+{r.n}L*n0;" for r in self.reads]
            lines.append(" for(long i=0;i<rows;i++) for(long j=0;j<cols;j+=L) { const long n=cols-j;")
            lines.append("  V v=n>=L?tw::load<V>(s+i*lds+j):tw::load_n<V>(s+i*lds+j,n);")
            read = {}
            for r in self.reads:
                at = f"{r.name}+{r.m}L*i+{r.n}L*j"
                text = f"tw::splat<V>(*({at}))" if r.n == 0 else f"(n>=L?tw::load<V>({at}):tw::load_n<V>({at},n))"
                lines.append(f"  const V {r.name}_={text};")
                read[repr(r.load)] = f"{r.name}_"
            lines += ["  " + s for s in self._value("v", read)]
            lines.append(f"  {out_type} *q=d+i*{c.ldc}L+j; if(n>=L) tw::store(q,v); else tw::store_n(q,v,n); }}")
        else:
            lines += self._scalar_pass(out_type)
        lines.append("}")
        return "\n".join(lines)

    def _scalar_pass(self, out_type: str) -> list[str]:
        p, c = self.p, self.p.c
        axes = axis_texts(p, m="m", n="n")
        lines = [" for(long i=0;i<rows;i++) for(long j=0;j<cols;j++) { const long m=m0+i,n=n0+j; (void)m; (void)n;"]
        names = {c.stage.name: "v"}
        lines.append("  const T v=s[i*lds+j];")
        last = "v"
        for number, (stage, e) in enumerate(self.chain):
            text = print_expr(
                e,
                axis=axes,
                load=lambda y: names[str(y.value)] if str(y.value) in names else scalar_read(p, y, axes),
                var={"l0": "v"},
                lanes=None,
            )
            dtype = c.epilogue[-1].dtype if c.epilogue else c.output.dtype
            dtype = next((s.dtype for s in c.program.stages if s.name == stage), dtype)
            last = f"f{number}"
            lines.append(f"  const {C_TYPES[dtype]} {last}=({C_TYPES[dtype]})({text});")
            names[stage] = last
        lines.append(f"  d[i*{c.ldc}L+j]=({out_type}){last}; }}")
        return lines


def axis_texts(p: Plan, m: str = "m", n: str = "n") -> dict[str, str]:
    """C text of every output axis, given the fused M and N positions and ``o_<axis>``."""
    c = p.c
    texts = dict.fromkeys(c.stage.axes, "0L")
    texts.update({a: f"o_{a}" for a in c.outer.axes})
    texts.update({a: f"({t})" for a, t in c.m.split(m).items()})
    texts.update({a: f"({t})" for a, t in c.n.split(n).items()})
    return texts


def scalar_read(p: Plan, load: Expr, axes: dict[str, str]) -> str:
    """C text of one element of an input."""
    tensor = p.c.program.tensors[str(load.value)]
    number = [t.name for t in p.c.program.inputs].index(tensor.name)

    def nested(x: Expr) -> str:
        return scalar_read(p, x, axes)

    terms = [
        f"({print_expr(i, axis=axes, load=nested, var={}, lanes=None)})*{s}L"
        for i, s in zip(load.args, tensor.strides, strict=True)
    ]
    return f"((const {C_TYPES[tensor.dtype]}*)x->t[{number}])[{'+'.join(terms) or '0'}]"


def no_load(e: Expr) -> str:
    raise AssertionError(f"unexpected read {e!r}")


def combine_text(p: Plan, left: str, right: str) -> str:
    """C text of the monoid's combine of two vectors."""
    assert p.c.stage.monoid is not None
    combine = p.c.stage.monoid.combine[0]
    return print_expr(combine, axis={}, load=no_load, var={"l0": left, "r0": right}, lanes=p.lanes)
