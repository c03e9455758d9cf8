"""Convolutions by minimal filtering: which are taken, what comes out, how far roundings carry."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from winograd_programs import WINOGRAD, convolution

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate, IllegalSchedule, LaunchProgram, Schedule, Task
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families import winograd as family
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate as reference
from tilewright.kernels.templates import get_template, templates_for
from tilewright.kernels.templates.cpu_winograd import rounding as rules
from tilewright.kernels.templates.cpu_winograd.match import match, refuses
from tilewright.kernels.templates.cpu_winograd.rounding import rounding
from tilewright.kernels.templates.cpu_winograd.template import CPU_WINOGRAD
from tilewright.kernels.templates.cpu_winograd.transforms import POINTS, growth, transforms
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_kernel, task_of
from tilewright.testing.template import TemplateContract
from tilewright.verifying.references import tolerance_inputs, widened
from tilewright.verifying.tolerance import error_program
from tilewright.verifying.verify import Verifier

TEMPLATE = CPU_WINOGRAD


def task(p: Program, threads: int = 1) -> Task:
    return task_of(p, parse_target("auto", threads=threads))


def schedule(t: Task, seed: int = 0, **values: Any) -> Schedule:
    """A sampled schedule with these values."""
    rng, space = random.Random(seed), TEMPLATE.space(t)
    sampled = (space.sample(rng) for _ in range(2000))
    return next(s for s in sampled if all(s.values[k] == v for k, v in values.items()))


def results(t: Task, schedules: list[Schedule], inputs: list[Any]) -> list[Any]:
    candidates = [Candidate(t, s) for s in schedules]
    lowered = [TEMPLATE.lower(c) for c in candidates]
    library, threads = compile_kernels(lowered, t.target), t.target.threads
    return [
        run_kernel(library, k, launch_values(c), inputs, t.workload.output, threads)
        for c, k in zip(candidates, lowered, strict=True)
    ]


# ------------------------------------------------------------------ matrices


@pytest.mark.parametrize("outputs", POINTS)
def test_the_matrices_compute_a_filter(outputs: int) -> None:
    t = transforms(outputs)
    d, g = [k * k - 3 * k + 5 for k in range(t.points)], [7, -2, 3]
    weights = [sum(x * y for x, y in zip(row, g, strict=True)) for row in t.filter]
    data = [sum(x * y for x, y in zip(row, d, strict=True)) for row in t.input]
    got = [sum(a * w * v for a, w, v in zip(row, weights, data, strict=True)) for row in t.output]
    assert got == [sum(d[i + r] * g[r] for r in range(3)) for i in range(outputs)]  # fractions: exactly


@pytest.mark.parametrize("outputs", POINTS)
def test_what_tiles_are_multiplied_by_is_exact(outputs: int) -> None:
    t = transforms(outputs)
    assert all(float(np.float32(float(x))) == x for m in (t.input, t.output) for row in m for x in row)


def test_the_points_keep_roundings_small() -> None:
    """Against the usual ones, 0, 1, -1, 2, -2: 10.5 times the direct sum."""
    assert growth(transforms(2)) == pytest.approx(5 / 9)
    assert 2 < growth(transforms(4)) < 2.5


# ------------------------------------------------------------------ what is taken


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_the_family_takes_both_layouts(layout: str) -> None:
    found = family.convolution(convolution(2, 17, 8, 9, 20, 0, layout))
    assert found is not None
    assert (found.items, found.channels, found.features) == (2, 17, 20)
    assert (found.rows.start, found.rows.size, found.columns.size) == (0, 6, 7)


@pytest.mark.parametrize("changed", [{"stride": 2}, {"dilation": 2}, {"kernel": 5}, {"kernel": 1, "pad": 0}])
def test_other_windows_are_not_of_the_family(changed: dict[str, int]) -> None:
    assert family.convolution(convolution(h=9, **changed)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (convolution(layout="NCHW"), "channels apart"),
        (convolution(dtype="float64"), "computes with float64"),
        (convolution(dtype="bfloat16"), "computes with bfloat16"),
        (convolution(ci=15), "fewer than 16 channels"),
        (convolution(co=15), "fewer than 16 channels"),
        (convolution(2, follow="row"), "do not lie along its channels"),
    ],
)
def test_what_is_refused_and_why(program: Program, reason: str) -> None:
    t = task(program)
    assert not TEMPLATE.matches(t)
    assert TEMPLATE.name not in [x.name for x in templates_for(t)]
    with pytest.raises(IllegalSchedule, match=reason):
        TEMPLATE.space(t)


def test_what_is_to_be_exact_is_refused() -> None:
    params = {"n": 1, "ci": 16, "h": 8, "w": 8, "co": 16, "kh": 3, "kw": 3, "layout": "NHWC"}
    plain, exact = (get_operator("conv2d").workload(**params, precision=p) for p in ("ieee", "exact"))
    assert plain.program == exact.program
    assert plain.key != exact.key
    target = parse_target("auto")
    assert TEMPLATE.matches(Task(plain, target))
    assert [t.name for t in templates_for(Task(exact, target))] == ["cpu_contraction"]
    chosen = TEMPLATE.default(Task(plain, target))
    for refused in (TEMPLATE.space, lambda t: TEMPLATE.lower(Candidate(t, chosen))):
        with pytest.raises(IllegalSchedule, match="exactly"):
            refused(Task(exact, target))


def test_variants_whose_bound_is_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = match(convolution())
    assert found is not None
    assert found.variants == (2, 4)
    monkeypatch.setattr("tilewright.kernels.templates.cpu_winograd.match.MOST", 1.5)
    assert found.variants == (2,)
    monkeypatch.setattr("tilewright.kernels.templates.cpu_winograd.match.MOST", 1.0)
    assert "rounds" in refuses.__wrapped__(found)


def test_the_direct_sum_is_the_default_and_both_are_searched() -> None:
    assert [t.name for t in templates_for(task(convolution()))] == ["cpu_contraction", "cpu_winograd"]


def test_cpu_winograd_takes_no_segment_of_a_partition() -> None:
    """Its roundings would be of one segment, and what is checked is the whole."""
    from tilewright.kernels.templates.partition.segments import EXCLUDED

    assert TEMPLATE.name in EXCLUDED


# ------------------------------------------------------------------ results


class TestWinograd(TemplateContract):
    templates = ("cpu_winograd",)
    programs = WINOGRAD
    schedules = 1


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    n=st.integers(1, 2), h=st.integers(5, 11), w=st.integers(5, 11), ci=st.integers(16, 35), co=st.integers(16, 35),
    pad=st.integers(0, 2), constant=st.booleans(), follow=st.sampled_from(["", "bias relu", "residual"]),
    threads=st.integers(1, 3), seed=st.integers(0, 99),
)  # fmt: skip
def test_any_schedule_of_any_convolution_is_right(seed: int, threads: int, **params: Any) -> None:
    p = convolution(**params)
    t = task(p, threads)
    if not TEMPLATE.matches(t):
        return
    inputs = random_arrays(p, seed)
    (got,) = results(t, [TEMPLATE.space(t).sample(random.Random(seed))], inputs)
    check(p, inputs, got)


# ------------------------------------------------------------------ roundings

CHANNELS = 48


def errors(p: Program, outputs: int, inputs: list[Any]) -> tuple[Any, Any, float]:
    """Errors of a kernel, the tolerance of the program's own sums, and what the kernel asks for."""
    t = task(p)
    chosen = schedule(t, outputs=outputs)
    wide = widened(p, inputs)
    derived = error_program(p)
    granted = reference(derived.program, tolerance_inputs(derived, p, wide))
    (got,) = results(t, [chosen], inputs)
    return np.abs(got - reference(p, inputs)), granted, TEMPLATE.lower(Candidate(t, chosen)).program.rounding


@pytest.mark.parametrize("outputs", POINTS)
def test_roundings_stay_within_the_computed_bound(outputs: int) -> None:
    """And the bound of F(4, 3) is no more than ten times what is found: one so much smaller would not hold."""
    p = convolution(2, CHANNELS, 20, 20, 32)
    worst = 0.0
    for seed in (0, 1):
        error, granted, asked = errors(p, outputs, random_arrays(p, seed))
        assert asked == rounding(outputs, CHANNELS)
        worst = max(worst, float((error / granted).max()) / asked)
    assert worst < 1
    assert outputs == 2 or worst > 0.1


def test_a_wrong_transform_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a thousandth of one entry, in the matrix of inputs: far beyond the bound."""
    p = convolution(1, 16, 8, 8, 16)
    t = task(p)
    s = schedule(t, outputs=4)
    kernel = TEMPLATE.lower(Candidate(t, s))
    right = repr(float(abs(transforms(4).input[1][1]))) + "f*"
    assert right in kernel.source
    spoilt = kernel.source.replace(right, repr(float(abs(transforms(4).input[1][1])) * 1.001) + "f*")
    inputs = random_arrays(p, 0)
    wide, derived = widened(p, inputs), error_program(p, rounding=kernel.program.rounding)
    granted = reference(derived.program, tolerance_inputs(derived, p, wide))
    for source, holds in ((kernel.source, True), (spoilt, False)):
        made = type(kernel)(kernel.symbol, source, kernel.program)
        library = compile_kernels([made], t.target)
        got = run_kernel(library, made, launch_values(Candidate(t, s)), inputs, t.workload.output)
        assert bool((np.abs(got - reference(p, inputs)) <= granted).all()) == holds


def test_checks_grant_what_the_kernel_states_and_no_more() -> None:
    """On every set, whole numbers included; held to the direct sum's exactness there, F(4, 3) would fail."""
    p = convolution(1, 16, 8, 8, 16)
    t = task(p)
    s = schedule(t, outputs=4)
    kernel = TEMPLATE.lower(Candidate(t, s))
    library = compile_kernels([kernel], t.target)
    verifier = Verifier(p)

    def run(pointers: Any) -> None:
        data = next(x for x in verifier._sets.values() if x.pointers == list(pointers))
        inputs = [g.array.copy() for g in data.inputs]
        given = launch_values(Candidate(t, s))
        data.outputs[0].array[...] = run_kernel(library, kernel, given, inputs, t.workload.output)

    assert verifier.check(run, rounding=kernel.program.rounding) is None
    assert "whole" in (verifier.check(run, (2,)) or "")


def test_the_bound_is_stored_with_the_kernel() -> None:
    t = task(convolution())
    program = TEMPLATE.lower(Candidate(t, schedule(t, outputs=4))).program
    assert program.rounding == rounding(4, 16) > rules.LEAST
    assert LaunchProgram.from_json(program.to_json()) == program
    direct = get_template("cpu_contraction")
    plain = direct.lower(Candidate(t, direct.default(t))).program
    assert plain.rounding == 1
    assert "rounding" not in plain.to_json()
