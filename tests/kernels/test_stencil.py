"""The CPU stencil template: its contract, what it refuses, and how it treats edges."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from stencil_programs import PROGRAMS, causal, smooth, window

from tilewright.backends import get_backend
from tilewright.core import Candidate, Schedule, Target
from tilewright.extent import Extent
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template, templates_for
from tilewright.kernels.templates.cpu_stencil.match import match
from tilewright.kernels.templates.cpu_stencil.space import loads, spans
from tilewright.kernels.templates.cpu_stencil.spans import symbolic_levels
from tilewright.testing import programs
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_kernel, task_of
from tilewright.testing.schedules import covering
from tilewright.testing.template import TemplateContract

PORTABLE = Target("cpu", "portable", "x86_64", (), 16, 16)
STENCIL = get_template("cpu_stencil")
FEW = {
    name: PROGRAMS[name]
    for name in (
        "nhwc", "nhwc_stride", "nhwc_multiplier3", "nhwc_halves", "nhwc_max", "nhwc_global", "nchw_norm", "nchw_stride",
        "nchw_max_bytes", "line_first", "volume_last", "residual_first", "smooth", "local_distance",
    )
}  # fmt: skip


class TestStencil(TemplateContract):
    templates = ("cpu_stencil",)
    programs = FEW
    schedules = 1


@pytest.mark.nightly
class TestStencilThoroughly(TemplateContract):
    templates = ("cpu_stencil",)
    programs = PROGRAMS
    schedules = 6
    targets = ("cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")


def convolution(layout: str, groups: int = 1) -> Program:
    """A convolution that shares its output channels' axis: a contraction."""
    c, h, k, co = 4, 6, 3, 8
    each, per = c // groups, co // groups
    last = layout == "NHWC"
    x = te.input("x", (1, h, h, c) if last else (1, c, h, h))
    w = te.input("w", (k, k, each, co) if last else (co, each, k, k))

    def channel(o: te.Expr, q: te.Expr) -> te.Expr:
        return q if groups == 1 else o // per * each + q

    if last:
        return te.program(te.compute((1, h - 2, h - 2, co), lambda n, i, j, o: te.sum(
            (k, k, each), lambda r, s, q: x[n, i + r, j + s, channel(o, q)] * w[r, s, q, o])))[0]  # fmt: skip
    return te.program(te.compute((1, co, h - 2, h - 2), lambda n, o, i, j: te.sum(
        (each, k, k), lambda q, r, s: x[n, channel(o, q), i + r, j + s] * w[o, q, r, s])))[0]  # fmt: skip


def row_sums() -> Program:
    x = te.input("x", (20, 30))
    return te.program(te.compute((20,), lambda i: te.sum(30, lambda r: x[i, r])))[0]


def column_sums() -> Program:
    x = te.input("x", (20, 30))
    return te.program(te.compute((30,), lambda i: te.sum(20, lambda r: x[r, i])))[0]


def gathered() -> Program:
    x, at = te.input("x", (40,)), te.input("at", (30,), "int32")
    return te.program(te.compute((30,), lambda i: te.sum(3, lambda r: x[at[i] + r])))[0]


def triangle() -> Program:
    """A condition on two output axes."""
    x = te.input("x", (22, 42))
    return te.program(te.compute((20, 40), lambda i, j: te.sum((3, 3), lambda r, s: te.select(
        i + r <= j + s, x[i + r, j + s], 0.0))))[0]  # fmt: skip


def two_paddings() -> Program:
    x, y = te.input("x", (40,)), te.input("y", (40,))

    def read(t: te.TensorRef, at: te.Expr, pad: int) -> te.Expr:
        return te.select((at >= pad) & (at < 40 + pad), t[at - pad], 0.0)

    return te.program(te.compute((38,), lambda i: te.sum(3, lambda r: read(x, i + r, 1) * read(y, i + r, 2))))[0]


def scanned() -> Program:
    """An average of a running maximum, which a window does not give."""
    x = te.input("x", (40,))
    top = te.compute((40,), lambda i: te.max(4, lambda r: x[te.minimum(i + r, 39)]))
    return te.program(te.compute((38,), lambda i: te.sum(3, lambda r: top[i + r])))[0]


@pytest.mark.parametrize(
    "build",
    [
        programs.matmul, programs.softmax, programs.argmax, programs.welford, programs.transpose, row_sums, column_sums,
        gathered, two_paddings, scanned, lambda: convolution("NHWC"), lambda: convolution("NCHW"),
        lambda: convolution("NHWC", 2), lambda: convolution("NCHW", 2),
    ],
)  # fmt: skip
def test_other_programs_are_refused(build: Callable[[], Program]) -> None:
    assert not STENCIL.matches(task_of(build(), PORTABLE))


def test_no_block_lies_along_an_axis_that_shares_a_condition() -> None:
    task = task_of(triangle(), PORTABLE)
    if STENCIL.matches(task):
        assert {dict(s.values)["block"] for s in STENCIL.space(task)} == {"none"}


def test_cpu_stencil_comes_before_the_contraction_template() -> None:
    task = task_of(window("NCHW", 1, 4, (8, 8), (3, 3)), PORTABLE)
    assert templates_for(task)[0].name == "cpu_stencil"


def test_spans_cover_an_axis_once_and_mark_the_edges() -> None:
    found = match(window("NHWC", 1, 8, (30, 31), (5, 5), 2, 2))
    assert found is not None
    for size in range(1, 17):
        for axis, source in (("i1", 30), ("i2", 31)):
            at = 0
            for s in spans(found, axis, size):
                assert s.start == at
                at += s.size * s.count
                inside = [p * 2 - 2 >= 0 and p * 2 + 2 < source for p in range(s.start, at)]
                assert all(inside) == s.inside or s.count == 1
                assert all(inside) or s.count == 1
            assert at == found.ranges[axis]


@pytest.mark.parametrize(
    ("before", "after", "stride"), [(1, 1, 1), (1, 0, 2), (2, 2, 1), (3, 3, 1), (0, 0, 1), (2, 0, 1), (0, 1, 1)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_blocks_of_an_open_axis_cover_it_at_every_size(before: int, after: int, stride: int, masked: bool) -> None:
    """Runs stay inside, or ask; what stands at an edge does so for the sizes that it is printed for."""
    source = Extent(61, 1, "s")
    extent = (source + stride - 1) // stride
    ends = (extent, (source - 1 - after) // stride + 1) if after or stride > 1 else (extent,)
    assert isinstance(extent, Extent)
    for size in (1, 2, 3, 8):
        levels = symbolic_levels(extent, before, ends, (size,) if masked else (size, 1), (size,) if masked else ())
        for s in range(1, 62):
            length, end = extent.at({"s": s}), min(e.at({"s": s}) if isinstance(e, Extent) else e for e in ends)
            level = next((x for x in levels if length >= x.least), None)
            assert level is not None
            covered = set[int]()
            for span in level.spans:
                starts = [span.start.at({"s": s}) if isinstance(span.start, Extent) else span.start]
                if span.last:
                    past, last = valued(span.end, s), valued(span.last, s)
                    starts = [min(at, last) for at in range(span.start, past, span.size)]
                    asked = [bool(span.unless) and valued(span.unless.format(at), s) for at in starts]
                    inside = [before <= at and at + span.size <= end for at in starts]
                    assert all(a or b for a, b in zip(asked, inside, strict=True))
                elif span is not level.spans[0] and level.spans[0].count == 1 and starts[0] <= 0:
                    continue  # the last block is none where the first one is all
                assert not starts or all(low <= s <= high for _, (low, high) in span.sizes)
                assert span.masked or all(at + span.size <= length for at in starts)
                covered |= {at + k for at in starts for k in range(span.size)}
            assert covered >= set(range(length))


def valued(text: str, s: int) -> int:
    """What a C text is at a size."""
    plain = re.sub(r"(\d)L", r"\1", text).replace("tw::imin", "min").replace("||", "or").replace("/", "//")
    return int(eval(plain, {"extent_s": s, "min": min}))


def run(program: Program, inputs: list[np.ndarray]) -> np.ndarray:  # type: ignore[type-arg]
    target = get_backend("cpu").targets(1)[0]
    task = task_of(program, target)
    candidate = Candidate(task, STENCIL.default(task))
    kernel = STENCIL.lower(candidate)
    return run_kernel(
        compile_kernels([kernel], target), kernel, launch_values(candidate), inputs, task.workload.output
    )  # fmt: skip


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_padding_is_multiplied_like_any_element(layout: str) -> None:
    """0 times an infinite weight is NaN at the edges, as it is where the padding is stored."""
    program = window(layout, 1, 20, (6, 20), (3, 3), 1, 1)
    x, w = (np.abs(a) for a in random_arrays(program))
    w.reshape(-1, 20)[0] = np.inf if layout == "NHWC" else w.reshape(-1, 20)[0]
    if layout == "NCHW":
        w[:, 0, 0, 0] = np.inf
    got = run(program, [x, w])
    got = got if layout == "NHWC" else np.moveaxis(got, 1, -1)
    assert np.isnan(got[0, 0]).all()
    assert np.isnan(got[0, :, 0]).all()
    assert np.isinf(got[0, 1:, 1:]).all()


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_the_largest_of_a_window_with_nan_is_nan(layout: str) -> None:
    program = window(layout, 1, 20, (9, 20), (3, 3), 1, 1, kind="max")
    (x,) = random_arrays(program)
    last = x if layout == "NHWC" else np.moveaxis(x, 1, -1)
    last[0, 4, 7, :] = np.nan
    last[0, 0, 0, :] = -np.inf
    got = run(program, [x])
    got = got if layout == "NHWC" else np.moveaxis(got, 1, -1)
    expected = np.zeros((9, 20), bool)
    expected[3:6, 6:9] = True
    assert (np.isnan(got[0]).all(axis=-1) == expected).all()
    assert np.isfinite(got[0, 0, 0]).all()


def test_padding_with_another_value_than_the_identity() -> None:
    w = np.array([1, 0, 0, 0, 100], np.float32)
    x = np.arange(45, dtype=np.float32)
    got = run(smooth(), [x, w])
    assert got[:2].tolist() == [0.5 + 200, 0.5 + 300]
    assert got[-1] == 42 + 50


def test_products_that_a_condition_leaves_out_are_zero() -> None:
    x, w, gate = random_arrays(causal())
    w[0, 3] = np.inf
    got = run(causal(), [x, w, gate])
    expected = evaluate(causal(), [x, w, gate])
    np.testing.assert_array_equal(np.isfinite(got), np.isfinite(expected))
    assert np.isfinite(got[:3]).all(), "the first tap is outside"
    assert not np.isfinite(got[3:, 3]).any()


def small(schedule: Schedule) -> bool:
    """Whether blocks are small: a program's edges lie beside them too, and there is less to compile."""
    return int(schedule.values["size"]) * int(schedule.values["rows"]) <= 6


@pytest.mark.parametrize("name", ["nhwc", "nhwc_stride", "nhwc_mean", "nchw_norm"])
def test_large_outputs_may_be_stored_past_the_caches(name: str) -> None:
    """Orders and blocks; no such knob where the output is small, or its vectors are not whole."""
    program = PROGRAMS[name]()
    few = dataclasses.replace(PORTABLE, l2_bytes=64)
    task = task_of(program, few, name)
    assert "stream" not in STENCIL.default(task_of(program, PORTABLE, name)).values
    space, rng = STENCIL.space(task), random.Random(name)
    chosen = [space.sample(rng) for _ in range(40)]
    streamed = covering((s for s in chosen if s.values["stream"] and small(s)), 3)
    assert len(streamed) == 3
    kernels = [STENCIL.lower(Candidate(task, s)) for s in streamed]
    library = compile_kernels(kernels, few)
    inputs = random_arrays(program, 3)
    expected = evaluate(program, inputs)
    for s, kernel in zip(streamed, kernels, strict=True):
        assert "streamed();" in kernel.source
        got = run_kernel(library, kernel, launch_values(Candidate(task, s)), inputs, task.workload.output)
        check(program, inputs, got, expected)


@pytest.mark.parametrize("name", ["nhwc", "nhwc_stride", "nhwc_max", "nhwc_multiplier3", "volume_last"])
def test_a_block_of_two_axes_is_right_at_every_edge_and_in_every_order(name: str) -> None:
    program = PROGRAMS[name]()
    task = task_of(program, get_backend("cpu").targets(1)[0], name)
    space, rng = STENCIL.space(task), random.Random(name)
    drawn = [s for s in (space.sample(rng) for _ in range(200)) if int(s.values["rows"]) > 1]
    # Of each order the smallest block of several outputs along both axes, if there is one: in loops over the window.
    drawn.sort(
        key=lambda s: (s.values["size"] == 1, int(s.values["size"]) * int(s.values["rows"]), not s.values["rolled"]),
        reverse=True,
    )
    chosen = {s.values["order"]: s for s in drawn}
    assert len(chosen) == len({c for k in space.knobs if k.name == "order" for c in k.values})
    inputs = random_arrays(program, 3)
    expected = evaluate(program, inputs)
    kernels = [STENCIL.lower(Candidate(task, s)) for s in chosen.values()]
    library = compile_kernels(kernels, task.target)
    for s, kernel in zip(chosen.values(), kernels, strict=True):
        got = run_kernel(library, kernel, launch_values(Candidate(task, s)), inputs, task.workload.output)
        check(program, inputs, got, expected)


def test_a_block_of_two_axes_reads_an_element_for_fewer_outputs() -> None:
    found = match(window("NHWC", 1, 64, (30, 30), (3, 3)))
    assert found is not None
    assert loads(found, {"i1": 1}) == 9
    assert loads(found, {"i1": 4}) == 6 * 3 / 4
    assert loads(found, {"i1": 4, "i2": 4}) == 36 / 16
    # 28 outputs in blocks of 3 are nine and a block of one
    assert loads(found, {"i1": 3}) == 5 * 3 / (28 / 10)


def test_the_default_of_channels_last_blocks_two_axes_within_its_registers() -> None:
    for target in get_backend("cpu").targets(1):
        task = task_of(window("NHWC", 1, 64, (30, 30), (3, 3), 1, 1), target)
        values = STENCIL.default(task).values
        assert int(values["rows"]) > 1
        assert int(values["rows"]) * int(values["size"]) <= target.registers
