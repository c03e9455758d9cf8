"""The plan of a contraction: register tiles, loops and operand reads that follow from a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.core import IllegalSchedule, Target, Value, cached_property
from tilewright.dtypes import DTYPES
from tilewright.extent import Extent, ctext, least
from tilewright.kernels.codegen.access import storage
from tilewright.kernels.expression.expr import ITEMSIZE
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.families.group import Group
from tilewright.kernels.templates.cpu_contraction import window
from tilewright.kernels.templates.cpu_contraction.kinds import BF16, PLAIN, UNIT, Kind, shifted
from tilewright.kernels.templates.cpu_contraction.match import Contraction, constant
from tilewright.kernels.templates.cpu_contraction.window import Clip, Cuts, Image, Table
from tilewright.kernels.templates.decisions import decided
from tilewright.kernels.templates.tiles import Blocks, SymbolicBlocks, ceildiv

LINE = 64
"""Bytes of a cache line."""
ENOUGH_SUMS = 8
"""Vectors of sums that keep a core's multiply-add units busy, since each sum waits for its previous step."""


@dataclass(frozen=True)
class FusedLoop:
    """Axes of M or K fused into one loop. ``a``: step in A; ``other``: step in the output (M) or B (K), in elements."""

    group: Group
    a: int
    other: int

    @property
    def size(self) -> int:
        return self.group.size


def fused_loops(group: Group, a: Linear | None, other: Linear | None, alone: frozenset[str]) -> list[FusedLoop]:
    """A group's axes as the fewest loops: adjacent axes that fuse both in A and in the other tensor are one loop.

    A position of ``None`` lets all axes fuse. Each axis in ``alone`` stays a loop of its own.
    """
    parts: list[list[tuple[str, int]]] = []
    for name, extent in zip(group.axes, group.extents, strict=True):
        if parts and name not in alone and parts[-1][-1][0] not in alone:
            longer = [*parts[-1], (name, extent)]
            tried = Group(tuple(n for n, _ in longer), tuple(e for _, e in longer))
            if all(p is None or tried.stride(p) is not None for p in (a, other)):
                parts[-1].append((name, extent))
                continue
        parts.append([(name, extent)])
    found = [Group(tuple(n for n, _ in p), tuple(e for _, e in p)) for p in parts] or [Group((), ())]
    return [FusedLoop(g, (a and g.stride(a)) or 0, (other and g.stride(other)) or 0) for g in found]


@dataclass(frozen=True)
class ContractionTiling:
    """The plan of a schedule: everything that the printed source depends on.

    ``a`` and ``b`` say how an operand is read: ``direct`` in place, ``pack``: packed block by block, or ``prepack``:
    packed once. A may also be read from a padded ``copy`` of its tensor, or in place with the steps that its guard
    excludes skipped (``clip``). With a ``kind`` of narrow elements, A is ``direct`` or packed as ``rows``, and B may be
    packed as a ``whole`` in each call. ``half_b``: B is packed in 16 bits, and widened as it is read.
    """

    c: Contraction
    target: Target
    inner: int  # MR: rows of a register tile along the innermost loop over M
    lines: int  # MH: trips of the next outer loop over M in a register tile
    images: int  # batch items computed at a time; 1 where the batch is no axis of its own
    vectors: int  # NV: vectors of columns of a register tile
    unroll: int
    a: str
    b: str
    order: str
    prefetch_b: int
    prefetch_c: bool
    split_k: bool = False
    kind: Kind = PLAIN
    half_b: bool = False

    @property
    def rows(self) -> int:
        return self.inner * self.lines

    @property
    def pack_a(self) -> bool:
        """Whether A is read from packed panels."""
        return self.a in ("pack", "prepack")

    @property
    def pack_b(self) -> bool:
        return self.b != "direct"

    @cached_property
    def item(self) -> int:
        return ITEMSIZE[self.c.acc]

    @cached_property
    def lanes(self) -> int:
        return self.target.vector_bytes // self.item

    @property
    def ctype(self) -> str:
        return storage(self.c.acc)

    @property
    def vtype(self) -> str:
        record = DTYPES[self.c.acc]
        return f"tw::{record.kind[0]}{record.bits}v"

    def source_type(self, dtype: str) -> str:
        """C type of elements in memory; ``T`` for the type of the sums."""
        return "T" if dtype == self.c.acc else storage(dtype)

    # ------------------------------------------------------------------ steps of several elements, narrower than sums

    @cached_property
    def mixed(self) -> bool:
        """Whether steps take units of narrow elements.

        The outermost cache-blocking loop is then over rows, and A is packed as ``rows`` with all of K. Epilogues
        compute in vectors of any type.
        """
        return self.kind != PLAIN

    @property
    def group(self) -> int:
        """Elements of K that one step takes. Panels, loops over K and their sizes count steps."""
        return self.kind.group

    @cached_property
    def depth(self) -> int:
        """Number of steps over all of K."""
        return ceildiv(self.c.k.size, self.group) if self.mixed else self.c.k.size

    @property
    def b_at_once(self) -> bool:
        """Whether separate tasks pack all of B, before the first call or in each call (``whole``)."""
        return self.mixed and self.b in ("prepack", "whole")

    @property
    def shifted(self) -> bool:
        """Whether A, or a B read in place, is shifted by 128 to be unsigned."""
        return shifted(self.c, self.kind)

    @property
    def heads(self) -> int:
        """Number of rows in front of each panel of B: 1 where a row holds the first values of the sums, else 0."""
        return int(self.shifted and self.pack_b)

    @property
    def rest(self) -> int:
        """Elements of K in the last step, where an operand is read in place and this step is partial; else 0."""
        return 0 if self.group == 1 or (self.a == "rows" and self.pack_b) else self.c.k.size % self.group

    @property
    def marks(self) -> str:
        """C text of further bits of a tile's ``mode``. 4: the last step is partial. 8: sums begin with the head row."""
        whole = f"|(pc+kc>={self.depth}L?4:0)" if self.rest else ""
        return whole + ("" if not self.heads else "|(pc?0:8)" if self.b_at_once else "|8")

    @property
    def a_type(self) -> str:
        """C type of the elements that a register tile's pointer to A addresses."""
        return self.source_type(self.c.a.dtype or "") if self.mixed and self.a == "direct" else "T"

    @property
    def b_type(self) -> str:
        """C type of the elements that a register tile's pointer to B addresses."""
        if self.half_b:
            return "unsigned short"
        return self.source_type(self.c.b.dtype or "") if self.mixed and self.b == "direct" else "T"

    @property
    def b_item(self) -> int:
        """Bytes of an element of a packed panel of B."""
        return 2 if self.half_b else self.item

    @property
    def a_row(self) -> int:
        """Units between packed rows of A: an odd number of cache lines, so that rows spread over the cache's sets."""
        return (ceildiv(self.depth * UNIT, LINE) | 1) * (LINE // UNIT)

    @property
    def rounds(self) -> str:
        """The C function that rounds a vector before it is stored; empty where the store converts."""
        # The instruction rounds like tw::narrow, except for results below the smallest normal float.
        return "rounded" if self.kind == BF16 and self.c.output.dtype == "bfloat16" else ""

    # ------------------------------------------------------------------ loops

    @cached_property
    def image(self) -> Image | None:
        """The padded copy of A's tensor, for ``images`` batch items; ``None`` where A is read in another way."""
        if self.a != "copy":
            return None
        found = window.image(self.c)
        assert found is not None
        return found if self.chunks == 1 else replace(found, shape=(self.images, *found.shape[1:]))

    @cached_property
    def clip(self) -> Clip | None:
        return window.clip(self.c) if self.a == "clip" else None

    @cached_property
    def chunks(self) -> int:
        """Number of chunks of the batch, which are computed one after another."""
        return batch_items(self.c) // self.images

    @cached_property
    def m(self) -> Group:
        """The M axes of one chunk."""
        if self.chunks == 1:
            return self.c.m
        return Group(self.c.m.axes, (self.images, *self.c.m.extents[1:]))

    @cached_property
    def a_position(self) -> Linear | None:
        """Position of A's elements in its tensor or padded copy; ``None`` where A is packed."""
        if self.pack_a or self.a == "rows":
            return None
        w = self.c.a.window
        assert w is not None
        return self.image.position if self.image else w.position

    @cached_property
    def m_loops(self) -> list[FusedLoop]:
        """Loops over M, outermost first."""
        alone = frozenset(n for w in (self.c.a.window,) if w and self.clip for b in w.bounds for n in b.coef)
        found = fused_loops(self.m, self.a_position, Linear(0, self.c.out_strides), alone)
        return [replace(w, a=self.a_row) for w in found] if self.a == "rows" else found

    @cached_property
    def k_loops(self) -> list[FusedLoop]:
        """Loops over K, outermost first."""
        if self.mixed:
            beside = self.c.b_side
            columns = self.width if self.pack_b or beside is None else self.group * beside.k
            return [FusedLoop(Group(("k",), (self.depth,)), self.group if self.a == "direct" else 1, columns)]
        if self.pack_a and self.pack_b:
            return [FusedLoop(self.c.k, 1, self.width)]
        b = None if self.pack_b else self.c.b.affine
        found = fused_loops(self.c.k, self.a_position, b, self.clip.axes if self.clip else frozenset())
        if self.pack_b:
            # Panels hold K in its own order, one row of columns after another.
            step = self.width
            for n in range(len(found) - 1, -1, -1):
                found[n] = FusedLoop(found[n].group, found[n].a, step)
                step *= found[n].size
        return found

    @property
    def units(self) -> int:
        """Trips of the outermost loop over K. A block of K is a whole number of these trips."""
        return self.k_loops[0].size

    @property
    def unit(self) -> int:
        """Steps of K in one trip of the outermost loop over K."""
        return self.depth // self.units

    @cached_property
    def row_blocks(self) -> Blocks:
        """Blocks of rows along the innermost loop over M."""
        extent = self.m_loops[-1].size
        if isinstance(extent, Extent):
            return SymbolicBlocks(int(extent), self.inner, least(extent))
        return Blocks(extent, self.inner)

    @property
    def symbolic_rows(self) -> bool:
        """Whether the innermost loop over M has a symbolic number of rows."""
        return isinstance(self.row_blocks, SymbolicBlocks)

    @property
    def row_lines(self) -> int:
        """Trips of the loops over M around the innermost one, in one chunk, in steps of ``lines``."""
        return self.m.size // (self.m_loops[-1].size * self.lines)

    @property
    def row_count(self) -> int:
        """Number of register tiles along M in one chunk, where the number of rows is fixed."""
        return self.row_lines * self.row_blocks.count

    @property
    def varying(self) -> bool:
        """Whether the program has symbolic sizes."""
        return bool(self.c.program.sizes)

    @property
    def takes_sizes(self) -> bool:
        """Whether register tiles receive the symbolic sizes: needed unless only a leading length is symbolic."""
        return self.varying and not self.c.program.leading

    @property
    def symbolic_k(self) -> bool:
        """Whether K is symbolic. Tasks then do not divide K; operands are read in place along a single loop only."""
        return isinstance(self.c.k.size, Extent)

    @property
    def at_once(self) -> bool:
        """Whether all of K is one block, because K is symbolic and unfinished sums cannot live in the output."""
        return self.symbolic_k and not self.c.in_place

    @property
    def row_count_text(self) -> str:
        """C text of :attr:`row_count`."""
        if not self.symbolic_rows:
            return ctext(self.row_count)
        return "x->blocks" if self.row_lines == 1 else f"({ctext(self.row_lines)}*x->blocks)"

    @property
    def column_count_text(self) -> str:
        """C text of the number of register tiles along N."""
        return "x->nblocks" if self.c.n.varying else f"{self.column_blocks.count}L"

    @cached_property
    def table(self) -> Table | Cuts | None:
        """The row range of a tile at each trip of the clipped loop; ``None`` without ranges, or with too many."""
        if self.clip is None or self.clip.axis is None:
            return None
        if self.symbolic_rows:
            return window.cuts(self.c, self.clip, self.inner)
        return window.table(self.c, self.clip, self.row_blocks.spans)

    @property
    def clips(self) -> bool:
        """Whether the window can be clipped: tiles have few enough row ranges, and trips are bounded by whole tiles."""
        if self.clip is None or (self.clip.axis is not None and self.table is None):
            return False
        return self.lines == 1 or not any(b.of(a) for _, b in self.clip.ranges for a in self.m_loops[-2].group.axes)

    @cached_property
    def column_blocks(self) -> Blocks:
        """Blocks of columns, counted in vectors."""
        if (extent := self.c.n.varying) is not None:
            least_, most = (ceildiv(int(n), self.lanes) for n in (least(extent), extent))
            return SymbolicBlocks(most, self.vectors, least_, "n")
        return Blocks(ceildiv(self.c.n.size, self.lanes), self.vectors)

    @property
    def ragged(self) -> bool:
        """Whether the last vector of a row may be partial."""
        return self.c.n.size % self.lanes > 0

    @property
    def tail(self) -> str:
        """C text of the number of valid lanes in the last vector of a row."""
        if self.c.n.varying:
            return f"(({self.c.n.size_text}-1)%{self.lanes}L+1)"
        return f"{self.c.n.size % self.lanes or self.lanes}L"

    @cached_property
    def width(self) -> int:
        """Columns of a packed panel of B."""
        return self.vectors * self.lanes

    # ------------------------------------------------------------------ places of a tile's rows

    def place(self, row: int) -> tuple[int, int]:
        """The line of a tile that contains a row, and the row's index along this line."""
        return divmod(row, self.inner) if self.lines > 1 else (0, row)

    def row_out(self, row: int) -> int:
        """Elements from a tile's first row in the output to row ``row``."""
        line, along = self.place(row)
        return line * (self.m_loops[-2].other if line else 0) + along * self.m_loops[-1].other

    @property
    def part(self) -> int:
        """Elements of the partial sums of one split of K and one outer position, in rows of whole vectors.

        0 where K is not split, or where the first split's sums live in the output.
        """
        return 0 if self.c.in_place or not self.split_k else self.c.m.size * self._padded

    @property
    def _padded(self) -> int:
        """Columns rounded up to whole vectors."""
        return ceildiv(self.c.n.size, self.lanes) * self.lanes

    @property
    def row_step(self) -> int:
        """Elements from one row of a tile's sums to the next: in the output, in partial sums, or in a tile buffer."""
        if self.part:
            return self._padded
        return self.m_loops[-1].other if self.c.in_place else self.width

    def row_c(self, row: int) -> int:
        """Elements from a tile's first row to row ``row`` in the memory that keeps its sums."""
        return self.row_out(row) if self.c.in_place else row * self.row_step

    @property
    def resumes(self) -> bool:
        """Whether a tile may begin from stored sums."""
        return bool(self.c.in_place or self.mixed or self.clip or self.c.b.valid_length is not None)

    def row_a(self, row: int) -> int:
        """Elements from a tile's first row in A to row ``row``, for A that is not packed."""
        line, along = self.place(row)
        return line * (self.m_loops[-2].a if line else 0) + along * self.m_loops[-1].a


def batch_items(c: Contraction) -> int:
    """Extent of the batch: the outermost M axis, if it alone indexes the outermost axis of A's tensor; else 1."""
    w = c.a.window
    if w is None or len(c.m.axes) < 2:
        return 1
    name, extent = c.m.axes[0], c.m.extents[0]
    used_elsewhere = any(d.of(name) for d in w.dims[1:]) or any(b.of(name) for b in w.bounds)
    own = w.dims[0].coef == {name: 1} and w.dims[0].const == 0 and w.tensor.shape[0] == extent
    return extent if own and not used_elsewhere else 1


def takes_ranges(c: Contraction) -> bool:
    """Whether the template supports the symbolic sizes of a contraction.

    A symbolic number of rows needs a single loop in the output, and guards need constant coefficients. All further
    strides may be expressions of sizes.
    """
    bounds = [k for w in (c.a.window, c.b.window) if w for b in w.bounds for k in b.coef.values()]
    return (
        not (c.m.varying and c.m.stride(Linear(0, c.out_strides)) is None)
        and (c.program.leading or c.b.valid_length is None)
        and not any(isinstance(k, Extent) for k in bounds)
        and not any(x.op == "size" for e in c.atoms.values() for x in e.walk())
    )


def direct_a(c: Contraction) -> bool:
    """Whether A can be read in place."""
    return c.a.affine is not None and c.a.value.dtype == c.acc


def direct_b(c: Contraction) -> bool:
    """Whether B can be read in place: vectors along N are contiguous."""
    return c.b.affine is not None and c.b.value.dtype == c.acc and c.n.stride(c.b.affine) == 1


def plan(c: Contraction, target: Target, values: Mapping[str, Value]) -> ContractionTiling:
    tiling = decided(
        ContractionTiling, values, c=(c.narrow or c) if values.get("narrow") else c, target=target,
        inner=values["MR"], lines=values["MH"], vectors=values["NV"],
    )  # fmt: skip
    return _for_all_sizes(tiling) if tiling.varying else tiling


def _for_all_sizes(tiling: ContractionTiling) -> ContractionTiling:
    """The plan for all symbolic sizes, from the plan of the sizes that the schedule was tuned for."""
    c, symbolic_k = tiling.c, tiling.symbolic_k
    whole = replace(tiling, images=batch_items(c), split_k=tiling.split_k and not symbolic_k)
    clipped = _clipped(whole) if whole.a in ("clip", "copy") else None
    if clipped is not None:
        return clipped
    if whole.a == "prepack":
        kept = constant(c, "a") is not None and not c.m.varying
    else:
        kept = (
            whole.a == "direct" and direct_a(c) and _steps_known(whole) and not (symbolic_k and len(whole.k_loops) > 1)
        )
    if kept and c.m.varying and len(whole.m_loops) > 1:
        kept = least(whole.m_loops[-1].size) * whole.vectors >= ENOUGH_SUMS
    if not kept:
        whole = replace(whole, a="pack")
    if whole.b == "direct":
        kept = direct_b(c) and not (whole.pack_a and len(whole.k_loops) > 1)
    else:
        kept = constant(c, "b") is not None
    if not kept or (symbolic_k and len(whole.k_loops) > 1):
        whole = replace(whole, b="pack")
    if whole.pack_a and c.m.varying and len(whole.m_loops) > 1:
        raise IllegalSchedule("the rows, whose number is symbolic, are not one loop", "Use another schedule")
    return _fitting(whole)


def _clipped(p: ContractionTiling) -> ContractionTiling | None:
    """The plan whose window is clipped; ``None`` where B is not prepacked or A's steps are not constant."""
    p = replace(p, a="clip", split_k=False)
    if p.b != "prepack" or constant(p.c, "b") is None or p.clip is None:
        return None
    p = _fitting(p)
    return p if _steps_known(p) and p.clips else None


def _steps_known(p: ContractionTiling) -> bool:
    """Whether A's steps from row to row, and from one step of K to the next, are constant."""
    return not any(isinstance(w.a, Extent) for w in (p.m_loops[-1], p.k_loops[-1]))


def _fitting(p: ContractionTiling) -> ContractionTiling:
    """The plan with a register tile that divides these sizes as evenly as possible, from a plan for other sizes."""
    extents = [w.size for w in p.m_loops]
    if p.lines > 1 and not (
        len(extents) > 1 and p.inner == extents[-1] and extents[-2] % p.lines == 0 and not p.symbolic_rows
    ):
        p = replace(p, inner=p.rows, lines=1)
    if not p.symbolic_rows:
        p = replace(p, inner=ceildiv(extents[-1], ceildiv(extents[-1], p.inner)))
    if not p.c.n.varying:
        vectors = ceildiv(p.c.n.size, p.lanes)
        p = replace(p, vectors=ceildiv(vectors, ceildiv(vectors, p.vectors)))
    return p
