"""Source of an elementwise program: vectors of outputs, or tiles that are transposed through shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.kernels.codegen import integers
from tilewright.kernels.expression.expr import Expr
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates.cuda import sizes
from tilewright.kernels.templates.cuda.grid import rounds
from tilewright.kernels.templates.cuda.kernels import evaluated
from tilewright.kernels.templates.cuda.text import (
    STORAGE,
    DevicePrinter,
    Names,
    declarations,
    digits,
    from_storage,
    printer,
    stored,
)
from tilewright.kernels.templates.cuda.vectors import Vector, pack
from tilewright.kernels.templates.cuda_map.plan import ElementwiseTiling, run

Place = tuple[str, str, str]
"""Along a tile: an axis, the name of an index along it, and the name of that index relative to the tile."""


def body(p: ElementwiseTiling) -> str:
    """The kernel's statements."""
    made = _Kernel(p)
    text = made.tiled() if p.tile else p.grid.walk(made.plain)
    memory = "    TW_SHARED(smem);\n" if p.tile else ""
    return f"    (void)ws;\n{memory}{text}"


class _Kernel:
    """Prints the kernel of one tiling."""

    def __init__(self, p: ElementwiseTiling) -> None:
        self.p, self.m = p, p.p
        self.flat = Program(tuple(self.m.tensors[t.name] for t in self.m.program.inputs), ())
        self.inner = self.m.inner
        self.dtype = self.m.program.output.dtype
        self.used = set[str]()

    def printer(self, e: Expr, reads: Mapping[int, str] | None = None, base: bool = False) -> DevicePrinter:
        """A printer over this kernel's names; ``base``: for a vector's first element."""
        names = {a: a for a, _ in self.m.axes}
        if base:
            names[self.inner] = self.inner + "b"
        return printer(
            self.flat, self.m.extents, Names(names, self.used), {}, (e,),
            lambda x: (reads or {}).get(self.m.numbers.of(x)),
        )  # fmt: skip

    def index(self, e: Expr, base: bool = False) -> str:
        """Text of an index or of a value that all elements of a vector share."""
        return self.printer(e, base=base).scalar(e)

    # ------------------------------------------------------------------ vectors

    def plain(self, pad: str) -> str:
        """Statements for a thread's position ``e``: a vector, or one element of the remainder."""
        p = self.p
        if not p.left:
            return self._vector("e", p.vector, pad)
        one, groups = f"e + {integers.text(sizes.times(p.groups, p.vector - 1))}", integers.text(p.groups)
        return (
            f"{pad}if (e < {groups}) {{\n{self._vector('e', p.vector, pad + '    ')}{pad}}} else {{\n"
            f"{self._vector(one, 1, pad + '    ')}{pad}}}\n"
        )

    def _vector(self, e: str, vector: int, pad: str) -> str:
        """Statements for the ``vector`` outputs at position ``e``."""
        self.used.clear()
        body = self._outputs(vector, pad, {})
        *outer, inner = self.p.grid.extents.items()
        # At the largest symbolic size all outputs may be one vector, and at a smaller size several elements.
        last = inner[1] if outer else max(self.p.grid.items, sizes.several(self.p.grid.positions) + 1)
        places = digits({**dict(outer), "g": last}, "e0")
        groups = places.pop("g")
        places[self.inner + "b"] = f"({groups}) * {vector}" if vector > 1 else groups
        declared = declarations(places, self.used, "e0", pad)
        return f"{declarations({'e0': e}, self.used, pad=pad)}{declared}{body}"

    def _outputs(self, vector: int, pad: str, held: Mapping[int, str]) -> str:
        """Statements that compute and store ``vector`` outputs from ``<inner>b`` on; ``held``: texts of reads.

        In those texts, ``j`` counts the outputs.
        """
        m, out = self.m, Vector(run(self.m), vector, pad)
        self.used.discard(self.inner)  # set by another position
        reads = out.reads(m.reads, held, "q", partial(self.index, base=True), "p")
        value = stored(m.value, self.dtype)
        out.within, (text,) = evaluated(self.printer(value, reads), (value,), out.inner)
        out.store(m.where, self.dtype, text, partial(self.index, m.where.expr()))
        base = self.inner + "b"
        first = f"{base} + j" if vector > 1 else base
        out.within = declarations({self.inner: first}, self.used, base, out.inner) + out.within
        return out.text()

    # ------------------------------------------------------------------ tiles

    def tiled(self) -> str:
        """Statements that fill tiles in shared memory and store the outputs from them."""
        p, m, across = self.p, self.m, self.p.across
        wide, high = p.tiles
        still = {a: n for a, n in p.others if p.still(a)}
        others = {a: n for a, n in p.others if a not in still}
        places = digits({**others, "tw_": wide, "th_": high, **still}, "block")
        shared = ""
        for name, key in zip(p.memory.regions, p.transposed, strict=True):
            kind = STORAGE[m.reads[key].dtype]
            shared += f"    {kind} *const {name} = {p.memory.pointer(name, kind)};\n"
        body = f"{shared}{self._fill()}    tw::sync();\n{self._empty()}"
        tiles = {a: places.pop(t) for a, t in ((across, "tw_"), (self.inner, "th_"))}
        starts = {f"{a}0": f"({text}) * {p.tile}" for a, text in tiles.items()}
        self.used |= starts.keys() | ({"block"} if any(text != "0" for text in tiles.values()) else set())
        declared = declarations(places, self.used, "block") + declarations(starts, self.used)
        return f"{declarations({'block': '(int)blockIdx.x'}, self.used)}{declared}{body}"

    def _thread_loop(self, slow: Place, fast: Place, vector: int, body: str) -> str:
        """A loop over a thread's elements of a tile, ``vector`` along ``fast`` at once; ``body`` runs where they
        exist."""
        p, extents = self.p, self.m.extents
        lanes = p.tile // vector
        by = f" * {vector}" if vector > 1 else ""
        names = ", ".join(f"{name} = {axis}0 + {digit}" for axis, name, digit in (slow, fast))
        tests = [f"{name} < {extents[axis]}" for axis, name, _ in (slow, fast) if extents[axis] % p.tile]
        test = f"if ({' && '.join(tests)}) " if tests else ""
        return rounds(
            p.tile * lanes, p.threads, -(-p.tile * lanes // p.threads), "(int)threadIdx.x",
            f"        const int {slow[2]} = e / {lanes}, {fast[2]} = e % {lanes}{by};\n"
            f"        const int {names};\n        {test}{{\n{body}        }}\n",
        )  # fmt: skip

    def _fill(self) -> str:
        """Fills every tile, along the axis in which its read is contiguous."""
        p, m, pad = self.p, self.m, "            "
        inner = ""
        for number, (key, t) in enumerate(p.transposed.items()):
            x, to = m.reads[key], f"s{number} + row * {t.layout.strides[0]} + at"
            kind = pack(STORAGE[x.dtype], p.read)
            inner += f"{pad}const {kind} vs{number} = "
            inner += f"tw::load_global<{kind}>({x.value} + ({self.index(x.args[0])}));\n"
            if p.read > 1:
                inner += f"{pad}TW_UNROLL\n{pad}for (int j = 0; j < {p.read}; j++) "
                inner += f"tw::store_shared({to} + j, vs{number}.v[j]);\n"
            else:
                inner += f"{pad}tw::store_shared({to}, vs{number});\n"
        return self._thread_loop((self.inner, self.inner, "row"), (p.across, p.across, "at"), p.read, inner)

    def _empty(self) -> str:
        """Computes the outputs of a tile, along the output's contiguous axis."""
        p, m = self.p, self.m
        held = {}
        j = " + j" if p.vector > 1 else ""
        for number, (key, t) in enumerate(p.transposed.items()):
            dtype = m.reads[key].dtype
            place = f"s{number} + (row{j}) * {t.layout.strides[0]} + at"
            held[key] = from_storage(dtype, f"tw::load_shared<{STORAGE[dtype]}>({place})")
        outputs = self._outputs(p.vector, "            ", held)
        return self._thread_loop((p.across, p.across, "at"), (self.inner, f"{self.inner}b", "row"), p.vector, outputs)
