"""What CUDA templates recognise, how they read sides, which tile a block gets, how K is split."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tilewright.backends.cuda.archs import target
from tilewright.backends.emulator import build, run
from tilewright.core import IllegalSchedule, Launch, LaunchProgram, Task
from tilewright.kernels import te
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.expr import Expr, axis, load
from tilewright.kernels.expression.linear import Linear
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.group import Group
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import templates_for
from tilewright.kernels.templates.cuda import runs, splitk
from tilewright.kernels.templates.cuda.describe import accesses
from tilewright.kernels.templates.cuda.epilogue import Epilogue
from tilewright.kernels.templates.cuda.match import CudaContraction, match
from tilewright.kernels.templates.cuda.operand import Operand, operand
from tilewright.kernels.templates.cuda.raster import Raster
from tilewright.kernels.templates.cuda.scales import block_length
from tilewright.kernels.templates.cuda_mma.match import match as product
from tilewright.kernels.templates.cuda_wgmma.template import CUDA_WGMMA
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.kernels import task_of

SM80 = target("sm_80")


NEIGHBOURS = ("dot", "depthwise", "masked", "rows")
"""Reductions of one side only, or of two in which nothing is reused: of other families."""

MATCHED = [n for n in CONTRACTIONS if n not in NEIGHBOURS]


def found(p: Program) -> CudaContraction:
    c = match(p)
    assert c is not None
    return c


def operator(op: str, **params: int) -> CudaContraction:
    return found(Program.loads(get_operator(op).workload(**params).program))


def axes(c: CudaContraction) -> tuple[tuple[str, ...], ...]:
    return c.batch.axes, c.m.axes, c.n.axes, c.k.axes


# ------------------------------------------------------------------ scales of blocks of k


def folds(op: str, **params: object) -> CudaContraction:
    p = product(Program.loads(get_operator(op).workload(**params).program))
    assert p is not None
    return p.c


@pytest.mark.parametrize("n", [256, 200])  # blocks of columns that divide n, and that do not
@pytest.mark.parametrize("by_column", [False, True])
def test_scales_of_blocks_multiply_their_sums(n: int, by_column: bool) -> None:
    c = folds("scaled_mm", m=70, n=n, k=300, by_column=by_column)
    assert (c.batch.size, c.m.size, c.n.size, c.k.size) == (1, 70, n, 300)
    assert all(operand(c, side).plain is not None for side in "ab")
    assert c.scales is not None
    assert c.scales.depth == 128
    assert [str(x.value) for e in c.scales.of.values() for x in e.loads()] == ["x2", "x3"]  # type: ignore[union-attr]
    assert block_length(c.scales.of["b"], c.n) == (1 if by_column else 128)  # type: ignore[arg-type]
    assert {x.tensor for x in accesses(c, split=False)} == {"x0", "x1", "x2", "x3", c.output.name}


def test_one_block_is_scaled_behind_the_sum() -> None:
    c = folds("scaled_mm", m=70, n=200, k=128)
    assert c.scales is None
    assert {str(x.value) for x in c.monoid.finish.loads()} == {"x2", "x3"}


@pytest.mark.parametrize(("group", "depth"), [(96, 96), (32, 32), (16, 0)])
def test_groups_of_quantised_weights_are_blocks(group: int, depth: int) -> None:
    """Where a tile of k lies within a group; others are scaled element by element, by ordinary units."""
    workload = get_operator("dequant_matmul").workload(m=64, n=64, k=192, group_size=group, dtype="bfloat16")
    p = product(Program.loads(workload.program))
    assert (p.c.scales.depth if p is not None and p.c.scales is not None else 0) == depth
    assert ("cuda_mma" in [t.name for t in templates_for(Task(workload, SM80))]) == (depth > 0)


def test_scales_that_change_within_a_tile_are_refused() -> None:
    workload = get_operator("scaled_mm").workload(m=64, n=64, k=256, block=64, trans_b=True)
    assert product(Program.loads(workload.program)) is not None
    with pytest.raises(IllegalSchedule, match="scales that change within 128 elements"):
        CUDA_WGMMA.space(Task(workload, target("sm_90a")))
    assert product(Program.loads(get_operator("scaled_mm").workload(m=64, n=64, k=256, block=32).program)) is None


@pytest.mark.parametrize(
    ("axes", "extents", "index", "same"),
    [
        (("i0",), (300,), axis("i0") // 128, 128), (("i0",), (300,), axis("i0"), 1), (("i0",), (300,), axis("i1"), 0),
        (("i0", "i1"), (3, 64), axis("i0"), 64), (("i0", "i1"), (3, 64), axis("i0") // 2, 128),
        (("i0", "i1"), (3, 64), axis("i1") // 48, 16), (("i0",), (300,), axis("i0") // 128 + axis("i0") // 96, 32),
        (("i0",), (300,), (axis("i0") + 1) // 128, 1),
    ],
)  # fmt: skip
def test_neighbours_of_one_scale(axes: tuple[str, ...], extents: tuple[int, ...], index: Expr, same: int) -> None:
    assert block_length(load("x0", "float32", (index,)), Group(axes, extents)) == same


# ------------------------------------------------------------------ groups


def test_a_matmul_matches_with_its_axes() -> None:
    c = operator("matmul", m=4, n=5, k=6)
    assert axes(c) == ((), ("i0",), ("i1",), ("r0",))
    assert c.is_product
    assert c.zero_is_neutral
    assert c.acc == "float32"


def test_a_convolution_fuses_images_with_pixels() -> None:
    # Output n, co, ho, wo: images and pixels are N although channels lie between them.
    c = operator("conv2d", n=2, ci=3, h=9, w=9, co=4, kh=3, kw=3, padding=1)
    assert axes(c) == ((), ("i1",), ("i0", "i2", "i3"), ("r0", "r1", "r2"))


def test_batch_axes_lie_anywhere() -> None:
    c = found(CONTRACTIONS["batch"]())
    assert axes(c) == (("i1", "i2"), ("i0",), ("i3",), ("r0",))


def test_groups_of_channels_become_a_batch() -> None:
    c = found(CONTRACTIONS["grouped_conv"]())
    assert axes(c)[:3] == (("i3",), ("i0", "i1", "i2"), ("i4",))
    assert c.program.output.shape == (2, 5, 8, 2, 4)


def test_the_innermost_axis_may_be_a_batch() -> None:
    x, y = te.input("x", (6, 4, 5)), te.input("y", (6, 5, 7))
    p, _ = te.program(te.compute((4, 7, 6), lambda i, j, b: te.sum(5, lambda r: x[b, i, r] * y[b, r, j])))
    assert axes(found(p))[:3] == (("i2",), ("i0",), ("i1",))


def test_maps_before_the_sum_are_read_through() -> None:
    c = found(CONTRACTIONS["activated"]())
    assert [s.monoid is None for s in c.program.stages] == [False, True]
    assert {str(x.value) for x in c.lhs.loads()} == {"x0"}


def test_the_axes_of_each_group_are_its_sides_own() -> None:
    for name in MATCHED:
        c = found(CONTRACTIONS[name]())
        reads = {side: c.side(side).axes() for side in ("a", "b")}
        outputs = {a for a, e in zip(c.stage.axes, c.stage.extents, strict=True) if e > 1}
        assert sorted([*c.batch.axes, *c.m.axes, *c.n.axes]) == sorted(outputs)
        assert not set(c.m.axes) & reads["b"]
        assert not set(c.n.axes) & reads["a"]
        assert c.k.axes == c.stage.reduce_axes


@pytest.mark.parametrize(
    ("name", "neutral", "product"),
    [
        ("matmul", True, True), ("bytes", True, True), ("squared_distance", True, False), ("chebyshev", False, False),
        ("products", False, False), ("least", False, False), ("conv2d", True, True),
        ("scaled", True, True),
    ],
)  # fmt: skip
def test_padding_with_zeros(name: str, neutral: bool, product: bool) -> None:
    c = found(CONTRACTIONS[name]())
    assert (c.zero_is_neutral, c.is_product) == (neutral, product)


def refused() -> dict[str, Program]:
    x, y = te.input("x", (6, 5)), te.input("y", (7, 5))
    product = te.compute((6, 7), lambda i, j: te.sum(5, lambda r: x[i, r] * y[j, r]))
    half = te.input("half", (6, 5), "float16")
    outputs = {
        "no reduction": te.compute((6, 5), lambda i, j: x[i, j] + 1.0),
        "two components": te.compute((6,), lambda i: te.argmax(5, lambda r: x[i, r])),
        "a transposed consumer": te.compute((7, 6), lambda j, i: product[i, j] + 1.0),
        "a reduction after": te.compute((6,), lambda i: te.sum(7, lambda j: product[i, j])),
        "one side": te.compute((6,), lambda i: te.sum(5, lambda r: x[i, r])),
        "no axis": te.compute((), lambda: te.sum(5, lambda r: x[0, r] * y[0, r])),
        "16-bit sums": te.compute((6,), lambda i: te.sum(5, lambda r: half[i, r])),
    }
    return {name: te.program(t)[0] for name, t in outputs.items()}


@pytest.mark.parametrize("name", list(refused()))
def test_programs_that_are_no_contraction_are_refused(name: str) -> None:
    assert match(refused()[name]) is None


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_are_of_other_families(name: str) -> None:
    program = CONTRACTIONS[name]()
    assert match(program) is None
    assert templates_for(task_of(program, SM80))


def test_what_is_no_contraction_has_other_templates() -> None:
    for name, program in refused().items():
        assert not {"cuda_simt", "cuda_mma"} & {t.name for t in templates_for(task_of(program, SM80))}, name


# ------------------------------------------------------------------ operands


def position(where: Linear, point: dict[str, int]) -> int:
    return where.const + sum(step * point[a] for a, step in where.coef.items())


def truth(e: Expr, point: dict[str, int]) -> bool:
    """A condition on indices at a point."""
    if e.op == "axis":
        return point[str(e.value)]  # type: ignore[return-value]
    if e.op == "const":
        return e.value  # type: ignore[return-value]
    a = [truth(x, point) for x in e.args]
    table: dict[str, Callable[..., bool]] = {
        "add": lambda: a[0] + a[1], "sub": lambda: a[0] - a[1], "mul": lambda: a[0] * a[1],
        "ge": lambda: a[0] >= a[1], "lt": lambda: a[0] < a[1], "and": lambda: a[0] and a[1],
    }  # fmt: skip
    return table[e.op]()


def fused_points(c: CudaContraction, side: str, along: str) -> list[list[dict[str, int]]]:
    """Rows of points along a direction of a side, one for every place in the other groups."""
    group = c.k if along == "k" else c.free(side)
    rest = c.free(side) if along == "k" else c.k

    def every(g: object) -> list[dict[str, int]]:
        spans = [range(e) for e in g.extents]  # type: ignore[attr-defined]
        return [dict(zip(g.axes, p, strict=True)) for p in itertools.product(*spans)]  # type: ignore[attr-defined]

    zero = dict.fromkeys(c.stage.ranges, 0)
    return [[{**zero, **b, **r, **p} for p in every(group)] for b in every(c.batch) for r in every(rest)]


@pytest.mark.parametrize("name", MATCHED)
def test_vectors_are_contiguous_aligned_and_under_one_guard(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "WIDEST", 64)
    c = found(CONTRACTIONS[name]())
    for side in ("a", "b"):
        if c.side(side) is None or operand(c, side).plain is None:
            continue
        o = Operand(c, side)  # one whose widths nobody has asked for
        plain = o.plain
        assert plain is not None
        for along in ("k", "row"):
            width = o.width(along)
            for row in fused_points(c, side, along):
                assert len(row) % width == 0
                for start in range(0, len(row), width):
                    points = row[start : start + width]
                    inside = [plain.guard is None or bool(truth(plain.guard, p)) for p in points]
                    assert len(set(inside)) == 1
                    if inside[0]:
                        at = [position(plain.where, p) for p in points]
                        assert at == list(range(at[0], at[0] + width))
                        assert at[0] % width == 0


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("aligned", ("k", 4), ("row", 4)), ("transposed", ("row", 4), ("k", 4)), ("matmul", ("k", 1), ("row", 1)),
        ("halves", ("k", 8), ("row", 8)), ("doubles", ("k", 2), ("row", 2)), ("bytes", ("k", 16), ("row", 16)),
        ("grouped_conv", ("k", 4), ("row", 4)), ("gathered", ("k", 1), ("row", 4)), ("conv2d", ("k", 1), ("row", 1)),
    ],
)  # fmt: skip
def test_directions_and_widths(name: str, a: tuple[str, int], b: tuple[str, int]) -> None:
    c = found(CONTRACTIONS[name]())
    for side, expected in (("a", a), ("b", b)):
        o = operand(c, side)
        assert (o.contiguous, o.width(o.contiguous)) == expected


def test_copied_sides_are_elements_as_they_lie_in_memory() -> None:
    told = {
        n: [operand(found(CONTRACTIONS[n]()), s).copied for s in ("a", "b")] for n in ("matmul", "conv2d", "halves")
    }
    assert told == {"matmul": [True, True], "conv2d": [True, True], "halves": [False, False]}


def test_widths_of_stores() -> None:
    widths = {n: found(CONTRACTIONS[n]()).store_width for n in ("aligned", "matmul", "halves", "bytes", "batch")}
    assert widths == {"aligned": 4, "matmul": 1, "halves": 8, "bytes": 4, "batch": 2}


def test_indices_are_64_bit_where_a_tensor_is_large_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "tilewright.kernels.te.tensors.MAX_ELEMENTS", 1 << 40
    )  # operators refuse such tensors; kernels could hold them
    c = operator("matmul", m=70000, n=70000, k=64)
    assert "long long" in Epilogue(c).define()
    assert "long long" not in operand(c, "a").offset("batch", "m", "k")
    x, y, z = te.input("x", (70000, 8)), te.input("y", (8, 70000)), te.input("z", (70000, 70000))
    s = te.compute((70000, 70000), lambda i, j: te.sum(8, lambda r: x[i, r] * y[r, j]))
    p, _ = te.program(te.compute((70000, 70000), lambda i, j: s[i, j] + z[i, j]))
    assert "(long)(m)) * 70000L" in Epilogue(found(p)).define().replace("((m))", "(m))")


# ------------------------------------------------------------------ tiles and pieces

SHAPES = [
    (1, 1, 1, 1, 1),
    (5, 1, 2, 1, 1),
    (1, 6, 3, 2, 1),
    (4, 6, 1, 1, 4),
    (7, 5, 2, 3, 3),
    (9, 4, 1, 2, 8),
    (3, 3, 2, 1, 1),
]


def test_every_tile_has_one_block() -> None:
    sources, launches = [], []
    for number, (m, n, batches, split, group) in enumerate(SHAPES):
        tiles = Raster(m, n, batches, split > 1)
        text = "".join(f"    {line}\n" for line in tiles.declare())
        piece = "piece" if split > 1 else "0"
        sources.append(
            f"TW_KERNEL(32, 1) void tiles{number}(const int *x0, int *out, unsigned char *ws, int GROUP) {{\n{text}"
            f"    if (threadIdx.x == 0) {{\n        const int at = (({piece} * {batches} + batch) * {m} + tile_m) * {n} + tile_n;\n"
            "        tw::store_global(out + at, (int)blockIdx.x);\n    }\n}\n"
        )
        blocks = m * n * batches * split
        assert tiles.blocks == (["*", "SPLIT", m * n * batches] if split > 1 else blocks)
        launches.append((number, blocks, group))
    unit = prelude(SM80, emulated=True) + '#line 1 "kernel"\n' + "".join(sources)
    kernel = build(unit, [f"tiles{number}" for number, _, _ in launches])
    for number, blocks, group in launches:
        launch = Launch(f"tiles{number}", ("GROUP",), grid=(blocks, 1, 1), block=(32, 1, 1))
        out = np.empty(blocks, np.int32)
        report = run(kernel, LaunchProgram((launch,)), {"GROUP": group}, [np.zeros(1, np.int32)], out)
        assert report.ok, report.bugs
        assert sorted(out) == list(range(blocks))
        m, n = SHAPES[number][:2]
        first = out.reshape(-1, m, n)[0]
        # Blocks that follow each other stay in one group of rows.
        assert len({int(i) for i in np.argsort(first, axis=None)[: group * n] // n}) == min(group, m)


def test_pieces_of_k() -> None:
    c = operator("matmul", m=64, n=64, k=4096)
    for steps in range(1, 300):
        for split in splitk.splits(c, steps):
            per = -(-steps // split)
            assert per * (split - 1) < steps <= per * split
    assert 128 in splitk.splits(c, 256)
    large = operator("matmul", m=8192, n=8192, k=4096)
    assert splitk.splits(large, 256) == ()
