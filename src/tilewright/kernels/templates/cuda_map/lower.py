"""Source of a map: vectors of outputs a thread, or tiles that are filled along one axis and emptied along another."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.kernels.expression.expr import ITEMSIZE, Expr
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.flatten import linear
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
from tilewright.kernels.templates.cuda_map.plan import Plan, pack_width


def source(p: Plan, symbol: str) -> str:
    """C++ that follows the prelude."""
    return _Kernel(p).source(symbol)


class _Kernel:
    """Prints one plan."""

    def __init__(self, p: Plan) -> None:
        self.p, self.m = p, p.p
        self.flat = Program(tuple(self.m.tensors[t.name] for t in self.m.program.inputs), ())
        self.inner = self.m.inner
        self.dtype = self.m.program.output.dtype

    def source(self, symbol: str) -> str:
        text = self._tiled() if self.p.tile else self._plain()
        shared = "    TW_SHARED(smem);\n" if self.p.shared_bytes else ""
        return (
            '#line 1 "kernel"\n'
            f"TW_KERNEL({self.p.threads}, 1) void {symbol}({parameters(self.m.program)}) {{\n"
            f"    (void)ws;\n{shared}{text}}}\n"
        )

    def printer(self, exprs: tuple[Expr, ...], reads: Mapping[int, str], base: bool = False) -> DevicePrinter:
        """A printer over this kernel's names; ``base``: of a vector's first element."""
        names = {a: a for a, _ in self.m.axes}
        if base:
            names[self.inner] = self.inner + "b"
        return printer(self.flat, self.m.extents, names, {}, exprs, lambda e: reads.get(self.m.numbers.of(e)))

    # ------------------------------------------------------------------ vectors

    def _plain(self) -> str:
        p = self.p
        chunk = p.threads * p.each
        first = f"(int)blockIdx.x * {chunk} + (int)threadIdx.x"
        pad = "        " if p.each > 1 else "    "
        text = (
            f"    const int first = {first};\n    TW_UNROLL\n    for (int u = 0; u < {p.each}; u++) {{\n"
            if p.each > 1
            else ""
        )
        text += f"{pad}const int e = {f'first + u * {p.threads}' if p.each > 1 else first};\n"
        end = "break" if p.each > 1 else "return"
        if p.flat % chunk:
            text += f"{pad}if (e >= {p.flat}) {end};\n"
        if p.left:
            text += f"{pad}if (e < {p.groups}) {{\n{self._vector('e', p.vector, pad + '    ')}{pad}}} else {{\n"
            text += f"{self._vector(f'e + {p.groups * (p.vector - 1)}', 1, pad + '    ')}{pad}}}\n"
        else:
            text += self._vector("e", p.vector, pad)
        return text + ("    }\n" if p.each > 1 else "")

    def _vector(self, e: str, vector: int, pad: str) -> str:
        """Statements for the ``vector`` outputs of fused group ``e``."""
        axes = [a for a, _ in self.m.axes]
        extents = [n for _, n in self.m.axes]
        extents[-1] = max(1, extents[-1] // vector) if len(axes) > 1 else self.p.flat
        body = self._outputs(vector, pad, {})
        places = digits([*axes[:-1], "g"], extents, "e0", False)
        groups = places.pop("g")
        places[self.inner + "b"] = f"({groups}) * {vector}" if vector > 1 else groups
        text = declared(places, body, False, pad)
        start = f"{pad}const int e0 = {e};\n" if mentioned(text, "e0") else ""
        return start + text + body

    def _outputs(self, vector: int, pad: str, held: Mapping[int, str], guard: str = "") -> str:
        """Statements that compute and store ``vector`` outputs from ``<inner>b`` on; ``held`` are texts of reads.

        In those texts, ``j`` counts the outputs.
        """
        m = self.m
        reads = dict(held)
        before, locals_ = "", ""
        inner = pad + "    " if vector > 1 else pad
        for key, x in m.reads.items():
            if key in held:
                continue
            where = linear(x.args[0])
            name, kind = f"q{len(reads)}", STORAGE[x.dtype]
            width = pack_width(m, where, vector, ITEMSIZE[x.dtype])
            if width > 1:
                at = self.printer(x.args, {}, base=True).scalar(x.args[0])
                address = f"tw::load_global<{pack(kind, width)}>({x.value} + ({at})"
                before += packs(f"{name}p", kind, width, vector, pad, address, ")")
                reads[key] = from_storage(x.dtype, element(f"{name}p", width, vector))
            elif self.inner not in x.axes() and vector > 1:
                before += f"{pad}const {computed(x.dtype)} {name} = {self.printer((x,), {}).scalar(x)};\n"
                reads[key] = name
        value = stored(m.value, self.dtype)
        lines, (text,) = evaluated(self.printer((value,), reads), (value,), inner)
        width = pack_width(m, m.where, vector, self.p.item)
        where_ = m.where.expr()
        after = ""
        text = to_storage(self.dtype, text)
        if width > 1:
            at = self.printer((where_,), {}, base=True).scalar(where_)
            before += f"{pad}{pack(STORAGE[self.dtype], width)} op[{vector // width}];\n"
            body = f"{lines}{inner}{element('op', width, vector)} = {text};\n"
            after = stores("op", width, vector, pad, f"{guard}tw::store_global(out + ({at})")
        else:
            at = self.printer((where_,), {}).scalar(where_)
            body = f"{lines}{inner}{guard}tw::store_global(out + ({at}), {text});\n"
        body = locals_ + body
        if vector > 1:
            if mentioned(body, self.inner):
                body = f"{inner}const int {self.inner} = {self.inner}b + j;\n{body}"
            body = f"{pad}TW_UNROLL\n{pad}for (int j = 0; j < {vector}; j++) {{\n{body}{pad}}}\n"
        elif mentioned(body, self.inner):
            body = f"{pad}const int {self.inner} = {self.inner}b;\n{body}"
        return before + body + after

    # ------------------------------------------------------------------ tiles

    def _tiled(self) -> str:
        p, m = self.p, self.m
        across = p.across
        high, wide = p.tiles[1], p.tiles[0]
        names = [a for a, _ in p.others]
        places = digits([*names, "tw_", "th_"], [*(n for _, n in p.others), wide, high], "block", False)
        fill, base = "", 0
        tiles: dict[int, str] = {}
        for number, (key, t) in enumerate(p.turned.items()):
            tiles[key] = f"s{number}"
            kind = STORAGE[m.reads[key].dtype]
            fill += f"    {kind} *const s{number} = ({kind} *)(smem{f' + {base}' if base else ''});\n"
            base += t.bytes
        fill += self._fill(tiles)
        body = fill + "    tw::sync();\n" + self._empty(tiles, across)
        text = f"    const int {across}0 = ({places.pop('tw_')}) * {p.tile};\n"
        text += f"    const int {self.inner}0 = ({places.pop('th_')}) * {p.tile};\n"
        text = declared(places, body, False, "    ") + text
        block = "    const int block = (int)blockIdx.x;\n" if mentioned(text, "block") else ""
        return f"{block}{text}{body}"

    def _loop(self, count: int, body: str) -> str:
        """``body`` for ``e`` below ``count``, dealt to the block's threads."""
        threads = self.p.threads
        rounds = -(-count // threads)
        spare = f"        if (e >= {count}) break;\n" if count % threads else ""
        return (
            f"    TW_UNROLL\n    for (int u = 0; u < {rounds}; u++) {{\n"
            f"        const int e = (int)threadIdx.x + u * {threads};\n{spare}{body}    }}\n"
        )

    def _inside(self, axis: str) -> str:
        """A condition that a place along a tiled axis is inside, if some are not."""
        return f"{axis} < {self.m.extents[axis]}" if self.m.extents[axis] % self.p.tile else ""

    def _fill(self, tiles: Mapping[int, str]) -> str:
        """Every tile, along the axis that its read lies along."""
        p, m = self.p, self.m
        across, lanes = p.across, p.tile // p.read
        body = f"        const int row = e / {lanes}, at = e % {lanes}{f' * {p.read}' if p.read > 1 else ''};\n"
        body += f"        const int {self.inner} = {self.inner}0 + row, {across} = {across}0 + at;\n"
        tests = [t for t in (self._inside(self.inner), self._inside(across)) if t]
        inner = ""
        for key, t in p.turned.items():
            x, name = m.reads[key], tiles[key]
            kind, pad = STORAGE[x.dtype], "            "
            at = self.printer(x.args, {}).scalar(x.args[0])
            stride = t.layout.strides[0]
            read = f"tw::load_global<{pack(kind, p.read)}>({x.value} + ({at}))"
            inner += f"{pad}const {pack(kind, p.read)} v{name} = {read};\n"
            if p.read > 1:
                inner += f"{pad}TW_UNROLL\n{pad}for (int j = 0; j < {p.read}; j++) "
                inner += f"tw::store_shared({name} + row * {stride} + at + j, v{name}.v[j]);\n"
            else:
                inner += f"{pad}tw::store_shared({name} + row * {stride} + at, v{name});\n"
        test = f"if ({' && '.join(tests)}) " if tests else ""
        return self._loop(p.tile * lanes, f"{body}        {test}{{\n{inner}        }}\n")

    def _empty(self, tiles: Mapping[int, str], across: str) -> str:
        """The outputs of a tile, along their own axis."""
        p, m = self.p, self.m
        lanes = p.tile // p.vector
        body = f"        const int at = e / {lanes}, row = e % {lanes}{f' * {p.vector}' if p.vector > 1 else ''};\n"
        body += f"        const int {across} = {across}0 + at, {self.inner}b = {self.inner}0 + row;\n"
        held = {}
        j = " + j" if p.vector > 1 else ""
        for key, t in p.turned.items():
            x = m.reads[key]
            place = f"{tiles[key]} + (row{j}) * {t.layout.strides[0]} + at"
            held[key] = from_storage(x.dtype, f"tw::load_shared<{STORAGE[x.dtype]}>({place})")
        outputs = self._outputs(p.vector, "            ", held)
        tests = [
            t for t in (self._inside(across), self._inside(self.inner).replace(self.inner, self.inner + "b", 1)) if t
        ]
        test = f"if ({' && '.join(tests)}) " if tests else ""
        return self._loop(p.tile * lanes, f"{body}        {test}{{\n{outputs}        }}\n")
