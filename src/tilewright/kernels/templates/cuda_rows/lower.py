"""Source of a row program: passes over the columns, merges of partial results between them, and kept values.

Every thread reads only values that it has kept itself, so only partial results of reductions need barriers. Threads
beyond the last row compute the last row again and store nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.kernels.codegen import integers
from tilewright.kernels.codegen.printer import computed
from tilewright.kernels.expression.expr import SIXTEEN, Expr, cast
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.flatten import unconditional
from tilewright.kernels.families.row_reduction import ELEMENT, REDUCTION, SCALAR, RowStage
from tilewright.kernels.templates.cuda import sizes
from tilewright.kernels.templates.cuda.grid import WARP, fused
from tilewright.kernels.templates.cuda.kernels import evaluated
from tilewright.kernels.templates.cuda.runs import Run
from tilewright.kernels.templates.cuda.text import (
    DevicePrinter,
    Names,
    declarations,
    digits,
    from_storage,
    printer,
    stored,
    to_storage,
)
from tilewright.kernels.templates.cuda.vectors import Vector
from tilewright.kernels.templates.cuda_rows.plan import Item, RowTiling


class Statements:
    """Prints the kernels of one tiling."""

    def __init__(self, p: RowTiling) -> None:
        self.p, self.r, self.a = p, p.r, p.analysis
        self.flat = Program(tuple(self.r.tensors[t.name] for t in self.r.program.inputs), ())
        self.rows, self.cols, self.run = self.r.row_axes, self.r.column_axes, Run(self.r.columns)
        self.row_reads = self._row_reads()
        self.ragged = self.r.width % p.span != 0
        self.height = integers.text(sizes.expression(self.r.height))
        self.used = set[str]()

    # ------------------------------------------------------------------ values

    def printer(
        self, exprs: tuple[Expr, ...], var: Mapping[str, str], reads: Mapping[int, str], base: bool = False
    ) -> DevicePrinter:
        """A printer over this kernel's names; ``base``: for positions of a thread's first column in an iteration."""
        names = {a: a for a in self.rows} | {a: f"{a}b" if base else a for a in self.cols}
        scalars = {s.name: s.name for s in self.r.stages if s.kind != ELEMENT}
        texts = Names({**scalars, **var}, self.used)
        made = printer(self.flat, self.r.extents, Names(names, self.used), texts, exprs, partial(self._held, reads))
        # Approximate functions have 22 bits, and 16-bit results need 11 or 8. An accurate exp of 25 instructions takes
        # longer than memory.
        made.approximate = all(t.dtype in SIXTEEN for t in self.r.program.outputs)
        return made

    def _held(self, reads: Mapping[int, str], e: Expr) -> str | None:
        """The text of a read whose value a variable holds, or ``None``."""
        name = reads.get(self.a.numbers.of(e))
        return None if name is None else self._use(name)

    def _use(self, name: str) -> str:
        """Marks a variable as used and returns its name."""
        self.used.add(name)
        return name

    def index(self, e: Expr, base: bool = False) -> str:
        """Text of an index or of a read."""
        return self.printer((e,), {}, {}, base).scalar(e)

    def _row_reads(self) -> dict[int, tuple[str, Expr]]:
        """Reads that do not depend on the column: each is made once a row."""
        found: dict[int, tuple[str, Expr]] = {}
        for values in self.a.passes:
            for _, exprs in values:
                for e in exprs:
                    for x in unconditional(e):
                        if not x.axes() & set(self.cols):
                            found.setdefault(self.a.numbers.of(x), (f"w{len(found)}", x))
        return found

    # ------------------------------------------------------------------ the kernel

    def body(self) -> str:
        """Statements of the kernel with all passes."""
        p, r = self.p, self.r
        text = self._arrays() + self._scalars(0)
        last = max(r.level[s.name] for s in r.stages if s.kind == REDUCTION)
        for number in range(r.passes):
            text += self._pass(number) + ("" if p.merged else self._scalars(number + 1))
            if number == last and p.cluster > 1:
                text += "    tw::cluster_publish();\n"  # this block has read all other blocks' results
        if p.merged:
            text += self._put(self._first(p.grid.ragged))
        elif r.result.kind != ELEMENT:
            inside = self._first(p.grid.ragged)
            text += self._last(f"{inside} && {self._use('piece')} == 0" if p.cluster > 1 else inside)
        if p.cluster > 1:
            text += "    tw::cluster_wait();\n"  # other blocks may still read this block's results
        memory = "    TW_SHARED(smem);\n" if p.memory.bytes else ""
        return f"    (void)ws; (void)out;\n{memory}{self._placed(self._with_row(text))}"

    def _first(self, ragged: bool) -> str:
        """The condition that a thread is its row's first one and, where rows may be ``ragged``, that the row exists."""
        return f"{self._use('lane')} == 0" + (f" && {self._use('place')} < {self.height}" if ragged else "")

    def _placed(self, text: str) -> str:
        """Statements behind the declarations of a thread's indices: in its row, its row's in the block, and the row."""
        p, tid, block = self.p, "(int)threadIdx.x", "(int)blockIdx.x"
        counts = {"lane": p.lanes, "group": p.groups}
        low = "group" if p.order == "rows" else "lane"
        places = {n: f"{tid} {'%' if n == low else '/'} {counts[low]}" for n in counts}
        if 1 in counts.values():
            places = {n: tid if count > 1 else "0" for n, count in counts.items()}
        piece = f"{block} % {p.pieces}"
        block = block if p.pieces == 1 else f"{block} / {p.pieces}"
        place = f"{block} * {p.groups} + group" if p.groups > 1 else block
        row = p.grid.clamped("place") if p.grid.ragged else place
        if "row" in self.used and p.grid.ragged:
            self.used.add("place")
        if p.groups > 1 and self.used & {"row", "place"}:
            self.used.add("group")
        return declarations({**places, "place": place, "row": row, "piece": piece}, self.used) + text

    def _with_row(self, text: str) -> str:
        """Statements behind the declarations of the row's axes and of the reads that do not depend on the column."""
        reads = [(name, x) for name, x in self.row_reads.values() if name in self.used]
        text = "".join(f"    const {computed(x.dtype)} {name} = {self.index(x)};\n" for name, x in reads) + text
        return declarations(digits(dict(self.r.rows), "row"), self.used, "row") + text

    def _last(self, inside: str) -> str:
        """The store of a result that has one value a row."""
        result, at = self.r.result, self.index(self.r.where.expr())
        return f"    if ({inside}) tw::store_global(out + ({at}), {to_storage(result.dtype, result.name)});\n"

    # rows split among blocks

    def _partial(self, component: int) -> str:
        """Text of the workspace address of a component's partial results, in the order (row, piece)."""
        acc = self.p.accumulators(self.p.reduction)
        before = sizes.times(component * acc.slot * self.p.pieces, sizes.expression(self.r.height)) if component else 0
        at = str(before) if isinstance(before, int) else integers.wide(before)
        return f"({acc.types[component]} *)(ws{f' + {at}' if before else ''})"

    def _put(self, inside: str) -> str:
        acc, place = (
            self.p.accumulators(self.p.reduction),
            f"{self._use('row')} * {self.p.pieces} + {self._use('piece')}",
        )
        stores_ = "".join(
            f"        tw::store_global({self._partial(n)} + {place}, {x});\n" for n, x in enumerate(acc.names)
        )
        return f"    if ({inside}) {{\n{stores_}    }}\n"

    def combined(self) -> str:
        """Statements of the second kernel: a warp merges the pieces of a row."""
        p = self.p
        acc = p.accumulators(p.reduction)
        place = f"{self._use('row')} * {p.pieces} + k"
        reads = acc.read(lambda n, t: f"tw::load_global<{t}>({self._partial(n)} + {place})", "        ")
        text = acc.start("    ") + f"    for (int k = {self._use('lane')}; k < {p.pieces}; k += {WARP}) {{\n{reads}"
        text += acc.combine(acc.others, "        ") + "    }\n" + acc.across(WARP, "    ")
        text += self._final(p.reduction) + self._scalars(1) + self._last(self._first(True))
        grid = p.combining
        places = {
            "lane": f"(int)threadIdx.x % {WARP}", "place": grid.shared_place(), "row": grid.clamped("place"),
        }  # fmt: skip
        text = self._with_row(text)
        if "row" in self.used:
            self.used.add("place")
        return declarations(places, self.used) + text

    def _arrays(self) -> str:
        if self.p.keep != "registers":
            return ""
        shape = f"[{self.p.rounds}][{self.p.vector}]"
        return "".join(f"    {i.held} {i.name}k{shape};\n" for i in self.a.items)

    def _scalars(self, level: int) -> str:
        """Scalar stages of a row that depend on the first ``level`` passes only."""
        out = ""
        for s in self.r.stages:
            if s.kind == SCALAR and self.r.level[s.name] == level:
                reads = {k: name for k, (name, _) in self.row_reads.items()}
                p = self.printer((s.body[0],), {}, reads)
                lines, (value,) = evaluated(p, (s.body[0],), "    ", f"{s.name}t")
                out += f"{lines}    const {computed(s.dtype)} {s.name} = {value};\n"
        return out

    # ------------------------------------------------------------------ one pass

    def _pass(self, number: int) -> str:
        p, values = self.p, self.a.passes[number]
        reductions = [s for s, _ in values if s.kind == REDUCTION]
        before = "".join(p.accumulators(s).start("    ") for s in reductions)
        unroll = "    TW_UNROLL\n" if p.keep == "registers" and p.rounds > 1 else ""
        inner = self._round(number, "            " if self.ragged else "        ")
        self.used |= {name for name, _ in p.columns}
        col = f"{fused(p.columns)} * {p.vector}" if p.vector > 1 else fused(p.columns)
        if self.ragged:
            inner = f"        if (col < {self.r.width}) {{\n{inner}        }}\n"
        loop = f"{unroll}    for (int k = 0; k < {p.rounds}; k++) {{\n        const int col = {col};\n{inner}    }}\n"
        return before + loop + "".join(self._merged(s) for s in reductions)

    def _merged(self, s: RowStage) -> str:
        """A reduction's value, merged of the partial results of the row's threads."""
        p, acc = self.p, self.p.accumulators(s)
        if p.order == "rows":
            text = ""
            if p.lanes > 1:
                base = _base(p.memory.at(s.name))
                text = acc.gather(
                    base, p.threads, "(int)threadIdx.x", "", self._use("group"), p.groups, p.lanes, "    "
                )
        else:
            text = acc.across(min(p.lanes, WARP), "    ")
            if p.lanes > WARP:
                warps = p.lanes // WARP
                tid = "(int)threadIdx.x"
                first = "0" if p.groups == 1 else f"{self._use('group')} * {warps}"
                text += acc.gather(
                    _base(p.memory.at(s.name)), p.slots, f"{tid} / 32", f"{tid} % 32 == 0", first, 1, warps, "    "
                )
        if p.cluster > 1:
            text += self._exchanged(s)
        return text if p.merged else text + self._final(s)

    def _exchanged(self, s: RowStage) -> str:
        """Statements that merge the results of a cluster's blocks. Every thread of a block holds its block's result."""
        p, acc = self.p, self.p.accumulators(s)
        base = _base(p.memory.at(s.name) + p.slots * acc.bytes)
        text = f"    if ((int)threadIdx.x == 0) {{\n{acc.put(base, '0', 1, '        ')}    }}\n"
        text += "    tw::cluster_publish();\n    tw::cluster_wait();\n    {\n"
        block = f"{self._use('lane')} % {p.cluster}"
        text += f"        const tw::u32 there = tw::cluster_address(tw::shared_address({base}), {block});\n"
        text += acc.read(lambda n, t: f"tw::load_cluster<{t}>(there + {n * acc.slot})", "        ")
        text += acc.take("        ")
        return f"{text}    }}\n{acc.across(p.cluster, '    ')}"

    def _final(self, s: RowStage) -> str:
        """A reduction's value, from its accumulators."""
        acc = self.p.accumulators(s)
        assert s.monoid is not None
        value = cast(s.monoid.finish, s.dtype)
        printed = self.printer((value,), acc.var, {})
        lines, (final,) = evaluated(printed, (value,), "    ", f"{s.name}f")
        return f"{lines}    const {computed(s.dtype)} {s.name} = {final};\n"

    def _round(self, number: int, pad: str) -> str:
        """Statements of one iteration of a pass: a thread's work on ``vector`` columns."""
        p, r = self.p, self.r
        self.used -= {"c", *self.cols, *(f"{a}b" for a in self.cols)}  # names of the previous pass
        v = Vector(self.run, p.vector, pad)
        reads = {k: name for k, (name, _) in self.row_reads.items()}
        for key, x in self.a.reads(number).items():
            item = self.a.read_items.get(key)
            if (item is not None and item.first < number) or (item is None and v.width(x) == 1):
                continue
            reads[key] = name = item.name if item is not None else f"q{len(reads)}"
            packed = v.width(x) > 1
            text = v.packed(x, f"{name}p", partial(self.index, base=True)) if packed else self.index(x)
            v.line(f"const {computed(x.dtype)} {name} = {text};")
        kept: dict[str, str] = {}
        for item in self.a.items:
            first, text = item.first == number, f"{item.name}k[k][{v.j}]"
            if not first and not (item.first < number and self.a.reads_item(item, number)):
                continue
            if p.in_shared:
                width, access = p.kept_width(item), v.stored if first else v.loaded
                name = f"{item.name}{'o' if first else 'p'}"
                text = access(name, item.store, width, self._kept(item), "shared", p.lanes * width)
            if first:
                kept[item.name] = text
                continue
            if p.in_shared and self._is_read(item):
                text = from_storage(item.value.dtype, text)
            v.line(f"const {item.held} {item.name} = {text};")
            reads |= {k: i.name for k, i in self.a.read_items.items() if i is item}
        self._keep(v, kept, reads=True)
        self._values(v, number, reads)
        self._keep(v, kept, reads=False)
        axes = declarations(digits(dict(r.columns), "c" if p.vector > 1 else "col"), self.used, "c", v.inner)
        column = declarations({"c": "col + j"}, self.used, pad=v.inner) if p.vector > 1 else ""
        v.within = f"{column}{axes}{v.within}"
        bases = digits({f"{a}b": n for a, n in r.columns}, "col")
        return declarations(bases, self.used, pad=pad) + v.text()

    def _is_read(self, item: Item) -> bool:
        """Whether a kept value is a read of an input."""
        return item.name not in self.a.stage_items

    def _kept(self, item: Item) -> str:
        """Text of the shared-memory address of a thread's kept values of an iteration."""
        p = self.p
        width = p.kept_width(item)
        across = p.lanes * width
        if p.order == "rows":
            at = ["(int)threadIdx.x", f"k * {p.threads}"]
        else:
            at = [self._use("lane") + (f" * {width}" if width > 1 else "")] if p.lanes > 1 else []
            if p.rounds > 1:
                at.append(f"k * {p.vector // width * across}")
            if p.groups > 1:
                at.append(f"{self._use('group')} * {p.kept_stride(item)}")
        return f"({item.store} *)({_base(p.memory.at(p.places[item.name].name))}) + {' + '.join(at) or '0'}"

    def _keep(self, v: Vector, kept: Mapping[str, str], reads: bool) -> None:
        """Stores values that this pass is the first to read (or to compute) at the places in ``kept``."""
        for item in self.a.items:
            if item.name in kept and self._is_read(item) == reads:
                stored_ = reads and self.p.in_shared
                value = to_storage(item.value.dtype, item.name) if stored_ else item.name
                v.line(f"{kept[item.name]} = {value};")

    def _values(self, v: Vector, number: int, reads: Mapping[int, str]) -> None:
        """Computes, folds and stores the values of the pass."""
        p, r = self.p, self.r
        var = {i.name: i.name for i in self.a.stage_items.values()}
        for s, exprs in self.a.passes[number]:
            final = s is r.result and s.kind == ELEMENT
            printed = tuple(stored(e, s.dtype) for e in exprs) if final else exprs
            lines, texts = evaluated(self.printer(printed, var, reads), printed, v.inner, f"{s.name}e")
            if s.kind == REDUCTION:
                v.within += p.accumulators(s).fold(lines, texts, v.inner)
                continue
            v.within += lines
            if final:
                guard = f"if ({self._use('place')} < {self.height}) " if p.grid.ragged else ""
                v.store(r.where, s.dtype, texts[0], partial(self.index, r.where.expr()), guard)
            else:
                v.line(f"const {self.a.stage_items[s.name].held} {s.name} = {texts[0]};")


def _base(offset: int) -> str:
    return f"smem + {offset}" if offset else "smem"
