"""CUDA attention whose tiles hold the queries of all heads that share keys: on every kind of units, and where there is it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import cache
from itertools import islice

import pytest
from attention_programs import attention, cached, causal, soft_cap
from cuda_attention_programs import ONE_GROUP, real_bias

from tilewright.backends.cuda.archs import target
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.core import Candidate, IllegalSchedule, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda_attention.geometry import plan
from tilewright.kernels.templates.cuda_attention.match import match
from tilewright.kernels.templates.cuda_attention.space import cycles
from tilewright.testing.cuda_template import ORDERS, empty_output, emulated
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of

TEMPLATE = get_template("cuda_attention")

PROGRAMS: dict[str, Callable[[], Program]] = {
    "one query": lambda: attention(b=2, h=8, hk=2, lq=1, lk=70, d=16, dv=16, dtype="float16", rounded=True),
    "causal": lambda: attention(b=2, h=6, hk=2, lq=5, lk=70, d=16, dv=24, dtype="bfloat16", modify=causal),
    "cap": lambda: attention(h=4, hk=2, lq=7, lk=33, d=16, dv=8, dtype="bfloat16", modify=soft_cap, rounded=True),
    "bias": lambda: attention(
        h=4, hk=1, lq=3, lk=50, d=16, dv=8, dtype="float16", modify=real_bias,
        inputs=lambda: (te.input("bias", (4, 3, 50), "float16"),),
    ),
    "cached": lambda: attention(
        b=2, h=4, hk=1, lq=9, lk=140, d=16, dv=8, dtype="float16", modify=cached, rounded=True,
        inputs=lambda: (te.input("n", (2,), "int32", low=9, high=140),),
    ),
    "rows": lambda: attention(b=2, h=4, hk=2, lq=20, lk=20, d=16, dv=16, dtype="float16", packed=True),
    "one head of keys": lambda: attention(
        h=16, hk=1, lq=4, lk=260, d=24, dv=72, dtype="float16", modify=causal, rounded=True
    ),
    "residual": lambda: attention(
        h=12, hk=3, lq=16, lk=64, d=8, dv=8, dtype="bfloat16", finish=lambda y, p, g, i, c, x: y * 0.5 + x[g, i, c],
        inputs=lambda: (te.input("x", (12, 16, 8)),),
    ),
    "float32": lambda: attention(b=2, h=6, hk=2, lq=5, lk=19, d=7, dv=3),
}  # fmt: skip
GROUPS = ("one head of keys", "residual", "cached")
"""Those that have rows enough for warp groups."""


@cache
def drawn(name: str, variant: str, groups: bool, count: int = 1) -> dict[Candidate, LoweredKernel]:
    """Random packed schedules of one program."""
    task, rng = task_of(PROGRAMS[name](), target(variant)), random.Random(name)
    sampled = (TEMPLATE.space(task).sample(rng) for _ in range(1000))
    found = (s for s in sampled if s.values["pack"] and bool(s.values.get("groups", 0)) == groups)
    candidates = [Candidate(task, s) for s in islice(found, count)]
    assert len(candidates) == count
    return {c: TEMPLATE.lower(c) for c in candidates}


@cache
def together(names: Iterable[str], variant: str, groups: bool) -> EmulatedKernel:
    """One schedule of each, compiled as one unit."""
    return emulated([k for name in names for k in drawn(name, variant, groups).values()], target(variant))


def computes(name: str, made: dict[Candidate, LoweredKernel], kernel: EmulatedKernel) -> None:
    """Schedules in every order, compared with the reference."""
    program = PROGRAMS[name]()
    inputs = random_arrays(program, 1)
    right = evaluate(program, inputs)
    for candidate, lowered in made.items():
        for order, copies in ORDERS:
            got = empty_output(program.output.shape, program.output.dtype)
            report = run(kernel, lowered.program, launch_values(candidate), inputs, got, order=order, copies=copies)
            assert report.ok, (dict(candidate.schedule.values), order, copies, report.bugs)
            check(program, inputs, got, right)


@pytest.mark.parametrize("name", PROGRAMS)
def test_packed_queries_compute_the_reference(name: str) -> None:
    computes(name, drawn(name, "sm_80", False), together(tuple(PROGRAMS), "sm_80", False))


@pytest.mark.parametrize("name", GROUPS)
def test_packed_queries_of_warp_groups_compute_the_reference(name: str) -> None:
    computes(name, drawn(name, "sm_90a", True), together(GROUPS, "sm_90a", True))


@pytest.mark.nightly
@pytest.mark.parametrize("name", PROGRAMS)
def test_many_schedules_compute_the_reference(name: str) -> None:
    for variant, groups in [("sm_80", False), ("sm_90a", True)][: 1 + (name in GROUPS)]:
        made = drawn(name, variant, groups, count=8)
        computes(name, made, emulated(list(made.values()), target(variant)))


def test_rows_are_heads_and_queries() -> None:
    found = match(PROGRAMS["causal"]())
    assert found is not None
    assert found.packed is not None
    a = found.packed.a
    assert (a.outer, a.queries, a.outer_size) == (("i0", "i1"), 3 * 5, 4)
    # Rows lie evenly: one axis, not heads and queries apart. Keys do not know heads any more.
    assert found.packed.q.where is not None
    assert found.packed.q.where.step(a.query) == 16
    assert not found.packed.q.where.atoms
    assert a.query not in a.k.load.axes()
    assert "% 5" in repr(a.score)  # a causal mask asks for the query


def test_heads_of_their_own_keys_are_not_packed() -> None:
    for program in (attention(h=4, lq=5, dtype="float16", d=16, dv=16), attention(b=3, h=1, lq=5)):
        found = match(program)
        assert found is not None
        assert found.packed is None
        assert "pack" not in {k.name for k in TEMPLATE.space(task_of(program, target("sm_80"))).knobs}


def test_rules_say_why() -> None:
    space = TEMPLATE.space(task_of(PROGRAMS["causal"](), target("sm_80")))
    one = {"warps": 1, "tiles": 1, "BK": 16, "stages": 2, "q_registers": True, "min_blocks": 1}
    assert space.allows({**one, "pack": True})
    assert space.allows({**one, "pack": False})
    program = attention(h=8, hk=1, lq=12, lk=64, d=16, dv=16, dtype="float16", rounded=True)
    space = TEMPLATE.space(task_of(program, target("sm_90a")))
    four = {**one, **ONE_GROUP, "BK": 16}
    assert space.allows({**four, "pack": True})
    assert space.allows({**four, "pack": False})
    with pytest.raises(IllegalSchedule, match="half of a block"):
        space.schedule({**four, "tiles": 2, "pack": False})
    # Heads within rows: a number of rows of one head, and then the next head's, are no matrix.
    program = attention(h=8, hk=1, lq=40, lk=40, d=16, dv=16, dtype="float16", packed=True, rounded=True)
    space = TEMPLATE.space(task_of(program, target("sm_90a")))
    assert space.allows({**four, "pack": False})
    with pytest.raises(IllegalSchedule, match="no tensor map"):
        space.schedule({**four, "pack": True})


@pytest.mark.parametrize("variant", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("lq", "packs"), [(1, True), (16, True), (4096, False)])
def test_the_default_packs_few_queries(variant: str, lq: int, packs: bool) -> None:
    sizes = {"b": 4, "h": 32, "hk": 8, "lq": lq, "lk": 4096, "d": 128}
    task = Task(get_operator("attention").workload(**sizes, dtype="bfloat16"), target(variant))
    assert bool(TEMPLATE.default(task).values.get("pack")) == packs


@pytest.mark.parametrize(
    "sizes",
    [{"b": 64, "lk": 4096, "lengths": True, "page": 64}, {"b": 1, "lk": 131072}],
    ids=["paged", "long"],
)
def test_the_estimate_orders_decoding_by_bytes_under_way(sizes: dict[str, int | bool]) -> None:
    # As an H200 did: one slot of 16 keys, one of 32, two; one query reads every key once, from memory.
    task = Task(
        get_operator("attention").workload(h=32, hk=8, lq=1, d=128, **sizes, dtype="bfloat16"), target("sm_90a")
    )
    form, chosen = match(Program.loads(task.workload.program)), TEMPLATE.default(task).values
    assert form is not None
    slower = [{**chosen, "BK": bk, "stages": stages} for bk, stages in ((16, 1), (32, 1), (32, 2))]
    times = [cycles(plan(form, task.target, values), task.target) for values in (*slower, chosen)]
    assert times == sorted(times, reverse=True)
    assert chosen["stages"] > 1
