"""What the contraction template matches, the space it spans, and what it says about its loops."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate, IllegalSchedule, Target, Task, evaluate
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.cpu_contraction.match import Contraction, match
from tilewright.kernels.templates.cpu_contraction.template import CPU_CONTRACTION
from tilewright.kernels.templates.tiles import Blocks, balanced
from tilewright.testing.kernels import task_of

TEMPLATE = CPU_CONTRACTION
AVX512 = parse_target("cpu:avx512", allow_foreign=True)


def program(op: str, **params: int | bool | str) -> Program:
    return Program.loads(get_operator(op).workload(**params).program)


def task(p: Program, target: Target = AVX512) -> Task:
    return task_of(p, target)


def found(p: Program) -> Contraction:
    c = match(p)
    assert c is not None
    return c


def two(body: Callable[[te.Expr, te.Expr], te.Expr], reduce: Callable[..., te.Reduction] = te.sum) -> Program:
    x, y = te.input("x", (6, 5)), te.input("y", (7, 5))
    return te.program(te.compute((6, 7), lambda i, j: reduce(5, lambda r: body(x[i, r], y[j, r]))))[0]


# ------------------------------------------------------------------ matching


def test_axes_of_a_matmul_are_found() -> None:
    c = found(program("matmul", m=4, n=5, k=6))
    assert (c.m.axes, c.n.axes, c.k.axes, c.batch.axes) == (("i0",), ("i1",), ("r0",), ())
    assert (c.a.tensor, c.b.tensor, c.out_strides["i0"]) == ("x0", "x1", 5)


def test_vectors_lie_along_the_innermost_output_axis_that_is_not_1() -> None:
    c = found(program("matmul", m=4, n=1, k=6))
    assert c.n.axes == ("i0",)
    assert c.m.axes == ()
    assert (c.a.tensor, c.b.tensor) == ("x1", "x0")


def test_batch_is_outer() -> None:
    c = found(program("batch_matmul", b=3, m=4, n=5, k=6))
    assert (c.batch.axes, c.m.axes, c.n.axes) == (("i0",), ("i1",), ("i2",))


def test_axes_of_a_convolution_are_found() -> None:
    c = found(program("conv2d", n=2, ci=3, h=9, w=9, co=4, kh=3, kw=3, padding=1))
    # Output n, co, ho, wo: pixels fuse into N, channels are M; images do not fuse with pixels.
    assert (c.batch.axes, c.m.axes, c.n.axes) == (("i0",), ("i1",), ("i2", "i3"))
    assert c.k.size == 27
    assert c.b.affine is None
    assert c.a.affine is not None
    assert c.m.stride(c.a.affine) == 27
    assert c.k.stride(c.a.affine) == 1


def test_pointwise_convolution_reads_its_image_in_place() -> None:
    c = found(program("conv2d", n=1, ci=3, h=9, w=9, co=4, kh=1, kw=1))
    assert c.b.affine is not None
    assert c.n.stride(c.b.affine) == 1
    assert c.k.stride(c.b.affine) == 81


@pytest.mark.parametrize(
    ("body", "reduce"),
    [
        (lambda a, b: (a - b) ** 2, te.sum),
        (lambda a, b: te.abs(a - b), te.max),
        (lambda a, b: te.abs(a - b), te.min),
        (lambda a, b: 1.0 + a * b, te.prod),
        (lambda a, b: te.maximum(te.exp(a), 0.5) * te.abs(b) + te.maximum(te.exp(a), 0.5), te.sum),
        (lambda a, b: te.select(a < b, a, b), te.sum),
    ],
)
def test_any_function_of_two_sides_matches(
    body: Callable[[te.Expr, te.Expr], te.Expr], reduce: Callable[..., te.Reduction]
) -> None:
    assert TEMPLATE.matches(task(two(body, reduce)))


def test_factors_of_a_product_are_regrouped_by_side() -> None:
    x, s, y, t = te.input("x", (6, 5)), te.input("s", (6,)), te.input("y", (5, 7)), te.input("t", (5,))
    p, _ = te.program(te.compute((6, 7), lambda i, j: te.sum(5, lambda r: x[i, r] * y[r, j] * s[i] * t[r])))
    c = found(p)
    assert {str(v.value) for v in c.a.value.loads()} == {"x0", "x1", "x3"}
    assert c.b.tensor == "x2"


def test_one_tensor_may_be_on_both_sides() -> None:
    x = te.input("x", (6, 5))
    p, _ = te.program(te.compute((6, 6), lambda i, j: te.sum(5, lambda r: x[i, r] * x[j, r])))
    assert found(p).a.tensor == found(p).b.tensor == "x0"


def refused() -> dict[str, Program]:
    x, y, z = te.input("x", (6, 5)), te.input("y", (7, 5)), te.input("z", (6, 7))
    image, taps = te.input("x", (3, 9, 9)), te.input("w", (3, 3, 3))

    def window(c: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return te.select((i >= 0) & (j >= 0) & (i < 9) & (j < 9), image[c, i, j], 0.0)

    half = te.input("half", (6, 5), "float16")
    mean = te.compute((6,), lambda i: te.sum(5, lambda r: x[i, r]))
    product = te.compute((6, 7), lambda i, j: te.sum(5, lambda r: x[i, r] * y[j, r]))
    outputs = {
        "two values on one side": te.compute(
            (6, 7), lambda i, j: te.sum(5, lambda r: x[i, r] * y[j, r] + te.exp(y[j, r]))
        ),
        "a read of both sides' axes": te.compute((6, 7), lambda i, j: te.sum(5, lambda r: x[i, r] * y[j, r] + z[i, j])),
        "16-bit reals": te.compute((6, 7), lambda i, j: te.sum(5, lambda r: te.cast(half[i, r], "float32") * y[j, r])),
        "one operand": te.compute((6,), lambda i: te.sum(5, lambda r: x[i, r])),
        "no output axis": te.compute((1,), lambda i: te.sum(5, lambda r: x[0, r] * y[0, r])),
        "two components": te.compute((6,), lambda i: te.argmax(5, lambda r: x[i, r])),
        "a stage before": te.compute((6, 7), lambda i, j: te.sum(5, lambda r: (x[i, r] - mean[i]) * y[j, r])),
        "a transposed consumer": te.compute((7, 6), lambda j, i: product[i, j] + 1.0),
        "a reduction after": te.compute((6,), lambda i: te.sum(7, lambda j: product[i, j])),
        "depthwise": te.compute(
            (3, 9, 9), lambda c, i, j: te.sum((3, 3), lambda r, s: window(c, i + r - 1, j + s - 1) * taps[c, r, s])
        ),
        "whole numbers": te.compute((6, 7), lambda i, j: te.sum(5, lambda r: te.cast(x[i, r] * y[j, r], "int32"))),
    }
    return {name: te.program(t)[0] for name, t in outputs.items()}


@pytest.mark.parametrize("name", list(refused()))
def test_programs_that_are_no_contraction_are_refused(name: str) -> None:
    assert not TEMPLATE.matches(task(refused()[name]))


# ------------------------------------------------------------------ blocks


@pytest.mark.parametrize("extent", [1, 2, 7, 16, 37, 100, 1000])
@pytest.mark.parametrize("size", [1, 3, 8, 13])
def test_blocks_cover_the_extent_once(extent: int, size: int) -> None:
    largest = next(s for s in range(min(size, extent), 0, -1) if balanced(extent, s))
    b = Blocks(extent, largest)
    at = 0
    for n in range(b.count):
        start = n * b.size - max(0, n - b.full)
        assert start == at
        at += b.size if n < b.full else b.size - 1
    assert at == extent


# ------------------------------------------------------------------ space


SHAPES = [(128, 128, 128), (2048, 2048, 2048), (1, 4096, 4096), (16, 4096, 1024), (1000, 37, 513), (49, 512, 4608), (4, 4, 4), (3, 1, 2), (1, 1000, 1)]  # fmt: skip


@pytest.mark.parametrize("variant", ["avx512", "avx2", "neon", "portable"])
@pytest.mark.parametrize("threads", [1, 2, 6])
def test_space_default_and_nests(variant: str, threads: int) -> None:
    target = parse_target(f"cpu:{variant}", threads=threads, allow_foreign=True)
    rng = random.Random(0)
    for m, n, k in SHAPES:
        t = task(program("matmul", m=m, n=n, k=k), target)
        space = TEMPLATE.space(t)
        schedules = [TEMPLATE.default(t), *(space.sample(rng) for _ in range(5))]
        for s in schedules:
            space.check(s)
            v = s.values
            tile = int(v["MR"]) * int(v["NV"])
            assert tile < target.registers
            (nest,) = TEMPLATE.nests(t, s)
            assert nest.axes == ({"m": m, "n": n, "k": k} if n > 1 else {"m": 1, "n": m, "k": k})
            assert nest.flops_per_point == 2
            packed = {name for name, knob in (("x0", "a"), ("x1", "b")) if v[knob] == "pack"}
            assert {x.tensor for x in nest.staged} == packed or n == 1
            for axis, extent in nest.axes.items():
                steps = [x.step for x in nest.loops if x.axis == axis]
                assert steps[-1] == 1
                assert all(x.extent == extent for x in nest.loops if x.axis == axis)


def test_launch_half_holds_the_blocks_and_leaves_the_source_alone() -> None:
    t = task(program("matmul", m=300, n=300, k=300))
    space, rng = TEMPLATE.space(t), random.Random(0)
    s = space.sample(rng)
    others = [o for o in (space.mutate(rng, s) for _ in range(60)) if o.structure == s.structure]
    assert others
    one = TEMPLATE.lower(Candidate(t, s))
    for o in others:
        two_ = TEMPLATE.lower(Candidate(t, o))
        assert (two_.symbol, two_.source, two_.program) == (one.symbol, one.source, one.program)
    assert {name for name, _ in s.launch} == {"KC", "MC", "NC"}


def test_workspace_holds_the_packed_blocks_of_every_thread_and_the_partial_sums() -> None:
    target = parse_target("cpu:avx512", threads=2, allow_foreign=True)
    t = task(program("matmul", m=64, n=64, k=512), target)
    space, rng = TEMPLATE.space(t), random.Random(1)
    split = next(
        s
        for s in (space.sample(rng) for _ in range(2000))
        if s.values["TK"] == 4 and s.values["a"] == s.values["b"] == "pack"
    )
    size = evaluate(TEMPLATE.lower(Candidate(t, split)).program.workspace, dict(split.launch))  # type: ignore[arg-type]
    v = split.values
    kc, mr = int(v["KC"]), int(v["MR"])
    rows = max(1, min(64, int(v["MC"])) // mr) * mr
    assert size >= 2 * 4 * kc * rows + 3 * 64 * 64 * 4


def test_k_is_whole_when_the_output_cannot_hold_partial_sums() -> None:
    x, y = te.input("x", (40, 300)), te.input("y", (300, 50))
    c = te.compute((40, 50), lambda i, j: te.sum(300, lambda r: x[i, r] * y[r, j]))
    p, _ = te.program(te.compute((40, 50), lambda i, j: te.cast(c[i, j], "float64")))
    space = TEMPLATE.space(task(p))
    (kc,) = [k for k in space.knobs if k.name == "KC"]
    assert kc.values == (300,)


def test_schedules_outside_of_the_space_are_refused() -> None:
    t = task(program("matmul", m=64, n=64, k=64))
    s = TEMPLATE.default(t)
    bad = replace(s, structure=tuple((k, 29 if k in ("MR", "NV") else v) for k, v in s.structure))
    with pytest.raises(IllegalSchedule):
        TEMPLATE.lower(Candidate(t, bad))
    with pytest.raises(IllegalSchedule):
        TEMPLATE.nests(t, replace(s, version=s.version + 1))


def test_source_is_deterministic_and_names_are_its_own() -> None:
    t = task(program("matmul", m=70, n=50, k=33, bias=True, activation="relu"))
    c = Candidate(t, TEMPLATE.default(t))
    one, two_ = TEMPLATE.lower(c), CPU_CONTRACTION.lower(c)
    assert one == two_
    assert f"namespace {c.symbol}_ {{" in one.source
    assert one.program.launches[0].symbol == c.symbol


def test_good_schedules_are_not_rare() -> None:
    """Every register tile in the space keeps the multiply-add units busy for most of its cycles."""
    t = task(program("matmul", m=512, n=512, k=512))
    space, rng = TEMPLATE.space(t), random.Random(2)
    for _ in range(200):
        v = space.sample(rng).values
        r, nv = int(v["MR"]), int(v["NV"])
        cycles = max(r * nv / 2, (r + nv) / 2, 4)
        assert 512 * 512 / 16 / 2 / (-(-512 // r) * -(-32 // nv) * cycles) > 0.8


@pytest.mark.parametrize(("n", "k"), [(3072, 768), (768, 3072), (768, 768), (1000, 2048)])
@pytest.mark.parametrize("l2_kib", [256, 1024])
def test_blocks_of_many_constant_panels_stay_in_the_second_level_cache(n: int, k: int, l2_kib: int) -> None:
    """With 16 registers a block is read from L2 by every tile, whose rows of A stay in L1 meanwhile."""
    target = parse_target("cpu:avx2", allow_foreign=True)
    target = replace(target, l1_bytes=32 << 10, l2_bytes=l2_kib << 10, l3_bytes=16 << 20)
    v = TEMPLATE.default(task(program("matmul", m=128, n=n, k=k, constant="b"), target)).values
    assert (v["b"], v["order"]) == ("prepack", "ij")
    assert (v["MR"], v["NV"]) == (4, 3)  # the fewest reads for twelve multiply-adds
    assert 4 * int(v["NC"]) * int(v["KC"]) <= target.l2_bytes // 2
    assert 4 * int(v["MR"]) * int(v["KC"]) < target.l1_bytes
    assert int(v["KC"]) >= 256


def test_few_constant_panels_are_one_block() -> None:
    target = replace(parse_target("cpu:avx2", allow_foreign=True), l1_bytes=32 << 10, l2_bytes=1 << 20)
    v = TEMPLATE.default(task(program("matmul", m=128, n=384, k=256, constant="b"), target)).values
    assert (v["b"], v["order"], v["NC"]) == ("prepack", "ij", 384)


def test_few_rows_that_fall_into_one_set_of_l1_share_a_tile_of_one_vector() -> None:
    for k, few in ((1024, True), (1000, False)):
        narrow = task(program("matmul", m=1024, n=4, k=k))
        assert (int(TEMPLATE.default(narrow).values["MR"]) <= 8) == few
