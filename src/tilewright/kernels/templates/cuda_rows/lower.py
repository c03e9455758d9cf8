"""Source of a row program: passes over the columns, merged results between them, what is kept in place.

Every thread reads what it has kept itself, so only partial results of reductions need barriers. Threads
beyond the last row compute it again and store nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core import Launch
from tilewright.kernels.expression.expr import ITEMSIZE, Expr, cast
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.flatten import linear, unconditional
from tilewright.kernels.families.row_reduction import ELEMENT, REDUCTION, SCALAR, RowStage
from tilewright.kernels.templates.cuda.kernels import declared, digits, evaluated, stored
from tilewright.kernels.templates.cuda.text import (
    STORAGE,
    DevicePrinter,
    computed,
    from_storage,
    mentioned,
    parameters,
    printer,
    to_storage,
)
from tilewright.kernels.templates.cuda.vectors import element, pack, packs, stores
from tilewright.kernels.templates.cuda_rows.plan import WARP, Item, Plan, pack_width
from tilewright.kernels.templates.tiles import ceildiv

COMBINED = 128
"""Threads of a block that merges the pieces of rows."""


def source(p: Plan, symbol: str) -> str:
    """C++ that follows the prelude."""
    return _Kernel(p).source(symbol)


def combining(p: Plan, symbol: str) -> Launch:
    """The second launch of rows in pieces."""
    blocks = ceildiv(p.r.height, COMBINED // WARP)
    return Launch(f"{symbol}_combine", grid=(blocks, 1, 1), block=(COMBINED, 1, 1))


class _Kernel:
    """Prints one plan."""

    def __init__(self, p: Plan) -> None:
        self.p, self.r, self.a = p, p.r, p.analysis
        self.flat = Program(tuple(self.r.tensors[t.name] for t in self.r.program.inputs), ())
        self.rows, self.cols = self.r.row_axes, self.r.column_axes
        self.row_reads = self._row_reads()
        self.ragged_rows = self.r.height % p.groups != 0
        self.ragged = self.r.width % p.span != 0

    # ------------------------------------------------------------------ values

    def printer(
        self, exprs: tuple[Expr, ...], var: Mapping[str, str], reads: Mapping[int, str], base: bool = False
    ) -> DevicePrinter:
        """A printer over this kernel's names; ``base``: of positions of a thread's first column of a round."""
        names = {a: a for a in self.rows} | {a: f"{a}b" if base else a for a in self.cols}
        scalars = {s.name: s.name for s in self.r.stages if s.kind != ELEMENT}
        return printer(
            self.flat, self.r.extents, names, {**scalars, **var}, exprs, lambda e: reads.get(self.a.numbers.of(e))
        )

    def _row_reads(self) -> dict[int, tuple[str, Expr]]:
        """Reads that every column makes alike: they are made once."""
        found: dict[int, tuple[str, Expr]] = {}
        for values in self.a.passes:
            for _, exprs in values:
                for e in exprs:
                    for x in unconditional(e):
                        if not x.axes() & set(self.cols):
                            found.setdefault(self.a.numbers.of(x), (f"w{len(found)}", x))
        return found

    # ------------------------------------------------------------------ the kernel

    def source(self, symbol: str) -> str:
        p, r = self.p, self.r
        text = self._arrays() + self._scalars(0)
        for number in range(r.passes):
            text += self._pass(number) + (self._scalars(number + 1) if p.pieces == 1 else "")
        inside = f"lane == 0 && place < {r.height}" if self.ragged_rows else "lane == 0"
        if p.pieces > 1:
            text += self._put(inside)
        elif r.result.kind != ELEMENT:
            text += self._last(inside)
        body = self._with_row(text)
        tid = "(int)threadIdx.x"
        if p.order == "rows":
            places = {"lane": f"{tid} / {p.groups}", "group": f"{tid} % {p.groups}"}
        else:
            places = {"lane": f"{tid} % {p.lanes}", "group": f"{tid} / {p.lanes}"}
        if p.lanes == 1:
            places = {"lane": "0", "group": tid}
        elif p.groups == 1:
            places = {"lane": tid, "group": "0"}
        block = "(int)blockIdx.x" if p.pieces == 1 else f"(int)blockIdx.x / {p.pieces}"
        place = f"{block} * {p.groups} + group" if p.groups > 1 else block
        places |= {"place": place, "row": f"place < {r.height} ? place : {r.height - 1}" if self.ragged_rows else place}
        places["piece"] = f"(int)blockIdx.x % {p.pieces}"
        shared = "    TW_SHARED(smem);\n" if p.shared_bytes else ""
        head = f"TW_KERNEL({p.threads}, 1) void {symbol}({parameters(r.program)}) {{\n    (void)ws; (void)out;\n"
        main = f'#line 1 "kernel"\n{head}{shared}{_named(places, body)}{body}}}\n'
        return main if p.pieces == 1 else main + self._combine(symbol)

    def _with_row(self, text: str) -> str:
        """Statements behind the declarations of the row's axes and of what all its columns read."""
        reads = {name: self.printer((x,), {}, {}).scalar(x) for name, x in self.row_reads.values()}
        types = {name: _held(x.dtype) for name, x in self.row_reads.values()}
        text = "".join(f"    const {types[n]} {n} = {reads[n]};\n" for n in mentioned(text, *reads)) + text
        return declared(digits(self.rows, [n for _, n in self.r.rows], "row", False), text, False, "    ") + text

    def _last(self, inside: str) -> str:
        """The store of a result that is one value a row."""
        result, where = self.r.result, self.r.where.expr()
        at = self.printer((where,), {}, {}).scalar(where)
        return f"    if ({inside}) tw::store_global(out + ({at}), {to_storage(result.dtype, result.name)});\n"

    # ------------------------------------------------------------------ rows in pieces

    def _partial(self, component: int) -> str:
        """Text of where the pieces' results of a component lie: rows of pieces."""
        acc = self.p.accumulators(self.p.reduction)
        at = component * acc.slot * self.r.height * self.p.pieces
        return f"({acc.types[component]} *)(ws{f' + {at}' if at else ''})"

    def _put(self, inside: str) -> str:
        acc = self.p.accumulators(self.p.reduction)
        stores_ = "".join(
            f"        tw::store_global({self._partial(n)} + row * {self.p.pieces} + piece, {x});\n"
            for n, x in enumerate(acc.names)
        )
        return f"    if ({inside}) {{\n{stores_}    }}\n"

    def _combine(self, symbol: str) -> str:
        """The second kernel: a warp merges the pieces of a row."""
        p, r = self.p, self.r
        acc = p.accumulators(p.reduction)
        others = [f"{acc.name}o{n}" for n in range(acc.parts)]
        reads = "".join(
            f"        const {t} {o} = tw::load_global<{t}>({self._partial(n)} + row * {p.pieces} + k);\n"
            for n, (t, o) in enumerate(zip(acc.types, others, strict=True))
        )
        text = acc.start("    ") + f"    for (int k = lane; k < {p.pieces}; k += {WARP}) {{\n{reads}"
        text += acc.combine(others, "        ") + "    }\n" + acc.across(WARP, "    ")
        text += self._final(p.reduction) + self._scalars(1) + self._last(f"lane == 0 && place < {r.height}")
        body = self._with_row(text)
        places = {
            "lane": f"(int)threadIdx.x % {WARP}",
            "place": f"(int)blockIdx.x * {COMBINED // WARP} + (int)threadIdx.x / {WARP}",
            "row": f"place < {r.height} ? place : {r.height - 1}",
        }
        head = f"TW_KERNEL({COMBINED}, 1) void {symbol}_combine({parameters(r.program)}) {{\n"
        return f"{head}{_named(places, body)}{body}}}\n"

    def _arrays(self) -> str:
        if self.p.keep != "registers":
            return ""
        shape = f"[{self.p.rounds}][{self.p.vector}]"
        return "".join(f"    {i.held} {i.name}k{shape};\n" for i in self.a.items)

    def _scalars(self, level: int) -> str:
        """Values of a row that are known once ``level`` passes are done."""
        out = ""
        for s in self.r.stages:
            if s.kind == SCALAR and self.r.level[s.name] == level:
                reads = {k: name for k, (name, _) in self.row_reads.items()}
                p = self.printer((s.body[0],), {}, reads)
                lines, (value,) = evaluated(p, (s.body[0],), "    ", f"{s.name}t")
                out += f"{lines}    const {_held(s.dtype)} {s.name} = {value};\n"
        return out

    # ------------------------------------------------------------------ one pass

    def _pass(self, number: int) -> str:
        p, values = self.p, self.a.passes[number]
        reductions = [s for s, _ in values if s.kind == REDUCTION]
        before = "".join(p.accumulators(s).start("    ") for s in reductions)
        unroll = "    TW_UNROLL\n" if p.keep == "registers" and p.rounds > 1 else ""
        inner = self._round(number, "            " if self.ragged else "        ")
        col = "(k * {0} + lane)" if p.rounds > 1 else "lane"
        col = col.format(p.lanes) if p.lanes > 1 else "k" if p.rounds > 1 else "0"
        if p.pieces > 1:
            col = f"((piece * {p.rounds} + k) * {p.lanes} + lane)" if p.lanes > 1 else f"(piece * {p.rounds} + k)"
        col = f"{col} * {p.vector}" if p.vector > 1 else col
        if self.ragged:
            inner = f"        if (col < {self.r.width}) {{\n{inner}        }}\n"
        loop = f"{unroll}    for (int k = 0; k < {p.rounds}; k++) {{\n        const int col = {col};\n{inner}    }}\n"
        return before + loop + "".join(self._merged(s) for s in reductions)

    def _merged(self, s: RowStage) -> str:
        """A reduction's value, from the partial results of the row's threads."""
        p, acc = self.p, self.p.accumulators(s)
        if p.order == "rows":
            text = ""
            if p.lanes > 1:
                base = _base(p.slot_bytes[s.name])
                text = acc.gather(base, p.threads, "(int)threadIdx.x", "", "group", p.groups, p.lanes, "    ")
        else:
            text = acc.across(min(p.lanes, WARP), "    ")
            if p.lanes > WARP:
                warps = p.lanes // WARP
                tid = "(int)threadIdx.x"
                first = "0" if p.groups == 1 else f"group * {warps}"
                text += acc.gather(
                    _base(p.slot_bytes[s.name]), p.slots, f"{tid} / 32", f"{tid} % 32 == 0", first, 1, warps, "    "
                )
        return text if p.pieces > 1 else text + self._final(s)

    def _final(self, s: RowStage) -> str:
        """A reduction's value, from its accumulators."""
        acc = self.p.accumulators(s)
        assert s.monoid is not None
        value = cast(s.monoid.finish, s.dtype)
        printed = self.printer((value,), acc.var, {})
        lines, (final,) = evaluated(printed, (value,), "    ", f"{s.name}f")
        return f"{lines}    const {_held(s.dtype)} {s.name} = {final};\n"

    def _round(self, number: int, pad: str) -> str:
        """What a thread does with the columns that it takes at once."""
        p, r = self.p, self.r
        reads = {k: name for k, (name, _) in self.row_reads.items()}
        before, locals_, after = "", "", ""
        inner = pad + "    " if p.vector > 1 else pad
        here = self.a.reads(number)
        for key, x in here.items():
            item = self.a.read_items.get(key)
            if item is not None and item.first < number:
                continue
            where = linear(x.args[0])
            width = pack_width(where, r, p.vector, ITEMSIZE[x.dtype])
            if width == 1 and item is None:
                continue
            name = item.name if item is not None else f"q{len(reads)}"
            if width > 1:
                at = self.printer(x.args, {}, {}, base=True).scalar(x.args[0])
                kind = STORAGE[x.dtype]
                before += packs(
                    f"{name}p",
                    kind,
                    width,
                    p.vector,
                    pad,
                    f"tw::load_global<tw::pack<{kind}, {width}>>({x.value} + ({at})",
                    ")",
                )
                text = from_storage(x.dtype, element(f"{name}p", width, p.vector))
            else:
                text = self.printer((x,), {}, {}).scalar(x)
            locals_ += f"{inner}const {_held(x.dtype)} {name} = {text};\n"
            reads[key] = name
        for item in self.a.items:
            if item.first < number and self.a.reads_item(item, number):
                if p.keep == "registers":
                    locals_ += f"{inner}const {item.held} {item.name} = {item.name}k[k][{self._j}];\n"
                else:
                    width = p.kept_width(item)
                    where_, end = f"tw::load_shared<{pack(item.store, width)}>({self._kept(item)}", ")"
                    before += packs(f"{item.name}p", item.store, width, p.vector, pad, where_, end, p.lanes * width)
                    text = element(f"{item.name}p", width, p.vector)
                    dtype = item.value.dtype
                    read = self._is_read(item)
                    locals_ += (
                        f"{inner}const {item.held} {item.name} = {from_storage(dtype, text) if read else text};\n"
                    )
                reads |= {k: i.name for k, i in self.a.read_items.items() if i is item}
            elif item.first == number and p.keep == "shared":
                width = p.kept_width(item)
                before += f"{pad}{pack(item.store, width)} {item.name}o[{p.vector // width}];\n"
                after += stores(
                    f"{item.name}o", width, p.vector, pad, f"tw::store_shared({self._kept(item)}", p.lanes * width
                )
        body = self._values(number, reads, inner)
        made = self._keep(number, inner, reads=True)
        if any(s is r.result for s, _ in self.a.passes[number]) and r.result.kind == ELEMENT:
            width = pack_width(r.where, r, p.vector, ITEMSIZE[r.result.dtype])
            if width > 1:
                place = r.where.expr()
                at = self.printer((place,), {}, {}, base=True).scalar(place)
                kind = STORAGE[r.result.dtype]
                before += f"{pad}tw::pack<{kind}, {width}> op[{p.vector // width}];\n"
                guard = self._store_guard()
                after += stores("op", width, p.vector, pad, f"{guard}tw::store_global(out + ({at})")
        text = locals_ + made + body
        axes = digits(self.cols, [n for _, n in r.columns], "c" if p.vector > 1 else "col", False)
        text = declared(axes, text, False, inner) + text
        if p.vector > 1:
            c = f"{inner}const int c = col + j;\n" if mentioned(text, "c") else ""
            text = f"{pad}TW_UNROLL\n{pad}for (int j = 0; j < {p.vector}; j++) {{\n{c}{text}{pad}}}\n"
        bases = digits([f"{a}b" for a in self.cols], [n for _, n in r.columns], "col", False)
        return declared(bases, before + after, False, pad) + before + text + after

    @property
    def _j(self) -> str:
        return "j" if self.p.vector > 1 else "0"

    def _is_read(self, item: Item) -> bool:
        """Whether a kept value is a read of an input."""
        return item.name not in self.a.stage_items

    def _kept(self, item: Item) -> str:
        """Text of the address of a thread's kept values of a round."""
        p = self.p
        width = p.kept_width(item)
        across = p.lanes * width
        at = [f"lane * {width}" if width > 1 else "lane"] if p.lanes > 1 else []
        if p.rounds > 1:
            at.append(f"k * {p.vector // width * across}")
        if p.groups > 1:
            at.append(f"group * {p.kept_stride(item)}")
        if p.order == "rows":
            at = ["(int)threadIdx.x", f"k * {p.threads}"]
        return f"({item.store} *)({_base(p.item_bytes[item.name])}) + {' + '.join(at) or '0'}"

    def _keep(self, number: int, pad: str, reads: bool) -> str:
        """Statements that keep what this pass reads first (or computes first)."""
        p, out = self.p, ""
        for item in self.a.items:
            if item.first != number or self._is_read(item) != reads:
                continue
            if p.keep == "registers":
                out += f"{pad}{item.name}k[k][{self._j}] = {item.name};\n"
            elif p.keep == "shared":
                value = to_storage(item.value.dtype, item.name) if reads else item.name
                out += f"{pad}{element(f'{item.name}o', p.kept_width(item), p.vector)} = {value};\n"
        return out

    def _values(self, number: int, reads: Mapping[int, str], pad: str) -> str:
        """Statements that compute, fold and store what the pass is for."""
        p, r = self.p, self.r
        var = {i.name: i.name for i in self.a.stage_items.values()}
        body = ""
        for s, exprs in self.a.passes[number]:
            final = s is r.result and s.kind == ELEMENT
            printed = tuple(stored(e, s.dtype) for e in exprs) if final else exprs
            lines, texts = evaluated(self.printer(printed, var, reads), printed, pad, f"{s.name}e")
            if s.kind == REDUCTION:
                body += p.accumulators(s).fold(lines, texts, pad)
            elif final:
                value = to_storage(s.dtype, texts[0])
                width = pack_width(r.where, r, p.vector, ITEMSIZE[s.dtype])
                if width > 1:
                    body += f"{lines}{pad}{element('op', width, p.vector)} = {value};\n"
                else:
                    where = r.where.expr()
                    at = self.printer((where,), {}, {}).scalar(where)
                    body += f"{lines}{pad}{self._store_guard()}tw::store_global(out + ({at}), {value});\n"
            else:
                item = self.a.stage_items[s.name]
                body += f"{lines}{pad}const {item.held} {s.name} = {texts[0]};\n"
        return body + self._keep(number, pad, reads=False)

    def _store_guard(self) -> str:
        return f"if (place < {self.r.height}) " if self.ragged_rows else ""


def _named(texts: Mapping[str, str], body: str) -> str:
    """Declarations of those names that ``body``, or a later one of them, mentions."""
    head = ""
    for name in reversed(list(texts)):
        if mentioned(head + body, name):
            head = f"    const int {name} = {texts[name]};\n" + head
    return head


def _held(dtype: str) -> str:
    """C type of a value in a variable."""
    return computed(dtype)


def _base(offset: int) -> str:
    return f"smem + {offset}" if offset else "smem"
