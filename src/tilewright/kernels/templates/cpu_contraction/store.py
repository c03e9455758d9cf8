"""The epilogue of a contraction: the monoid's finish and the elementwise stages after it.

A cheap chain runs on the accumulators, in registers; any other chain is a pass over a stored tile. Expensive values
that depend on the column alone (the scale of a batch normalisation) are computed once per call, as a table.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.extent import ctext
from tilewright.kernels.codegen.access import unrounded
from tilewright.kernels.codegen.printer import Printer, computed, print_expr
from tilewright.kernels.expression.expr import LEAVES, Expr, axis, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.index_forms import IndexForms, position
from tilewright.kernels.templates.cpu_contraction.geometry import ContractionTiling
from tilewright.kernels.templates.cpu_contraction.match import DTYPES, NARROWED
from tilewright.kernels.templates.cpu_contraction.text import (
    C_TYPES,
    along_m,
    axis_texts,
    form,
    outer_names,
    outer_texts,
    scalar_read,
    scalar_text,
    sizes,
    tensor_pointer,
    var_text,
)  # fmt: skip

CHEAP = ("add", "sub", "mul", "max", "min", "neg", "abs", "select", "lt", "le", "gt", "ge")
INLINE = (*CHEAP, "cast")
INLINE_LIMIT = 8
"""Greatest number of operations (of ``INLINE``) that run in registers beside a tile's sums."""
TABLE = "column_table"
"""Prefix of the names under which expressions read tables of columns; the table's number follows."""


@dataclass(frozen=True)
class Read:
    """A tensor or table that the epilogue reads: a pointer ``name``, its steps ``m`` along the loops over M, and ``n``
    along columns."""

    name: str
    load: Expr
    where: Linear
    m: tuple[int, ...]
    n: int


def _names_axes(e: Expr) -> bool:
    """Whether an axis occurs outside of reads. The search skips reads, because an axis node may be shared with one."""
    return e.op == "axis" or (e.op != "load" and any(map(_names_axes, e.args)))


class Epilogue:
    """The finish and the maps after it, for one plan: in registers, or as a pass over a stored tile."""

    def __init__(self, p: ContractionTiling) -> None:
        self.p = p
        c = p.c
        self.chain = [(name, e) for name, _, e in c.chain]
        finish = c.monoid.finish
        if finish.op == "var" and finish.value == "l0" and finish.dtype == c.acc:
            self.chain = self.chain[1:]
        self.narrowed = c.output.dtype in (*DTYPES, *NARROWED) and c.output.dtype != c.acc and bool(c.epilogue)
        if self.chain and (p.mixed or self.narrowed):
            # The store converts to the output's type, so the chain leaves out its last cast.
            stage, e = self.chain[-1]
            last = unrounded(e, c.output.dtype) if p.mixed else e.args[0] if e.op == "cast" else e
            self.chain[-1] = (stage, last)
        self.tables: list[Expr] = []
        if not p.mixed:
            self.chain = [(s, self._hoisted(e)) for s, e in self.chain]
        self.trivial = not self.chain and c.in_place
        self.reads: list[Read] = []
        self.lanes_read: list[tuple[str, Expr]] = []
        self.vector = p.mixed or (
            all(x.dtype in (c.acc, "bool", "index") for _, e in self.chain for x in e.walk())
            and (c.output.dtype == c.acc or self.narrowed)
        )
        stages = {s.name for s in c.program.stages}
        for _, e in self.chain:
            for x in e.loads():
                if str(x.value) in stages or repr(x) in {repr(y) for y in self._known()}:
                    continue
                self._read(x)
        if any(_names_axes(e) for _, e in self.chain):
            self.vector = False
        ops = [x.op for _, e in self.chain for x in e.walk() if x.op not in LEAVES and x.dtype != "index"]
        self.inline = (
            bool(self.chain)
            and self.vector
            and (c.in_place or p.mixed)
            and not self.lanes_read
            and not p.split_k
            and len(ops) <= INLINE_LIMIT
            and all(o in INLINE for o in ops)
            # Registers also hold a value of each read, and two values that are being computed.
            and p.rows * p.vectors + len(self.reads) + 2 <= p.target.registers
        )
        self.pass_over = not self.trivial and not self.inline

    def _known(self) -> list[Expr]:
        """The reads that have a variable already."""
        return [*(r.load for r in self.reads), *(x for _, x in self.lanes_read)]

    # ------------------------------------------------------------------ tables of columns

    def _hoisted(self, e: Expr) -> Expr:
        """``e`` with table reads in place of expensive parts that depend only on columns and outer axes."""
        if e.op in LEAVES:
            return e
        if self._by_column(e) and e.dtype == self.p.c.acc and any(
            x.op not in (*LEAVES, *CHEAP) and x.dtype != "index" for x in e.walk()
        ):  # fmt: skip
            known = [repr(t) for t in self.tables]
            if repr(e) not in known:
                self.tables.append(e)
                known.append(repr(e))
            c = self.p.c
            return load(f"{TABLE}{known.index(repr(e))}", e.dtype, tuple(self._table_axes(c.stage.axes)))
        args = tuple(self._hoisted(x) for x in e.args)
        return e if all(x is y for x, y in zip(args, e.args, strict=True)) else Expr(e.op, e.dtype, args, e.value)

    def _by_column(self, e: Expr) -> bool:
        c = self.p.c
        stages = {s.name for s in c.program.stages}
        reads = e.loads()
        return (
            bool(reads)
            and not any(str(x.value) in stages for x in reads)
            and not any(x.op == "var" for x in e.walk())
            and not e.axes() & set(c.m.axes)
        )

    def _table_axes(self, axes: tuple[str, ...]) -> list[Expr]:
        c = self.p.c
        return [axis(a) for a in axes if a in c.batch.axes or a in c.n.axes]

    @property
    def columns(self) -> int:
        """Elements of one table: one for every outer position and column."""
        return self.p.c.batch.size * self.p.c.n.size

    def _table_position(self) -> Linear:
        c = self.p.c
        coef: dict[str, int] = {}
        step = 1
        for group in (c.n, c.batch):
            for a, e in zip(reversed(group.axes), reversed(group.extents), strict=True):
                coef[a] = step
                step *= e
        return Linear(0, coef)

    def table_text(self) -> str:
        """C function that fills the tables."""
        if not self.tables:
            return ""
        p, c = self.p, self.p.c
        axes = axis_texts(p, n="n")
        lines = [
            "TW_NOINLINE void fill_tables(const Ctx *x) {" + sizes(p),
            f" for(long o=0;o<{c.batch.size_text};o++) for(long n=0;n<{c.n.size_text};n++) {{ (void)o;",
            outer_names(p),
        ]
        for number, e in enumerate(self.tables):
            text = scalar_text(p, e, axes)
            lines.append(f"  x->tables[{number * int(self.columns)}L+o*{c.n.size_text}+n]=(T)({text});")
        return "\n".join([*lines, " } }"])

    # ------------------------------------------------------------------ reads

    def _read(self, x: Expr) -> None:
        p, c = self.p, self.p.c
        linear = IndexForms(frozenset(c.batch.axes))
        table = str(x.value).startswith(TABLE)
        where = self._table_position() if table else position(x, c.program.tensors[str(x.value)], linear)
        steps = [w.group.stride(where) for w in p.m_loops] if where else [None]
        n = c.n.stride(where) if where else None
        known = all(a in c.atoms for a in linear.atoms)
        name = f"e{len(self.reads) + len(self.lanes_read)}"
        if where is not None and known and None not in steps and n in (0, 1) and (p.mixed or x.dtype == c.acc):
            self.reads.append(Read(name, x, where, tuple(s or 0 for s in steps), n))
        elif p.mixed:
            self.lanes_read.append((name, x))
        else:
            self.vector = False

    @property
    def parameters(self) -> str:
        return "".join(f", const {self.p.source_type(r.load.dtype)} *{r.name}" for r in self.reads)

    @property
    def out_type(self) -> str:
        """C type of an element of the output."""
        return C_TYPES[self.p.c.output.dtype]

    @property
    def apart(self) -> bool:
        """Whether register tiles store finished sums and unfinished sums in different memory."""
        return self.inline and not self.p.c.in_place

    @property
    def registers_take(self) -> str:
        """C parameters of a register tile that applies the epilogue: pointers to read from, and to store to."""
        if not self.inline:
            return ""
        return self.parameters + (f", {self.out_type} *d" if self.apart else "")

    def base(self, r: Read) -> str:
        """C text of the pointer to a read's first element, for the outer position in ``o_<axis>`` and the chunk."""
        p, c = self.p, self.p.c
        name = str(r.load.value)
        if name.startswith(TABLE):
            start = f"x->tables+{int(name.removeprefix(TABLE)) * int(self.columns)}L"
        else:
            start = f"(const {p.source_type(r.load.dtype)}*){tensor_pointer(c, name)}"
        chunk = f"+x->chunk*{p.images * r.where.of(c.m.axes[0])}L" if p.chunks > 1 else ""
        return f"{start}+{form(r.where, outer_texts(c))}{chunk}"

    def arguments(self, n: str, here: str) -> str:
        """C arguments of register tile ``rb`` for its epilogue: pointers to reads from column ``n`` on, and ``here``.

        ``here``: the address where the tile is stored. The text reads ``l<d>``.
        """
        if not self.inline:
            return ""
        reads = "".join(f",{r.name}+{along_m(r.m)}+{r.n}L*({n})" for r in self.reads)
        return reads + (f",{here}" if self.apart else "")

    def _row(self, r: Read, row: int) -> int:
        line, along = self.p.place(row)
        return line * (r.m[-2] if line else 0) + along * r.m[-1]

    # ------------------------------------------------------------------ values

    def result(self, acc: str) -> str:
        """C name of the final vector that :meth:`values` computes from ``acc``."""
        return f"f{len(self.chain) - 1}" if self.p.mixed and self.chain else acc

    def _stored(self, at: str, acc: str) -> str:
        """C arguments of a store of the final vector at an address."""
        value = self.result(acc)
        return f"(unsigned short*)({at}),{self.p.rounds}({value})" if self.p.rounds else f"{at},{value}"

    def _vector_type(self, dtype: str) -> str:
        return "V" if dtype == self.p.c.acc else f"tw::vec<{computed(dtype)},L>"

    def _same(self, r: Read, at: str) -> str:
        """C text of one element broadcast to every lane."""
        one = f"tw::widen(*({at}))" if r.load.dtype in NARROWED else f"*({at})"
        return f"tw::splat<{self._vector_type(r.load.dtype)}>({one})"

    def values(self, acc: str, read: dict[str, str]) -> list[str]:
        """Statements that compute the final vector from the sums in ``acc``. ``read``: C text of every read."""
        out: list[str] = []
        names = {self.p.c.stage.name: acc}

        def fresh(kind: str) -> str:
            return f"{kind}{len(out)}"

        for number, (stage, e) in enumerate(self.chain):
            texts = {"l0": acc}

            def name_reads(x: Expr, texts: dict[str, str] = texts) -> Expr | None:
                # Reads become variables, because their C text is a vector already.
                if x.op != "load":
                    return None
                texts[repr(x)] = names.get(str(x.value)) or read[repr(x)]
                return Expr("var", x.dtype, (), repr(x))

            renamed = e.map(name_reads)
            final = number == len(self.chain) - 1
            names[stage] = f"f{number}"
            if self.p.mixed:
                printer = Printer({}, var=texts, lanes=self.p.lanes, varying=frozenset(texts))
                printer.bind((renamed,), out.append, fresh)
                out.append(f"const auto f{number}={printer.text(renamed)};")
                continue
            text = var_text(renamed, texts, self.p.lanes)
            out.append(f"{acc}={text};" if final else f"const V f{number}={text};")
        return out

    def registers(self, rows: int, vectors: int, tail: bool) -> str:
        """The epilogue on the accumulators ``c<i>_<j>`` of a register tile, one column of vectors after another."""
        p, lanes = self.p, self.p.lanes
        out = []
        for j in range(vectors):
            out.append("  {")
            texts = {}
            for r in self.reads:
                by_row = any(r.m)
                for i in range(rows):
                    name = f"{r.name}_{i if by_row else 0}"
                    texts[i, repr(r.load)] = name
                    if not by_row and i:
                        continue
                    at, kind = f"{r.name}+{ctext(self._row(r, i) + r.n * j * lanes)}", self._vector_type(r.load.dtype)
                    if r.n == 0:
                        read = self._same(r, at)
                    elif tail and j == vectors - 1:
                        read = f"(tail=={lanes}?tw::load<{kind}>({at}):tw::load_n<{kind}>({at},tail))"
                    else:
                        read = f"tw::load<{kind}>({at})"
                    out.append(f"  const {kind} {name}={read};")
            for i in range(rows):
                read_text = {repr(r.load): texts[i, repr(r.load)] for r in self.reads}
                lines = self.values(f"c{i}_{j}", read_text)
                if self.apart:
                    at = f"d+{ctext(p.row_out(i))}+{ctext(j * lanes * p.c.n_step)}"
                    lines.append(self._store(at, f"c{i}_{j}", "tail" if tail and j == vectors - 1 else "", "tail==L"))
                elif p.mixed:
                    lines.append(f"c{i}_{j}={self.result(f'c{i}_{j}')};")
                out.append("  { " + " ".join(lines) + " }")
            out.append("  }")
        if self.apart:
            out.append("  return;")
        return "\n".join(out)

    def tile_pass(self) -> str:
        """C function ``finish``: applies the epilogue to ``rows`` x ``cols`` sums at ``s`` and stores them at ``d``.

        The rows lie along the innermost loop over M, from the fused position ``m0`` on. The last arguments point to
        the reads of the first row.
        """
        p, c, out_type = self.p, self.p.c, self.out_type
        row, step = ctext(p.m_loops[-1].other), ctext(c.n_step)
        head = (
            "TW_NOINLINE void finish(const Ctx *x, long o, long m0, long n0, long rows, long cols, "
            f"const T *s, long lds, {out_type} *d{self.parameters if self.vector else ''}) {{\n"
            " (void)x; (void)o; (void)m0; (void)n0;\n"
        )
        lines = [head + sizes(p), outer_names(p)]
        if self.vector:
            # Reads that do not depend on the row are loaded once for a column of vectors.
            lines.append(" for(long j=0;j<cols;j+=L) { const long n=cols-j;")
            read = {}
            for every_row in (True, False):
                for r in self.reads:
                    if every_row == any(r.m):
                        continue
                    at, kind = (
                        f"{r.name}+{ctext(r.m[-1])}*{'0' if every_row else 'i'}+{r.n}L*j",
                        self._vector_type(r.load.dtype),
                    )
                    text = f"(n>=L?tw::load<{kind}>({at}):tw::load_n<{kind}>({at},n))"
                    lines.append(f"  const {kind} {r.name}_={self._same(r, at) if r.n == 0 else text};")
                    read[repr(r.load)] = f"{r.name}_"
                if every_row:
                    lines.append("  for(long i=0;i<rows;i++) {")
                    lines.append("  V v=n>=L?tw::load<V>(s+i*lds+j):tw::load_n<V>(s+i*lds+j,n);")
            axes = axis_texts(p, m="(m0+i)", n="(n0+j+l)")
            for name, x in self.lanes_read:
                each = f"{name}_[l]={scalar_read(p, x, axes)};"
                lines.append(f"  {self._vector_type(x.dtype)} {name}_={{}}; for(long l=0;l<tw::imin(n,L);l++) {each}")
                read[repr(x)] = f"{name}_"
            lines += ["  " + t for t in self.values("v", read)]
            if c.n_step == 1:
                lines.append(f"  {out_type} *q=d+i*{row}+j; {self._store('q', 'v', 'n', 'n>=L')} }} }}")
            else:
                lines.append(f"  {self._store(f'd+i*{row}+j*{step}', 'v', 'n', '')} }} }}")
        else:
            lines += self._scalar_pass(out_type, f"{row}+j*{step}")
        lines.append("}")
        return "\n".join(lines)

    def _store(self, at: str, acc: str, count: str, whole: str) -> str:
        """Statement that stores the final vector: its first ``count`` lanes, all where ``whole`` holds."""
        if (step := self.p.c.n_step) != 1:
            some = f",tw::imin({count},L)" if count else ""
            return f"tw::store_step({at},{ctext(step)},{self.result(acc)}{some});"
        stored = self._stored(at, acc)
        return (
            f"if({whole}) tw::store({stored}); else tw::store_n({stored},{count});"
            if count
            else f"tw::store({stored});"
        )

    def pass_arguments(self, line: int, n: str) -> str:
        """C arguments of ``finish`` for one line of register tile ``rb``: pointers to the reads."""
        if not self.vector:
            return ""
        down = [ctext(line * (r.m[-2] if line else 0)) for r in self.reads]
        return "".join(f",{r.name}+{along_m(r.m)}+{to}+{r.n}L*({n})" for r, to in zip(self.reads, down, strict=True))

    def _scalar_pass(self, out_type: str, place: str) -> list[str]:
        p, c = self.p, self.p.c
        axes = axis_texts(p, m="m", n="n")
        table = self._table_position()
        lines = [" for(long i=0;i<rows;i++) for(long j=0;j<cols;j++) { const long m=m0+i,n=n0+j; (void)m; (void)n;"]
        names, dtypes = {c.stage.name: "v"}, {name: dtype for name, dtype, _ in c.chain}
        lines.append("  const T v=s[i*lds+j];")
        last = "v"

        def read(y: Expr) -> str:
            name = str(y.value)
            if name in names:
                return names[name]
            if name.startswith(TABLE):
                return f"x->tables[{int(name.removeprefix(TABLE)) * int(self.columns)}L+{form(table, axes)}]"
            return scalar_read(p, y, axes)

        for number, (stage, e) in enumerate(self.chain):
            text = print_expr(e, axis=axes, load=read, var={"l0": "v"}, lanes=None)
            ctype = "float" if dtypes[stage] in NARROWED else C_TYPES[dtypes[stage]]
            last = f"f{number}"
            lines.append(f"  const {ctype} {last}=({ctype})({text});")
            names[stage] = last
        if c.output.dtype in NARROWED:
            lines.append(f"  tw::narrow(*(d+i*{place}),{last}); }}")
        else:
            lines.append(f"  *(d+i*{place})=({out_type}){last}; }}")
        return lines
