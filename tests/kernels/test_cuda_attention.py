"""The CUDA attention template: its contract on the emulator, what it matches, on which units, what it skips."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attention_programs import PROGRAMS, attention, causal, soft_cap
from cuda_attention_programs import HALVES

from tilewright.backends.cuda.archs import target
from tilewright.backends.emulator import run
from tilewright.core import Candidate, IllegalSchedule, Task, Value
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template, templates_for
from tilewright.kernels.templates.cuda_attention import text
from tilewright.kernels.templates.cuda_attention.match import match
from tilewright.testing import programs
from tilewright.testing.cuda_template import CudaTemplateContract, empty_output, emulated
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of

TEMPLATE = get_template("cuda_attention")
SM80, HOPPER = target("sm_80"), target("sm_90a")


ALL = {**PROGRAMS, **HALVES}
QUICK = {
    n: PROGRAMS[n] for n in ("plain", "causal", "documents", "grouped", "bias", "mask", "half", "residual")
}  # fmt: skip
"""On ordinary units."""


class TestTensorCores(CudaTemplateContract):
    templates = ("cuda_attention",)
    programs = HALVES


class TestOrdinaryUnits(CudaTemplateContract):
    templates = ("cuda_attention",)
    programs = QUICK


@pytest.mark.nightly
class TestThoroughly(CudaTemplateContract):
    templates = ("cuda_attention",)
    programs = ALL
    targets = ("sm_80", "sm_120")
    schedules = 8


@pytest.mark.nightly
class TestSanitized(CudaTemplateContract):
    templates = ("cuda_attention",)
    programs = ALL
    schedules = 2
    sanitize = ("address", "undefined")


@pytest.mark.nightly
class TestRaces(CudaTemplateContract):
    templates = ("cuda_attention",)
    programs = ALL
    sanitize = ("thread",)


# ------------------------------------------------------------------ what matches


@pytest.mark.parametrize("name", [*PROGRAMS, *HALVES])
def test_programs_of_attention_match(name: str) -> None:
    found = match({**PROGRAMS, **HALVES}[name]())
    assert found is not None
    assert found.tensor_cores == (name in HALVES)


@pytest.mark.parametrize(
    ("params", "cores"),
    [
        ({"dtype": "bfloat16"}, True),
        ({"dtype": "float16", "is_causal": True, "hk": 2}, True),
        ({"dtype": "bfloat16", "mask": "bool"}, True),
        ({"dtype": "bfloat16", "d": 33}, False),  # rows of odd length are not copied in vectors
        ({}, False),
        ({"score_mod": "score - 0.1*abs(q - k)"}, False),
    ],
)
def test_the_operator_matches_with_its_parameters(params: dict[str, object], cores: bool) -> None:
    sizes = {"b": 2, "h": 4, "lq": 20, "lk": 24, "d": 32}
    task = Task(get_operator("attention").workload(**{**sizes, **params}), SM80)
    assert templates_for(task)[0] is TEMPLATE
    found = match(Program.loads(task.workload.program))
    assert found is not None
    assert found.tensor_cores == cores


@pytest.mark.parametrize("name", ["softmax", "matmul", "argmax"])
def test_other_programs_do_not_match(name: str) -> None:
    task = task_of(programs.PROGRAMS[name](), SM80)
    assert not TEMPLATE.matches(task)
    with pytest.raises(IllegalSchedule, match="not an attention"):
        TEMPLATE.space(task)


def test_long_rows_are_left_to_others() -> None:
    assert match(attention(d=257)) is None
    assert match(attention(d=256, dv=256)) is not None


@pytest.mark.parametrize("variant", ["sm_80", "sm_86", "sm_90a", "sm_120"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_every_architecture_has_a_default(variant: str, dtype: str, d: int) -> None:
    task = Task(get_operator("attention").workload(b=1, h=8, lq=1024, lk=1024, d=d, dtype=dtype), target(variant))
    assert TEMPLATE.matches(task)
    schedule = TEMPLATE.default(task)
    assert int(schedule.values["BK"]) >= 16
    if dtype == "bfloat16" and d < 256:
        assert TEMPLATE.static(task, schedule)["tile_m"] >= 64


# ------------------------------------------------------------------ results


KINDS = pytest.mark.parametrize(
    ("dtype", "rounded", "groups"),
    [("float16", False, 0), ("float16", True, 0), ("float32", False, 0), ("float16", True, 1)],
    ids=["kept", "rounded", "float32", "groups"],
)


def computed(program: Program, inputs: list[Array], groups: int = 0, **changes: Value) -> Array:
    """The default kernel's result, or with other values of some knobs; of so many warp groups."""
    on = HOPPER if groups else SM80
    task = task_of(program, on)
    if groups:
        changes = {"warps": 4, "BK": 16, "q_registers": False, "groups": groups, "ping_pong": False, **changes}
    candidate = Candidate(task, TEMPLATE.space(task).schedule({**TEMPLATE.default(task).values, **changes}))
    lowered = TEMPLATE.lower(candidate)
    kernel = emulated([lowered], on)
    got = empty_output(program.output.shape, program.output.dtype)
    report = run(kernel, lowered.program, launch_values(candidate), inputs, got)
    assert report.ok, report.bugs
    return got


SMALL = {"warps": 1, "tiles": 1, "BK": 16, "stages": 2, "q_registers": False, "min_blocks": 1}


def plain(dtype: str, rounded: bool) -> Program:
    """Several blocks of keys, the last of which is cut, and of queries."""
    return attention(h=1, lq=36, lk=300, d=16, dv=8, dtype=dtype, rounded=rounded)


@KINDS
def test_a_query_that_sees_no_key_is_nan(dtype: str, rounded: bool, groups: int) -> None:
    """And no other is."""
    program = attention(
        h=1, lq=36, lk=36, d=16, dv=8, dtype=dtype, rounded=rounded, inputs=lambda: (te.input("keep", (1, 36), "bool"),),
        modify=lambda s, p, g, i, j, x: te.select((j < i) & x[p, j], s, -math.inf),
    )  # fmt: skip
    q, k, v, _ = random_arrays(program)
    seen = np.arange(36)[None] % 2 == 1
    got = computed(program, [q, k, v, seen], groups)
    assert np.isnan(got[0, 0, :2]).all()
    assert np.isfinite(got[0, 0, 2:].astype(np.float32)).all()


@KINDS
@pytest.mark.parametrize("stored", [True, False], ids=["read", "stated"])
def test_a_query_whose_keys_are_all_masked_by_a_number_sees_all_alike(
    dtype: str, rounded: bool, groups: int, stored: bool
) -> None:
    """As float32 has it, where the least number swallows every score beside it."""
    least = float(np.finfo(np.float32).min)
    program = attention(
        h=1, lq=36, lk=21, d=16, dv=8, dtype=dtype, rounded=rounded, inputs=lambda: (te.input("bias", (36, 21)),),
        modify=lambda s, p, g, i, j, x: s + x[i, j] if stored else te.select(x[i, j] < 0, least, s),
    )  # fmt: skip
    q, k, v, _ = random_arrays(program)
    bias = np.zeros((36, 21), np.float32)
    bias[3], bias[4, 5:], bias[5], bias[5, 7], bias[6], bias[6, 2] = least, least, least, -np.inf, least, np.nan
    got = computed(program, [q, k, v, bias], groups)[0, 0].astype(np.float64)
    values = v[0, 0].astype(np.float64)
    np.testing.assert_allclose(got[3], values.mean(0), rtol=4e-3, atol=4e-3)
    if stored:
        np.testing.assert_allclose(got[5], np.delete(values, 7, 0).mean(0), rtol=4e-3, atol=4e-3)
        assert np.isnan(got[6]).all()
    reference = evaluate(program, [q, k, v, bias])[0, 0]
    np.testing.assert_allclose(got[[2, 4]], reference[[2, 4]], rtol=4e-3, atol=4e-3)


@KINDS
@pytest.mark.parametrize("stages", [1, 2])
def test_blocks_of_queries_that_see_no_key_leave_no_copy_behind(
    dtype: str, rounded: bool, groups: int, stages: int
) -> None:
    program = attention(
        h=1, lq=600, lk=600, d=16, dv=16, dtype=dtype, rounded=rounded,
        modify=lambda s, p, g, i, j: te.select(j < i - 512, s, -math.inf),
    )  # fmt: skip
    got = computed(program, random_arrays(program), groups, stages=stages, KP=1)[0, 0].astype(np.float32)
    assert np.isnan(got[:513]).all()
    assert np.isfinite(got[513:]).all()


@KINDS
def test_nan_stays_in_its_row(dtype: str, rounded: bool, groups: int) -> None:
    program = plain(dtype, rounded)
    q, k, v = random_arrays(program)
    q[0, 0, 3, 5] = np.nan
    got = computed(program, [q, k, v], groups)
    assert np.isnan(got[0, 0, 3]).all()
    assert np.isfinite(np.delete(got, 3, axis=2).astype(np.float32)).all()


@KINDS
def test_masked_blocks_are_not_read(dtype: str, rounded: bool, groups: int) -> None:
    """What causal queries never see may hold anything."""
    program = attention(h=1, lq=40, lk=80, d=16, dv=8, dtype=dtype, modify=causal, rounded=rounded)
    q, k, v = random_arrays(program)
    right = computed(program, [q, k, v], groups)
    k[0, 0, 64:], v[0, 0, 64:] = np.nan, np.inf
    np.testing.assert_array_equal(computed(program, [q, k, v], groups), right)


@KINDS
@pytest.mark.parametrize("rise", [0.4, -0.4, 60.0])
def test_scores_far_apart(dtype: str, rounded: bool, groups: int, rise: float) -> None:
    """Scores that rise or fall with the keys: the base of the weights moves in some blocks, or in the first alone.

    Other rows neither see that nor change by it.
    """
    program = plain(dtype, rounded)
    q, k, v = random_arrays(program)
    q[..., 0], k[0, 0, :, 0] = 0.0, np.arange(300) / 4
    level = computed(program, [q, k, v], groups)
    q[0, 0, ::3, 0] = rise
    got = computed(program, [q, k, v], groups)
    products = q[0, 0].astype(np.float64) @ k[0, 0].astype(np.float64).T / 4
    weights = np.exp(products - products.max(1, keepdims=True))
    right = weights @ v[0, 0].astype(np.float64) / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(got[0, 0].astype(np.float64), right, rtol=4e-3, atol=4e-3)
    others = np.arange(36) % 3 != 0
    np.testing.assert_array_equal(got[0, 0, others], level[0, 0, others])


@pytest.mark.parametrize("q_registers", [False, True])
@pytest.mark.parametrize("copies", ["lazy", "eager"])
def test_slots_and_copies_are_in_time(copies: str, q_registers: bool) -> None:
    """One slot, two or three, whenever copies land: the same to the bit."""
    program = attention(h=1, lq=70, lk=90, d=32, dv=24, dtype="bfloat16", modify=causal, rounded=True)
    task, inputs = task_of(program, SM80), random_arrays(program)
    values = {"warps": 2, "tiles": 1, "BK": 16, "q_registers": q_registers, "min_blocks": 1}
    schedules = [TEMPLATE.space(task).schedule({**values, "stages": stages}) for stages in (1, 2, 3)]
    made = {c: TEMPLATE.lower(c) for c in (Candidate(task, s) for s in schedules)}
    kernel, results = emulated(list(made.values()), SM80), []
    for candidate, lowered in made.items():
        got = empty_output(program.output.shape, program.output.dtype)
        launch = launch_values(candidate)
        report = run(kernel, lowered.program, launch, inputs, got, order="random:3", copies=copies)
        assert report.ok, report.bugs
        results.append(got)
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_weights_keep_the_precision_of_float32() -> None:
    """A result that cancels: weights that are rounded to 16 bits would show."""
    program = attention(h=1, lq=16, lk=64, d=16, dv=2, dtype="float16", finish=lambda y, *_: y * 1024.0)
    q, k, v = random_arrays(program)
    v[0, 0, ::2], v[0, 0, 1::2] = 1.0, -1.0
    k[0, 0, 1::2] = k[0, 0, ::2]  # neighbours have equal scores, and their values cancel
    assert np.abs(computed(program, [q, k, v]).astype(np.float32)).max() < 1024 * 2.0**-18


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_powers_of_2_lose_no_more_in_float32_than_a_softmax_step_by_step(spread: float) -> None:
    program = attention(h=1, lq=32, lk=256, d=32, dv=8, dtype="float32")
    q, k, v = random_arrays(program)
    q *= np.float32(spread)

    def softmax(q: Array, k: Array, v: Array) -> Array:
        scores = q @ k.T * q.dtype.type(1 / math.sqrt(32))
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return weights @ v / weights.sum(1, keepdims=True)

    right = softmax(*(x[0, 0].astype(np.float64) for x in (q, k, v)))
    steps = np.abs(softmax(q[0, 0], k[0, 0], v[0, 0]) - right).max()
    assert np.abs(computed(program, [q, k, v])[0, 0] - right).max() <= 4 * steps


def test_the_default_on_ordinary_units_gives_a_thread_many_products_a_read() -> None:
    task = Task(get_operator("attention").workload(b=2, h=16, lq=4096, lk=4096, d=64), HOPPER)
    values = TEMPLATE.default(task).values
    assert (values["rows"], values["lanes"], values["BK"]) == (8, 8, 32)
    source = TEMPLATE.lower(Candidate(task, TEMPLATE.default(task))).source
    assert "tw::exp2_approx(power(s[r][n], shift[r]))" in source
    assert "tw::exp(" not in source


def test_a_constant_scale_is_part_of_the_powers() -> None:
    """Nothing is left to be done to scores before the maximum, or their masks alone."""
    plain = TEMPLATE.lower(_default(attention(lq=16, lk=64, d=16, dv=16, dtype="bfloat16", rounded=True))).source
    assert "const float x = s[m][n][c]" not in plain
    kept = TEMPLATE.lower(_default(attention(lq=16, lk=64, d=16, dv=16, dtype="bfloat16"))).source
    assert "const float x = s[m][n][c]" in kept
    masked = attention(lq=16, lk=64, d=16, dv=16, dtype="bfloat16", rounded=True, modify=causal)
    assert "? x : -__builtin_inff()" in TEMPLATE.lower(_default(masked)).source


@pytest.mark.parametrize(("room", "together"), [(1, 1), (2, 2), (5, 3), (6, 6)])
def test_the_longest_blocks_come_first(monkeypatch: pytest.MonkeyPatch, room: int, together: int) -> None:
    """Of as many heads as a cache holds keys of, a divisor of all; all blocks are computed."""
    program = attention(b=2, h=3, lq=70, lk=70, d=16, dv=16, dtype="float16", rounded=True, modify=causal)
    monkeypatch.setattr(text, "HELD", room * 70 * 2 * 32)
    candidate = Candidate(task_of(program, SM80), TEMPLATE.space(task_of(program, SM80)).schedule(SMALL))
    lowered = TEMPLATE.lower(candidate)
    got = empty_output(program.output.shape, program.output.dtype)
    inputs = random_arrays(program)
    assert run(emulated([lowered], SM80), lowered.program, launch_values(candidate), inputs, got).ok
    check(program, inputs, got, evaluate(program, inputs))
    names = r"const (?:unsigned|int) (tile|inside|block|i0) = (?:int)?(.*?);"
    said = dict(re.findall(names, re.sub(r"(\d)u\b", r"\1", lowered.source).replace("/", "//")))
    found = []
    for n in range(6 * 5):
        known: dict[str, Any] = {"blockIdx": SimpleNamespace(x=n)}
        for name in ("tile", "inside", "block", "i0"):
            known[name] = eval(said[name], known)
        found.append((known["block"], known["i0"]))
    heads = [range(at, at + together) for at in range(0, 6, together)]
    assert found == [(head, i0) for some in heads for i0 in (64, 48, 32, 16, 0) for head in some]


def test_without_masks_heads_come_one_after_the_other() -> None:
    program = attention(h=3, lq=70, lk=70, d=16, dv=16, dtype="float16", rounded=True)
    assert "inside % 1u)" in TEMPLATE.lower(_default(program)).source


def test_scores_that_cannot_be_masked_skip_nothing() -> None:
    assert "while (t <" not in TEMPLATE.lower(_default(attention(modify=soft_cap))).source
    assert "while (t <" in TEMPLATE.lower(_default(attention(modify=causal))).source


def _default(program: Program) -> Candidate:
    task = task_of(program, SM80)
    return Candidate(task, TEMPLATE.default(task))
