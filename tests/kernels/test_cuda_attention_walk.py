"""CUDA attention by warp groups: tiles of queries that outnumber multiprocessors, and decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import pytest
from attention_programs import attention, causal, of_operator, short
from cuda_attention_programs import ONE_GROUP

from tilewright.backends.cuda.archs import target
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.core import Candidate, IllegalSchedule, Task, Value
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.testing.cuda_template import ORDERS, empty_output, emulated
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of

TEMPLATE = get_template("cuda_attention")
SMS = 3
"""Multiprocessors of the tests' target."""
KNOBS: dict[str, Value] = {**ONE_GROUP, "groups": 2, "persistent": False, "tail": 1, "pack": False, "KP": 1}
PROGRAMS: dict[str, Callable[[], Program]] = {
    "odd": lambda: attention(b=1, h=5, lq=129, lk=210, d=16, dv=8, dtype="bfloat16", rounded=True),
    "shared": lambda: attention(b=1, h=4, hk=2, lq=140, lk=197, d=24, dv=72, dtype="float16", rounded=True),
    "lengths": lambda: attention(
        b=2, h=1, lq=140, lk=200, d=16, dv=8, dtype="float16", modify=short, rounded=True,
        inputs=lambda: (te.input("n", (2,), "int32", low=1, high=200),),
    ),
    "pages": lambda: of_operator(b=2, h=2, hk=1, lq=140, lk=216, d=16, page=24, pages=20, lengths=True, dtype="bfloat16"),
    "kept": lambda: attention(h=4, lq=130, lk=192, d=16, dv=8, dtype="float16"),
}  # fmt: skip
USES: dict[str, dict[str, Value]] = {
    "walk": {"persistent": True},
    "tail": {"tail": 2},
    "both": {"persistent": True, "tail": 3, "ping_pong": True, "overlap": True},
}
OTHERS: dict[str, tuple[Callable[[], Program], dict[str, Value]]] = {
    "overlapped": (
        lambda: attention(h=1, lq=70, lk=210, d=16, dv=8, dtype="bfloat16", modify=causal, rounded=True),
        {"groups": 1, "overlap": True},
    ),
    "decoding": (
        lambda: attention(b=1, h=4, hk=2, lq=1, lk=333, d=16, dv=8, dtype="bfloat16", rounded=True),
        {"groups": 1, "pack": True, "KP": 4},
    ),
    "decoding in pages": (
        lambda: of_operator(
            b=1, h=4, hk=2, lq=1, lk=216, d=16, page=24, pages=20, lengths=True, dtype="bfloat16"
        ),
        {"groups": 1, "pack": True, "KP": 3, "overlap": True},
    ),
}  # fmt: skip


def few(task: Task, sms: int = SMS) -> Task:
    """The same where there are so many multiprocessors."""
    limits = tuple((k, sms if k == "sms" else v) for k, v in task.target.limits)
    return replace(task, target=replace(task.target, limits=limits))


def made(program: Program, more: Mapping[str, Value]) -> Candidate:
    task = few(task_of(program, target("sm_90a")))
    space = TEMPLATE.space(task)
    return Candidate(task, space.schedule({k.name: {**KNOBS, **more}[k.name] for k in space.knobs}))


@cache
def built(sanitize: tuple[str, ...] = ()) -> tuple[dict[str, Candidate], EmulatedKernel]:
    """All of these, compiled together."""
    every = {f"{name} {use}": made(PROGRAMS[name](), more) for name in PROGRAMS for use, more in USES.items()}
    every |= {name: made(program(), more) for name, (program, more) in OTHERS.items()}
    return every, emulated([TEMPLATE.lower(c) for c in every.values()], target("sm_90a"), sanitize)


def results(name: str, inputs: list[Array], sanitize: tuple[str, ...] = ()) -> list[Array]:
    """What a kernel computes in each order."""
    candidates, kernel = built(sanitize)
    if kernel.unchecked:
        pytest.skip(kernel.unchecked)
    candidate, found = candidates[name], []
    (out,) = candidate.task.workload.outputs
    for order, copies in ORDERS:
        got = empty_output(out.shape, out.dtype)
        lowered = TEMPLATE.lower(candidate)
        report = run(kernel, lowered.program, launch_values(candidate), inputs, got, order=order, copies=copies)
        if report.unchecked:
            pytest.skip(report.unchecked)
        assert report.ok, report.bugs
        found.append(got)
    return found


NAMES = [*(f"{name} {use}" for name in PROGRAMS for use in USES), *OTHERS]


def computes(name: str, sanitize: tuple[str, ...] = ()) -> None:
    program = PROGRAMS[name.split(maxsplit=1)[0]]() if name not in OTHERS else OTHERS[name][0]()
    inputs = random_arrays(program, 1)
    right = evaluate(program, inputs)
    for got in results(name, inputs, sanitize):
        check(program, inputs, got, right)


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_schedules_of_groups_compute_the_reference(name: str) -> None:
    computes(name)


@pytest.mark.nightly
@pytest.mark.parametrize("sanitize", [("address", "undefined"), ("thread",)], ids="-".join)
@pytest.mark.parametrize("name", NAMES)
def test_no_sanitizer_reports(sanitize: tuple[str, ...], name: str) -> None:
    computes(name, sanitize)


def test_a_walk_has_a_block_for_each_multiprocessor_and_a_tail_a_second_launch() -> None:
    program = PROGRAMS["odd"]()  # ten tiles of 128 queries, eight elements of a result
    grids = {
        use: [x.grid for x in TEMPLATE.lower(made(program, more)).program.launches]
        for use, more in [*USES.items(), ("neither", {})]
    }
    assert grids["neither"] == [(10, 1, 1)]
    assert grids["walk"] == [(SMS, 1, 1)]
    assert grids["tail"] == [(9 + 2, 1, 1), (128 * 8 // (4 * 256), 1, 1)]
    assert grids["both"] == [(SMS, 1, 1), (128 * 8 // (4 * 256), 1, 1)]
    assert TEMPLATE.lower(made(program, {"tail": 2})).program.workspace == 2 * 128 * (8 + 2) * 4


def test_rules_of_walks_say_why() -> None:
    whole = attention(b=1, h=6, lq=129, lk=210, d=16, dv=8, dtype="bfloat16", rounded=True)  # 12 tiles: four rounds
    for program, more, reason in (
        (whole, {"tail": 2}, "no tiles behind"),
        (whole, {"groups": 1, "persistent": True}, "several groups"),
        (PROGRAMS["odd"](), {"tail": 4}, "only one block"),
        (PROGRAMS["odd"](), {"groups": 0, "overlap": True}, "no product in flight"),
    ):
        with pytest.raises(IllegalSchedule, match=reason):
            made(program, more)
    masked = attention(h=6, lq=129, lk=210, d=16, dv=8, dtype="bfloat16", modify=causal, rounded=True)
    assert "tail" not in {k.name for k in TEMPLATE.space(few(task_of(masked, target("sm_90a")))).knobs}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (
            {"b": 2, "h": 10, "lq": 4096, "lk": 4096, "d": 64},
            {"groups": 3, "BK": 128, "persistent": True, "tail": 3, "overlap": False},
        ),
        (
            {"b": 2, "h": 16, "lq": 2048, "lk": 2048, "d": 128},
            {"groups": 2, "BK": 128, "persistent": True, "tail": 1, "overlap": False},
        ),
        ({"b": 1, "h": 24, "lq": 4608, "lk": 4608, "d": 128}, {"groups": 3, "BK": 64, "persistent": False, "tail": 5}),
        (
            {"b": 8, "h": 20, "lq": 1500, "lk": 1500, "d": 64},
            {"groups": 3, "BK": 128, "persistent": True, "tail": 1, "overlap": True},
        ),
        ({"b": 2, "h": 16, "lq": 4096, "lk": 4096, "d": 64, "is_causal": True}, {"groups": 3, "overlap": True}),
        ({"b": 1, "h": 32, "hk": 8, "lq": 1, "lk": 131072, "d": 128}, {"groups": 1, "pack": True, "KP": 16}),
        ({"b": 1, "h": 32, "hk": 8, "lq": 1, "lk": 4096, "d": 128}, {"groups": 0, "pack": True}),
    ],
)
def test_the_default_is_what_an_h200_was_fastest_with(sizes: dict[str, int], expected: dict[str, Value]) -> None:
    task = Task(get_operator("attention").workload(**sizes, dtype="bfloat16"), target("sm_90a"))
    values = TEMPLATE.default(task).values
    assert {k: values[k] for k in expected} == expected
