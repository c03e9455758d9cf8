"""Elementwise programs with a short innermost axis: what is unrolled, what is read as runs, and the template's contract."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from short_programs import PROGRAMS, complex_product, grey_sum

from tilewright.backends import get_backend
from tilewright.core import Candidate, Target
from tilewright.kernels import te
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.elementwise import elementwise
from tilewright.kernels.templates import default_schedule, get_template, lower
from tilewright.kernels.templates.cpu_map.program import Map, match
from tilewright.testing.kernels import task_of
from tilewright.testing.template import TemplateContract

CPU = get_backend("cpu")


class TestShortAxes(TemplateContract):
    templates = ("cpu_map",)
    programs = PROGRAMS
    schedules = 1


@pytest.mark.nightly
class TestShortAxesThoroughly(TemplateContract):
    templates = ("cpu_map",)
    programs = PROGRAMS
    schedules = 30
    targets = ("cpu:avx512", "cpu:avx2", "cpu:portable", "cpu:neon")


def matched(program: Program) -> Map:
    found = match(program)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "components", "runs"),
    [
        ("complex_product", 2, [(2, 2), (2, 2)]),
        ("complex_scale", 2, [(2, 2)]),
        ("magnitude", 1, [(2, 2)]),
        ("grey_sum", 1, [(3, 3)]),
        ("colours_turned", 3, [(3, 3)]),
        ("quaternion_product", 4, [(4, 4), (4, 4)]),
        ("butterfly_second", 8, [(8, 8)]),
        ("channels_last", 3, []),
    ],
)
def test_short_axes_are_components(name: str, components: int, runs: list[tuple[int, int]]) -> None:
    """Everything is read as whole vectors: how many neighbours are taken apart, and how many of them are used."""
    (segment,) = (found := matched(PROGRAMS[name]())).segments
    assert found.components == components
    assert [(r.size, len(r.reads)) for r in segment.runs] == runs


def test_runs_end_with_their_tensor() -> None:
    """Where neighbours might lie behind a tensor's end, the last ones are not read."""
    for name, spare in (("pairs_of_an_odd_row", [0, 1]), ("channels_first", [2]), ("complex_product", [0, 0])):
        assert [r.spare for s in matched(PROGRAMS[name]()).segments for r in s.runs] == spare


def test_a_border_leaves_the_pixels_inside_whole() -> None:
    """Conditions of rows guard what is read of them; those of columns cut the row."""
    found = matched(PROGRAMS["image_padded"]())
    assert [(s.low, s.high, len(s.runs)) for s in found.segments] == [(0, 2, 0), (2, 31, 1), (31, 34, 0)]
    (run,) = found.segments[1].runs
    assert len(run.when) == 1
    assert run.when[0].axes() == set(found.outer)


def test_reads_that_are_no_runs_leave_the_axis_as_it_is() -> None:
    """Pixels of a transposed image lie far apart: a vector would gather them one by one."""
    x = te.input("x", (40, 50, 3))
    assert matched(te.program(te.compute((50, 40, 3), lambda i, j, c: x[j, i, c]))[0]).components == 1
    pairs = te.input("pairs", (40, 2), "bool")
    assert matched(te.program(te.compute((40, 2), lambda i, c: pairs[i, c] & pairs[i, 1 - c]))[0]).components == 1


def test_short_sums_come_first_and_others_are_no_maps() -> None:
    target = CPU.targets(1)[0]
    assert default_schedule(task_of(grey_sum(), target)).template == "cpu_map"
    x, y = te.input("x", (40, 3)), te.input("y", (3, 40))
    wide, columns = te.input("wide", (40, 5)), te.input("columns", (3, 40))
    product = te.compute((40, 40), lambda i, j: te.sum(3, lambda k: x[i, k] * y[k, j]))
    for other in (
        product,
        te.compute((40,), lambda i: te.sum(5, lambda k: wide[i, k])),
        te.compute((40,), lambda i: te.sum(3, lambda k: columns[k, i])),
        te.compute((40,), lambda i: te.argmax(3, lambda k: x[i, k])),
    ):
        assert elementwise(te.program(other)[0]) is None


def test_lanes_stay_in_order_where_their_places_count() -> None:
    target = CPU.targets(1)[0]
    for name, ordered in (("complex_product", "false"), ("complex_scale", "true"), ("mixed_widths", "true")):
        task = task_of(PROGRAMS[name](), target)
        source = lower(Candidate(task, default_schedule(task))).source
        assert f"tw::together<{ordered}>" in source
    # Vectors of doubles hold a pair in 16 bytes, not four of them.
    task = task_of(PROGRAMS["quaternion_product_double"](), target)
    assert "tw::together<true>" in lower(Candidate(task, default_schedule(task))).source


def test_results_past_the_caches_begin_at_whole_vectors() -> None:
    """Every start of a row, in whole numbers: points that lie before the first aligned one, if there is one."""
    template, target = get_template("cpu_map"), CPU.targets(1)[0]
    if target.arch != "x86_64":
        pytest.skip("stores past the caches are those of x86-64")
    task = task_of(complex_product(5000), target)
    schedule = template.space(task).schedule({**template.default(task).values, "stream": True})
    assert f"& {target.vector_bytes - 1}) / 8;" in lower(Candidate(task, schedule)).source


_TYPES = {"float": np.float32, "double": np.float64, "short": np.int16, "signed char": np.int8}
_COUNTS = (2, 3, 4, 6, 8)


def _round_trips() -> str:
    text = ['#define EXPORT extern "C" __attribute__((visibility("default")))\n']
    for n, kind in enumerate(_TYPES):
        for size in _COUNTS:
            for spare in (0, 1):
                text.append(f"""
EXPORT long apart_{n}_{size}_{spare}(const {kind} *x, {kind} *y) {{
    typedef tw::vec<{kind}, TW_LANES({kind})> V; V v[{size}];
    tw::load_apart<true, {spare}>(v, x);
    for (int k = 0; k < {size}; k++) tw::store(y + k * tw::lanes<V>, v[k]);
    return tw::lanes<V>;
}}""")
            for ordered in ("true", "false") if size % 3 else ("true",):
                text.append(f"""
EXPORT void again_{n}_{size}_{ordered}(const {kind} *x, {kind} *y) {{
    typedef tw::vec<{kind}, TW_LANES({kind})> V; V v[{size}];
    tw::load_apart<{ordered}, 0>(v, x);
    for (int k = 0; k < {size}; k++) v[k] = v[k] + ({kind})k;
    tw::together<{ordered}>(v);
    for (int k = 0; k < {size}; k++) tw::store(y + k * tw::lanes<V>, v[k]);
}}""")
    return "".join(text)


# Of targets with vectors of one width that run here the first: the text is the same.
@pytest.mark.parametrize(
    "target", {t.vector_bytes: t for t in reversed(CPU.targets()) if CPU.runs_here(t)}.values(), ids=lambda t: t.variant
)
def test_neighbours_are_taken_apart_and_put_together(target: Target) -> None:
    library = ctypes.CDLL(CPU.build([prelude(target), _round_trips()], target).path)
    rng = np.random.default_rng(0)
    for n, dtype in enumerate(_TYPES.values()):
        for size in _COUNTS:
            x = rng.integers(-100, 100, 64 * size).astype(dtype)
            y = np.zeros_like(x)
            pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y)]
            for spare in (0, 1):
                lanes = getattr(library, f"apart_{n}_{size}_{spare}")(*pointers)
                got, want = (a[: lanes * size] for a in (y, x))
                kept = got.reshape(size, lanes)[: size - spare]
                np.testing.assert_array_equal(kept, want.reshape(lanes, size).T[: size - spare])
            for ordered in ("true", "false"):
                if ordered == "false" and (size % 3 == 0 or size * x.itemsize > 16):
                    continue
                getattr(library, f"again_{n}_{size}_{ordered}")(*pointers)
                np.testing.assert_array_equal(got, want + np.tile(np.arange(size, dtype=dtype), lanes))
