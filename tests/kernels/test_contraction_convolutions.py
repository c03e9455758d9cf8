"""Convolutions of every kind by the contraction template: ways of reading them, and what comes out."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contraction_programs import capsule, conv, transposed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.backends.cpu.targets import parse_target, runs_here
from tilewright.core import Candidate, Schedule, Task, evaluate
from tilewright.extent import Extent, greatest
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.ranges import at
from tilewright.kernels.templates.cpu_contraction import window
from tilewright.kernels.templates.cpu_contraction.match import Contraction, match
from tilewright.kernels.templates.cpu_contraction.store import Epilogue
from tilewright.kernels.templates.cpu_contraction.template import CPU_CONTRACTION
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_kernel, task_of
from tilewright.testing.template import TemplateContract

TEMPLATE = CPU_CONTRACTION
VARIANTS = [
    v for v in ("avx512", "avx2", "portable", "neon") if runs_here(parse_target(f"cpu:{v}", allow_foreign=True))
]
WAY = ("images", "a", "b", "narrow")

PROGRAMS: dict[str, Callable[[], Program]] = {
    "image": lambda: conv(2, (9, 11), 5, 19, 3, 1, 1),
    "image given anew": lambda: conv(2, (9, 11), 5, 19, 3, 1, 1, constant=False),
    "strided": lambda: conv(1, (13, 12), 4, 32, 5, 2, 2, epilogue="b"),
    "dilated": lambda: conv(2, (9, 9), 17, 20, 3, 1, 1, dilation=2),
    "grouped": lambda: conv(2, (8, 8), 16, 64, 3, 1, 1, groups=4),
    "line": lambda: conv(2, (33,), 6, 24, 5, 1, 2),
    "volume": lambda: conv(2, (4, 5, 6), 6, 24, 3, 1, 1),
    "not padded": lambda: conv(2, (9, 9), 6, 24, 3),
    "pointwise": lambda: conv(2, (9, 9), 6, 24, 1, 2),
    "normalised": lambda: conv(2, (7, 6), 5, 35, 3, 1, 1, epilogue="nrm"),
    "gated": lambda: conv(1, (7, 6), 5, 35, 3, 1, 1, epilogue="bg"),
    "rounded": lambda: conv(1, (7, 6), 5, 35, 3, 1, 1, epilogue="nh"),
    "transposed": lambda: transposed(2, 4, 5, 8, 20, 4, 2, 1),
    "transposed given anew": lambda: transposed(2, 4, 5, 8, 20, 4, 2, 1, constant=False),
    "transposed, odd": lambda: transposed(1, 4, 5, 8, 20, 3, 2, 1, extra=1),
    "transposed, odd, whole phases": lambda: transposed(1, 4, 5, 8, 20, 3, 2, 2, extra=1),
    "capsule": lambda: capsule(2, 8, 8, 4, 8, 3, 1, 1, 2),
    "capsule given anew": lambda: capsule(1, 8, 8, 4, 8, 3, 2, 1, 2, constant=False),
    "channels first": lambda: conv(2, (9, 11), 5, 19, 3, 1, 1, layout="first"),
    "channels first, grouped": lambda: conv(2, (8, 8), 8, 16, 3, 2, 1, groups=4, layout="first"),
    "channels first, transposed": lambda: transposed(2, 4, 5, 8, 20, 4, 2, 1, layout="first"),
}

CONTRACT = {
    k: PROGRAMS[k]
    for k in ("image", "normalised", "rounded", "transposed, odd", "capsule given anew", "channels first, transposed")
}


def task(p: Program, threads: int = 1, variant: str = VARIANTS[0]) -> Task:
    return task_of(p, parse_target(f"cpu:{variant}", threads=threads))


def found(p: Program) -> Contraction:
    c = match(p)
    assert c is not None
    return c


TILE = 6
"""Vectors of a register tile of several rows and columns that is no longer than need be."""


def ways(t: Task) -> dict[tuple[Any, ...], Schedule]:
    """A schedule for every way of reading the operands, and for tiles of one line and of several: none of large ones."""
    space, rng = TEMPLATE.space(t), random.Random(1)
    chosen: dict[tuple[Any, ...], Schedule] = {}
    drawn = [space.sample(rng) for _ in range(400)]
    for s in sorted(drawn, key=lambda s: abs(int(s.values["MR"]) * int(s.values["NV"]) - TILE)):
        chosen.setdefault((*(s.values[k] for k in WAY), s.values["MH"] != 1), s)
    return chosen


def verify(t: Task, schedules: list[Schedule], inputs: list[Any]) -> None:
    program = Program.loads(t.workload.program)
    candidates = [Candidate(t, s) for s in schedules]
    kernels = [TEMPLATE.lower(c) for c in candidates]
    library = compile_kernels(kernels, t.target)
    for c, kernel in zip(candidates, kernels, strict=True):
        got = run_kernel(library, kernel, launch_values(c), inputs, t.workload.output, t.target.threads, 7)
        try:
            check(program, inputs, got)
        except AssertionError as e:
            raise AssertionError(f"{dict(c.schedule.values)}: {e}") from None


# ------------------------------------------------------------------ axes


def test_channels_last_axes() -> None:
    c = found(conv(2, (9, 11), 5, 19, 3, 1, 1))
    assert (c.m.axes, c.n.axes, c.k.axes, c.batch.axes) == (("i0", "i1", "i2"), ("i3",), ("r0", "r1", "r2"), ())
    assert c.b.affine is not None
    assert c.k.stride(c.b.affine) == 19


def test_groups_are_outer() -> None:
    c = found(conv(2, (8, 8), 16, 64, 3, 1, 1, groups=4))
    assert (c.batch.extents, c.n.extents, c.m.extents) == ((4,), (16,), (2, 8, 8))


def test_phases_of_a_transposed_convolution_are_outer() -> None:
    c = found(transposed(2, 4, 5, 8, 20, 4, 2, 1))
    assert (c.batch.extents, c.m.extents, c.n.extents) == ((2, 2), (2, 4, 5), (20,))
    assert len(c.atoms) == 4  # (f + 1) // 2 and (f + 1) % 2 of both phases
    assert c.in_place


def test_columns_of_a_transposed_convolution_with_channels_first_lie_apart() -> None:
    c = found(transposed(2, 4, 5, 8, 20, 4, 2, 1, layout="first"))
    assert c.n_step == 2
    assert not c.in_place


def test_capsule_columns_can_be_outer() -> None:
    c = found(capsule(2, 8, 8, 4, 8, 3, 1, 1, 2))
    assert c.n.size == 16
    assert c.narrow is not None
    assert (c.narrow.n.size, c.narrow.batch.size) == (8, 2)
    assert found(conv(2, (9, 9), 6, 24, 3)).narrow is None


def test_maps_in_front_are_computed_on_the_way_in() -> None:
    x, w = te.input("x", (6, 5)), te.input("w", (5, 7), "int8")
    wide = te.compute((5, 7), lambda k, j: te.cast(w[k, j], "float32") * 0.25)
    turned = te.compute((5, 6), lambda k, i: x[i, k])
    p, _ = te.program(te.compute((6, 7), lambda i, j: te.sum(5, lambda r: turned[r, i] * wide[r, j])))
    c = found(p)
    assert c.a.tensor == "x0"
    t = task(p)
    verify(t, [TEMPLATE.default(t)], random_arrays(p))


# ------------------------------------------------------------------ windows


def test_a_padded_copy_holds_what_the_window_touches() -> None:
    image = window.image(found(conv(2, (9, 11), 5, 19, 3, 1, 1)))
    assert image is not None
    assert (image.low, image.shape) == ((0, -1, -1, 0), (2, 11, 13, 5))
    short = window.image(found(conv(1, (13, 12), 4, 32, 5, 3, 2)))  # strides leave the last rows out
    assert short is not None
    assert (short.low, short.shape) == ((0, -2, -2, 0), (1, 17, 14, 4))


def test_row_ranges_of_a_clipped_loop() -> None:
    c = found(conv(2, (9, 11), 5, 19, 3, 1, 1))
    clip = window.clip(c)
    assert clip is not None
    assert clip.axis == "r1"
    assert {a for a, _ in clip.ranges} == {"r0"}
    table = window.table(c, clip, ((0, 6), (6, 5)))
    assert table is not None
    spans = [[table.variants[e] for e in trips] for trips in table.entries[0]]
    assert spans == [[(1, 6), (0, 6), (0, 6)], [(0, 6), (0, 6), (0, 4)]]


def open_pictures(kernel: int, stride: int, pad: int) -> Program:
    return conv(Extent(2, 1, "n"), (Extent(9, 1, "h"), Extent(33, 1, "w")), 5, 19, kernel, stride, pad)


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "pairs"),
    [(3, 1, 1, [(0, 0), (1, 0), (0, 1)]), (3, 2, 1, [(0, 0), (1, 0), (0, 1)]),
     (5, 1, 2, [(0, 0), (2, 0), (1, 0), (0, 1), (0, 2)])],
)  # fmt: skip
def test_tiles_of_an_open_width_lose_rows_at_its_ends_alone(
    kernel: int, stride: int, pad: int, pairs: list[tuple[int, int]]
) -> None:
    c = found(open_pictures(kernel, stride, pad))
    clip = window.clip(c)
    assert clip is not None
    cuts = window.cuts(c, clip, 14)
    assert cuts is not None
    assert list(cuts.pairs) == pairs
    assert window.cuts(c, clip, 1) is None or pad == 1  # two rows may be lost, by two tiles


def test_a_guard_that_is_about_more_than_edges_is_not_copied() -> None:
    c = found(transposed(1, 4, 5, 8, 20, 3, 2, 1, extra=1))
    assert window.image(c) is None
    assert window.clip(c) is not None


@pytest.mark.parametrize("reduce", [te.max, te.prod])
def test_only_sums_of_products_skip_their_padding(reduce: Callable[..., te.Reduction]) -> None:
    x, w = te.input("x", (9, 4)), te.input("w", (3, 4, 7), constant=True)
    p, _ = te.program(te.compute((9, 7), lambda i, o: reduce(
        (3, 4), lambda r, c: te.select((i + r >= 1) & (i + r < 10), x[i + r - 1, c], 0.0) * w[r, c, o])))  # fmt: skip
    assert window.clip(found(p)) is None
    t = task(p)
    chosen = ways(t)
    assert "copy" in {w[1] for w in chosen}
    verify(t, list(chosen.values()), random_arrays(p))


def test_only_constant_weights_are_rearranged() -> None:
    for constant in (True, False):
        t = task(conv(2, (9, 11), 5, 19, 3, 1, 1, constant=constant))
        seen = {w[1:3] for w in ways(t)}
        assert (("clip", "prepack") in seen) == constant
        assert any(b == "prepack" for _, b in seen) == constant
        assert any(b == "pack" for _, b in seen) == (not constant)


def test_a_constant_that_the_epilogue_reads_too_stays() -> None:
    x, w = te.input("x", (6, 7)), te.input("w", (7, 7), constant=True)
    y = te.compute((6, 7), lambda i, j: te.sum(7, lambda r: x[i, r] * w[r, j]))
    p, _ = te.program(te.compute((6, 7), lambda i, j: y[i, j] + w[i, j]))
    assert {w[2] for w in ways(task(p))} == {"direct", "pack"}


def test_rearranged_weights_take_the_size_of_their_panels() -> None:
    t = task(conv(1, (9, 9), 16, 40, 3, 1, 1), variant="portable")
    s = next(s for s in ways(t).values() if s.values["b"] == "prepack")
    program = TEMPLATE.lower(Candidate(t, s)).program
    (pack,) = program.prepack
    assert pack.input == 1
    assert int(evaluate(pack.bytes, {})) >= 9 * 16 * 40 * 4


# ------------------------------------------------------------------ defaults


def by_default(p: Program) -> dict[str, Any]:
    target = replace(parse_target("cpu:avx512", allow_foreign=True), l2_bytes=1 << 20, l3_bytes=16 << 20)
    return dict(TEMPLATE.default(task_of(p, target)).values)


def test_small_padded_copies_are_made_and_large_ones_are_not() -> None:
    assert by_default(conv(1, (30, 30), 3, 64, 7, 2, 3))["a"] == "copy"  # trips of 3 elements
    assert by_default(conv(1, (224, 224), 3, 64, 7, 2, 3))["a"] == "clip"
    assert by_default(conv(4, (30, 30), 16, 64, 3, 1, 1))["a"] == "clip"  # trips of 16
    assert by_default(capsule(4, 16, 16, 8, 16, 3, 2, 1, 4))["a"] == "clip"  # trips of 4 * 8


def test_phases_share_an_image_where_all_weights_stay_in_cache() -> None:
    assert by_default(transposed(16, 16, 16, 128, 64, 4, 2, 1))["images"] == 1
    assert by_default(transposed(16, 4, 4, 512, 256, 4, 2, 1))["images"] == 16


@pytest.mark.parametrize(("dilation", "hidden"), [(2, True), (3, False)])
def test_elements_that_rows_share_are_read_again(dilation: int, hidden: bool) -> None:
    """Two rows meet where a multiple of the stride is one of the dilation, within the window."""
    t = task(conv(1, (15, 18), 3, 32, 3, 4, 2, dilation=dilation))
    copies = (s for s in ways(t).values() if s.values["a"] == "copy" and int(s.values["MR"]) > 1)
    source = TEMPLATE.lower(Candidate(t, next(copies))).source
    assert ("__asm__" in source) == hidden


# ------------------------------------------------------------------ epilogues


def epilogue(p: Program) -> Epilogue:
    from tilewright.kernels.templates.cpu_contraction.geometry import plan

    t = task(p)
    return Epilogue(plan(found(p), t.target, TEMPLATE.default(t).values))


def test_what_depends_on_columns_only_is_computed_once() -> None:
    e = epilogue(conv(2, (7, 6), 5, 35, 3, 1, 1, epilogue="nrm"))
    assert len(e.tables) == 1
    assert e.vector


def test_an_epilogue_that_leaves_the_accumulators_their_registers_is_done_there() -> None:
    assert epilogue(conv(2, (7, 6), 5, 19, 3, 1, 1, epilogue="bm")).inline
    crowded = epilogue(conv(2, (14, 14), 5, 32, 3, 1, 1, epilogue="nrm"))
    assert crowded.p.rows * crowded.p.vectors + len(crowded.reads) + 2 > crowded.p.target.registers
    assert crowded.pass_over


def test_costly_functions_of_the_sum_are_a_pass_over_the_tile() -> None:
    e = epilogue(conv(1, (7, 6), 5, 35, 3, 1, 1, epilogue="bg"))
    assert e.pass_over
    assert e.vector


def test_a_narrow_result_is_rounded_as_it_is_stored() -> None:
    e = epilogue(conv(1, (7, 6), 5, 35, 3, 1, 1, epilogue="nh"))
    assert e.narrowed
    assert e.vector


def test_nothing_is_computed_in_sixteen_bits() -> None:
    x, w = te.input("x", (6, 5)), te.input("w", (5, 7))
    y = te.compute((6, 7), lambda i, j: te.sum(5, lambda r: x[i, r] * w[r, j]))
    h = te.compute((6, 7), lambda i, j: te.cast(y[i, j], "float16"))
    p, _ = te.program(te.compute((6, 7), lambda i, j: h[i, j] + h[i, j]))
    assert not TEMPLATE.matches(task(p))


# ------------------------------------------------------------------ results


class TestConvolutions(TemplateContract):
    templates = ("cpu_contraction",)
    programs = CONTRACT
    schedules = 1


@pytest.mark.parametrize("case", [k for k in PROGRAMS if k not in CONTRACT])
def test_the_default_on_three_threads(case: str) -> None:
    t = task(PROGRAMS[case](), threads=3)
    verify(t, [TEMPLATE.default(t)], random_arrays(Program.loads(t.workload.program), 3))


@pytest.mark.parametrize("case", ["image", "transposed", "capsule"])
def test_every_way_gives_the_same(case: str) -> None:
    t = task(PROGRAMS[case](), threads=3)
    verify(t, list(ways(t).values()), random_arrays(Program.loads(t.workload.program), 3))


@pytest.mark.parametrize("case", ["image", "transposed"])
def test_weights_that_are_not_finite_reach_the_edges_too(case: str) -> None:
    """A padding element is a zero, and zero times an infinite weight is NaN: also where such steps are skipped."""
    p = PROGRAMS[case]()
    t = task(p, threads=3)  # the kernels of test_every_way_gives_the_same
    inputs = random_arrays(p, 5)
    inputs[1].reshape(-1)[5] = np.inf
    inputs[1].reshape(-1)[-3] = np.nan
    inputs[0].reshape(-1)[3] = np.nan
    with np.errstate(invalid="ignore"):
        verify(t, list(ways(t).values()), inputs)


def test_kernels_of_ranges_clip_windows_where_exact_ones_do() -> None:
    """At every kind of edge, of weights that are not finite too; one kernel for all sizes."""
    whole = task(open_pictures(3, 1, 1))
    high = greatest(whole.workload.ranges)
    exact = Task(at(whole.workload, high), whole.target)
    schedule = next(s for s in ways(exact).values() if s.values["a"] == "clip" and int(s.values["MR"]) > 1)
    kernel = TEMPLATE.lower(Candidate(whole, schedule.at(high)))
    assert "pack_a" not in kernel.source
    library = compile_kernels([kernel], whole.target)
    for turn, (n, h, w) in enumerate([(1, 1, 1), (1, 2, 33), (2, 9, 2), (1, 3, 17), (2, 4, 32), (1, 1, 7)]):
        sizes = {"n": n, "h": h, "w": w}
        one = at(whole.workload, sizes)
        inputs = random_arrays(Program.loads(one.program), turn)
        if turn % 2:
            inputs[1].reshape(-1)[5] = np.inf
            inputs[1].reshape(-1)[-3] = np.nan
        launch = launch_values(Candidate(whole, schedule.at(sizes)))
        got = run_kernel(library, kernel, launch, inputs, one.output, 1, 7)
        with np.errstate(invalid="ignore"):
            check(Program.loads(one.program), inputs, got)


@pytest.mark.nightly
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("case", list(PROGRAMS))
def test_every_way_everywhere(case: str, variant: str, threads: int) -> None:
    t = task(PROGRAMS[case](), threads, variant)
    space, rng = TEMPLATE.space(t), random.Random(4)
    verify(t, [*ways(t).values(), *(space.sample(rng) for _ in range(8))], random_arrays(PROGRAMS[case](), 4))


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    n=st.integers(1, 2), size=st.lists(st.integers(3, 9), min_size=1, max_size=2).map(tuple), ci=st.integers(1, 5),
    co=st.integers(2, 20), k=st.integers(1, 3), stride=st.integers(1, 3), pad=st.integers(0, 2),
    dilation=st.integers(1, 2), groups=st.integers(1, 2), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_schedule_of_any_convolution_is_right(
    seed: int, groups: int, pad: int, k: int, dilation: int, **params: Any
) -> None:
    if dilation * (k - 1) + 1 > min(params["size"]) + 2 * pad:
        return
    params["ci"] *= groups
    params["co"] *= groups
    p = conv(groups=groups, pad=pad, k=k, dilation=dilation, **params)
    t = task(p)
    if TEMPLATE.matches(t):
        rng = random.Random(seed)
        chosen = list(ways(t).values())
        verify(t, rng.sample(chosen, min(2, len(chosen))), random_arrays(p, seed))
