"""The printed kernel and its launches."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.core import Launch, LaunchProgram
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.templates.cuda import raster, splitk
from tilewright.kernels.templates.cuda.epilogue import Epilogue
from tilewright.kernels.templates.cuda.text import parameters
from tilewright.kernels.templates.cuda_mma import fragments, pack
from tilewright.kernels.templates.cuda_mma.geometry import Plan
from tilewright.kernels.templates.cuda_mma.loads import Loader
from tilewright.kernels.templates.cuda_mma.store import define, store

LINE = '#line 1 "kernel"\n'


def arguments(p: Plan) -> tuple[str, ...]:
    """Launch arguments of the main kernel."""
    return ("GROUP", "SPLIT") if p.split_k else ("GROUP",)


def source(p: Plan) -> str:
    """Everything after the prelude."""
    parts = [LINE, f"namespace {p.symbol}_ {{\n", define(p), "}\n"]
    parts += [pack.kernel(p, s) for s in pack.packed(p)]
    parts.append(_main(p))
    if p.split_k:
        parts.append(splitk.kernel(p.p.c, p.symbol))
    return "".join(parts)


def launch_program(p: Plan) -> LaunchProgram:
    """Packing, the product, and the merge of partial results."""
    grid = (raster.blocks(p.tiles_m, p.tiles_n, p.p.batch, p.split_k), 1, 1)
    main = Launch(p.symbol, arguments(p), grid=grid, block=(p.threads, 1, 1), shared=p.shared)
    launches = [pack.launch(p, s) for s in pack.packed(p)]
    launches.append(main)
    if p.split_k:
        launches.append(splitk.launch(p.p.c, p.symbol))
    return LaunchProgram(tuple(launches), workspace=pack.workspace_bytes(p), align=alignment(p))


def alignment(p: Plan) -> int:
    """Bytes to which tensors must be aligned: the widest access to any of them."""
    widths = [s.copy for s in p.sides if s.direct and not s.source.is_packed]
    out = Epilogue(p.p.c).width * ITEMSIZE[p.p.c.output.dtype]
    return max(1, out, *(ITEMSIZE[t.dtype] for t in p.p.c.program.inputs), *widths)


def _indent(lines: list[str], depth: int) -> str:
    pad = " " * 4 * depth
    return "".join(f"{pad}{x}\n" for x in lines)


def _main(p: Plan) -> str:
    loaders = [Loader(p, s) for s in p.sides]
    acc = p.instruction.acc
    out = [f"TW_KERNEL({p.threads}, {p.min_blocks}) void {p.symbol}({parameters(p.p.c.program, arguments(p))}) {{\n"]
    out.append(f"    TW_SHARED(smem);\n    using namespace {p.symbol}_;\n")
    out.append(raster.raster(p.tiles_m, p.tiles_n, p.p.batch, p.split_k, reads=()))
    m0 = f"tile_m * {p.bm}" if p.tiles_m > 1 else "0"
    n0 = f"tile_n * {p.bn}" if p.tiles_n > 1 or p.tiles_m == 1 else "0"
    head = [f"const int m0 = {m0}, n0 = {n0};", *_threads(p)]
    head.append(f"const tw::u32 sa = tw::shared_address(smem), sb = sa + {p.stages * p.a.bytes};")
    if p.split_k:
        head.append(splitk.pieces(p.tiles_k, "first_tile", "end_tile"))
    head += pack.declare(p)
    for x in loaders:
        head += x.declare()
    head += fragments.declare(p)
    head += [
        f"{acc} acc[{p.mi}][{p.ni}][4];",
        "TW_UNROLL",
        f"for (int i = 0; i < {p.mi}; i++)",
        "    TW_UNROLL",
        f"    for (int j = 0; j < {p.ni}; j++)",
        "        TW_UNROLL",
        "        for (int e = 0; e < 4; e++) acc[i][j][e] = 0;",
    ]
    out.append(_indent(head, 1))
    out.append(_indent(_lambdas(p, loaders), 1))
    out.append(_indent(_Ring(p).text(), 1))
    out.append(_indent(store(p), 1))
    out.append("}\n")
    return "".join(out)


def _threads(p: Plan) -> list[str]:
    """Statements that declare a thread's number, its lane and, of several warps, which it is in."""
    if p.threads == 32:
        return ["const int tid = (int)threadIdx.x, lane = tid;"]
    out = ["const int tid = (int)threadIdx.x, lane = tid % 32, warp = tid / 32;"]
    if p.warps_m > 1 and p.warps_n > 1:
        out.append(f"const int wm = warp / {p.warps_n}, wn = warp % {p.warps_n};")
    return out


def _lambdas(p: Plan, loaders: list[Loader]) -> list[str]:
    """What the prologue and the loop both do: copy a tile, read fragments."""
    direct, carried = [x for x in loaders if x.s.direct], [x for x in loaders if not x.s.direct]
    out = []
    if direct:
        out += ["// Tile t of k, from global memory to slot of the ring.", "const auto copy = [&](int slot, int t) {"]
        out += ["    " + line for x in direct for line in x.copies()] + ["};"]
    if carried:
        out += ["// The same through registers, in two steps.", "const auto fetch = [&](int t) {"]
        out += ["    " + line for x in carried for line in x.fetch()]
        out += ["};", "const auto put = [&](int slot) {"]
        out += ["    " + line for x in carried for line in x.put()] + ["};"]
    out.append("// Step q of the tile in slot, from shared memory to registers.")
    out.append(f"const auto read = [&](tw::u32 (&fa)[{p.mi}][4], tw::u32 (&fb)[{p.ni}][2], int slot, int q) {{")
    out += ["    " + line for x in loaders for line in fragments.read(x.s, p)]
    out += ["    " + line for line in fragments.rounded(p)] + ["};"]
    out.append(f"const auto multiply = [&](const tw::u32 (&fa)[{p.mi}][4], const tw::u32 (&fb)[{p.ni}][2]) {{")
    out += ["    " + line for line in fragments.multiply(p)] + ["};"]
    return out


@dataclass(frozen=True)
class _Ring:
    """The main loop over tiles of k: some are on their way while one is multiplied.

    Every piece of k has ``STAGES - 1`` tiles at least, or all of k has fewer, which is then known here.
    """

    p: Plan

    @property
    def copies(self) -> bool:
        """Whether an operand is copied asynchronously."""
        return any(s.direct for s in self.p.sides)

    @property
    def carries(self) -> bool:
        """Whether an operand passes through registers."""
        return not all(s.direct for s in self.p.sides)

    @property
    def first(self) -> str:
        """Text of the first tile."""
        return "first_tile" if self.p.split_k else "0"

    @property
    def end(self) -> str:
        """Text of the tile after the last."""
        return "end_tile" if self.p.split_k else str(self.p.tiles_k)

    @property
    def slot(self) -> str:
        """Text of the slot of tile ``t``."""
        return "t" if self.p.short else "slot"

    def text(self) -> list[str]:
        return [*self._prologue(), *(self._buffered() if self.p.double_buffer else self._plain())]

    def _prologue(self) -> list[str]:
        ahead = self.p.ahead

        def fill(slot: str) -> list[str]:
            tile = f"{self.first} + {slot}" if self.p.split_k else slot
            return [
                *([f"copy({slot}, {tile});", "tw::cp_commit();"] if self.copies else []),
                *([f"fetch({tile});", f"put({slot});"] if self.carries else []),
            ]

        if ahead == 1:
            return [*fill("0"), *([] if self.p.short else ["int slot = 0, fill = 1;"])]
        counted = [] if self.p.short else ["int slot = 0, fill = 0;"]
        header = f"for (int s = 0; s < {ahead}; s++) {{" if self.p.short else f"for (; fill < {ahead}; fill++) {{"
        return [*counted, "TW_UNROLL", header, *("    " + x for x in fill("s" if self.p.short else "fill")), "}"]

    def _ready(self) -> list[str]:
        """The oldest tile has arrived, for all threads, and the slot before it is free."""
        wait = [f"tw::cp_wait<{self.p.ahead - 1}>();"] if self.copies else []
        return [*wait, "tw::sync();"]

    def _load_next(self) -> list[str]:
        commit = ["tw::cp_commit();"] if self.copies else []
        if self.p.short:
            return commit  # an empty one, so that the same wait stands for one tile more
        tile = f"t + {self.p.ahead}"
        if not self.carries:
            return [f"if ({tile} < {self.end}) copy(fill, {tile});", *commit]
        return [
            f"const bool more = {tile} < {self.end};",
            *([f"if (more) copy(fill, {tile});"] if self.copies else []),
            *commit,
            f"if (more) fetch({tile});",
        ]

    def _put(self) -> list[str]:
        return ["if (more) put(fill);"] if self.carries and not self.p.short else []

    def _plain(self) -> list[str]:
        p = self.p
        return self._tiles([
            *self._ready(),
            *self._load_next(),
            "TW_UNROLL",
            f"for (int q = 0; q < {p.steps}; q++) {{",
            f"    tw::u32 fa[{p.mi}][4], fb[{p.ni}][2];",
            f"    read(fa, fb, {self.slot}, q);",
            "    multiply(fa, fb);",
            "}",
            *self._put(),
            *([] if p.short else [f"slot = {self._after('slot')};"]),
        ])  # fmt: skip

    def _buffered(self) -> list[str]:
        """Fragments of the next step are read while those of this one are multiplied, across tiles too.

        After the last tile that reads what nobody multiplies: cheaper than to ask for every tile.
        """
        p = self.p
        following = "t + 1" if p.short else "next"
        body = self._tiles([
            *self._load_next(),
            *([] if p.short else [f"const int next = {self._after('slot')};"]),
            *self._pairs(),
            f"read(fa[1], fb[1], {self.slot}, {p.steps - 1});",
            "multiply(fa[0], fb[0]);",
            *self._put(),
            *self._ready(),
            f"read(fa[0], fb[0], {following}, 0);",
            "multiply(fa[1], fb[1]);",
            *([] if p.short else ["slot = next;"]),
        ])  # fmt: skip
        return [
            f"tw::u32 fa[2][{p.mi}][4], fb[2][{p.ni}][2];",
            *self._ready(),
            "read(fa[0], fb[0], 0, 0);",
            *body,
        ]

    def _pairs(self) -> list[str]:
        """The steps of a tile but the last two."""
        last = self.p.steps - 2
        if last == 0:
            return []
        one, two = ("1", "2") if last == 2 else ("q + 1", "q + 2")
        lines = [
            f"read(fa[1], fb[1], {self.slot}, {one});",
            "multiply(fa[0], fb[0]);",
            f"read(fa[0], fb[0], {self.slot}, {two});",
            "multiply(fa[1], fb[1]);",
        ]
        if last == 2:
            return lines
        return ["TW_UNROLL", f"for (int q = 0; q < {last}; q += 2) {{", *("    " + x for x in lines), "}"]

    def _after(self, slot: str) -> str:
        """Text of the slot after one."""
        return f"{slot} + 1 == {self.p.stages} ? 0 : {slot} + 1"

    def _tiles(self, body: list[str]) -> list[str]:
        """The loop over tiles of k around the statements for tile ``t``."""
        p, first, end, unroll = self.p, self.first, self.end, self.p.unrolled
        if not p.short:
            body = [*body, f"fill = {self._after('fill')};"]
        if unroll == 1:
            return [f"for (int t = {first}; t < {end}; t++) {{", *("    " + x for x in body), "}"]
        if p.split_k or p.tiles_k % unroll:
            body = [f"if (t < {end}) {{", *("    " + x for x in body), "}"]
        return [
            f"for (int start = {first}; start < {end}; start += {unroll}) {{",
            "    TW_UNROLL",
            f"    for (int u = 0; u < {unroll}; u++) {{",
            "        const int t = start + u;",
            *("        " + x for x in body),
            "    }",
            "}",
        ]
