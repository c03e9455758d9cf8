"""CUDA attention by warp groups: schedules on the emulator, what they match and refuse, when the default takes them."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import pytest
from attention_programs import attention, causal
from cuda_attention_programs import GROUPS, HALVES, ONE_GROUP

from tilewright.backends.cuda.archs import VARIANTS, target
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.core import Candidate, IllegalSchedule, Schedule, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cuda_attention.boxes import fetched, matrices
from tilewright.kernels.templates.cuda_attention.match import match
from tilewright.testing.cuda_template import ORDERS, CudaTemplateContract, empty_output, emulated
from tilewright.testing.kernels import check, launch_values, random_arrays, task_of

TEMPLATE = get_template("cuda_attention")
HOPPER = target("sm_90a")


QUICK = {"rounded_causal": GROUPS["rounded_causal"]}


class TestContract(CudaTemplateContract):
    templates = ("cuda_attention",)
    programs = QUICK
    targets = ("sm_90a",)
    architecture = "sm_90a"


def sampled(program: Program, count: int, seed: int = 0) -> list[Schedule]:
    """Random schedules of warp groups."""
    space, rng = TEMPLATE.space(task_of(program, HOPPER)), random.Random(f"{seed} {program.dumps()}")
    found: list[Schedule] = []
    while len(found) < count:
        schedule = space.sample(rng)
        found += [schedule] if schedule.values["groups"] else []
    return found


Made = dict[Candidate, LoweredKernel]


def lowered(program: Program, schedules: list[Schedule]) -> Made:
    candidates = [Candidate(task_of(program, HOPPER), s) for s in schedules]
    return {c: TEMPLATE.lower(c) for c in candidates}


def built(*several: Made, sanitize: tuple[str, ...] = ()) -> EmulatedKernel:
    """One unit of them all."""
    return emulated([k for made in several for k in made.values()], HOPPER, sanitize)


def computes(program: Program, made: Made, kernel: EmulatedKernel) -> None:
    """Schedules in every order, compared with the reference."""
    if kernel.unchecked:
        pytest.skip(kernel.unchecked)
    inputs = random_arrays(program, 1)
    right = evaluate(program, inputs)
    for candidate, one in made.items():
        for order, copies in ORDERS:
            got = empty_output(program.output.shape, program.output.dtype)
            report = run(kernel, one.program, launch_values(candidate), inputs, got, order=order, copies=copies)
            if report.unchecked:
                pytest.skip(report.unchecked)
            assert report.ok, (dict(candidate.schedule.values), order, copies, report.bugs)
            check(program, inputs, got, right)


@cache
def drawn(name: str) -> Made:
    program = GROUPS[name]()
    return lowered(program, sampled(program, 1))


TOGETHER = 7
"""Programs whose kernels are one unit: much of each is what warp groups' products mean."""


@cache
def unit(part: int) -> EmulatedKernel:
    return built(*map(drawn, list(GROUPS)[part * TOGETHER : (part + 1) * TOGETHER]))


@pytest.mark.parametrize("name", GROUPS)
def test_schedules_compute_the_reference(name: str) -> None:
    computes(GROUPS[name](), drawn(name), unit(list(GROUPS).index(name) // TOGETHER))


def test_parts_of_the_keys_are_merged() -> None:
    """Of four parts the last ones have no key that a query sees."""
    program = attention(h=1, lq=40, lk=300, d=16, dv=8, dtype="bfloat16", modify=causal, rounded=True)
    made = lowered(program, [TEMPLATE.space(task_of(program, HOPPER)).schedule({**ONE_GROUP, "KP": 4})])
    computes(program, made, built(made))


def test_groups_take_turns() -> None:
    program = attention(b=1, h=2, lq=200, lk=210, d=16, dv=8, dtype="bfloat16", modify=causal, rounded=True)
    space = TEMPLATE.space(task_of(program, HOPPER))
    several = [
        space.schedule({**ONE_GROUP, "KP": 1, "groups": n, "BK": k, "ping_pong": True}) for n, k in ((2, 96), (3, 32))
    ]
    made = lowered(program, several)
    computes(program, made, built(made))
    alone = [space.schedule({**s.values, "ping_pong": False}) for s in several]
    with_turns, without = (
        [k.program.launches[0].shared for k in lowered(program, x).values()] for x in (several, alone)
    )
    assert [a - b for a, b in zip(with_turns, without, strict=True)] == [2 * 8, 3 * 8]  # a barrier a group


@pytest.mark.nightly
@pytest.mark.parametrize("name", GROUPS)
def test_many_schedules_compute_the_reference(name: str) -> None:
    program = GROUPS[name]()
    for seed in range(1, 4):
        made = lowered(program, sampled(program, 6, seed))
        computes(program, made, built(made))


@pytest.mark.nightly
@pytest.mark.parametrize("sanitize", [("address", "undefined"), ("thread",)], ids="-".join)
@pytest.mark.parametrize("name", GROUPS)
def test_no_sanitizer_reports(sanitize: tuple[str, ...], name: str) -> None:
    program = GROUPS[name]()
    computes(program, drawn(name), built(drawn(name), sanitize=sanitize))


# ------------------------------------------------------------------ what matches


def knobs(program: Program, variant: str = "sm_90a") -> set[str]:
    return {k.name for k in TEMPLATE.space(task_of(program, target(variant))).knobs}


@pytest.mark.parametrize("variant", VARIANTS)
def test_groups_are_hoppers_alone(variant: str) -> None:
    assert ("groups" in knobs(GROUPS["shared"](), variant)) == (variant == "sm_90a")


@pytest.mark.parametrize("name", GROUPS)
def test_tensor_maps_describe_all_operands(name: str) -> None:
    assert "groups" in knobs(GROUPS[name]())


@pytest.mark.parametrize(
    "program",
    [
        HALVES["half_grouped"],  # rows of 20 bytes
        lambda: attention(lq=40, d=16, dv=12, dtype="float16"),  # of values, of 24
        lambda: attention(lq=40, d=16, dv=16),  # float32
    ],
)
def test_other_attentions_have_no_groups(program: Callable[[], Program]) -> None:
    assert "groups" not in knobs(program())


def test_heads_are_named_by_where_they_begin() -> None:
    """Heads that share keys, and heads that lie within rows: a number of matrices, whatever their order."""
    shared, packed = (match(GROUPS[name]()) for name in ("shared", "packed"))
    assert shared is not None
    assert packed is not None
    assert fetched(shared)
    keys = matrices(shared.k)
    assert keys is not None
    assert (keys.apart, keys.step, keys.count) == (24, 70 * 24, 4)
    values = matrices(packed.v)
    assert values is not None
    assert (values.apart, values.step) == (3 * 3 * 72, 72)  # q, k and v of three heads
    assert values.count == 2 * 70 * 9 - 69 * 9
    assert "+" in repr(values.number) or "add" in repr(values.number)  # values lie behind queries and keys


def of_cache(rows: Callable[[te.Expr, te.TensorRef], tuple[te.Expr, te.Expr]], lk: int = 48) -> Program:
    """Attention over a cache (9, 24, 16) of keys, which are values too; key j lies at ``rows(j, table)``."""
    q, kept = te.input("q", (40, 16), "float16"), te.input("kept", (9, 24, 16), "float16")
    table = te.input("table", (lk,), "int32", low=0, high=8)

    def real(x: te.Expr) -> te.Expr:
        return te.cast(x, "float32")

    s = te.compute((40, lk), lambda i, j: te.sum(16, lambda r: real(q[i, r]) * real(kept[(*rows(j, table), r)])))
    t = te.compute((40,), lambda i: te.max(lk, lambda j: s[i, j]))
    total = te.compute((40,), lambda i: te.sum(lk, lambda j: te.exp(s[i, j] - t[i])))
    o = te.compute((40, 16), lambda i, e: te.sum(
        lk, lambda j: real(te.cast(te.exp(s[i, j] - t[i]), "float16")) * real(kept[(*rows(j, table), e)])
    ))  # fmt: skip
    return te.program(te.compute((40, 16), lambda i, e: o[i, e] / total[i], dtype="float16"))[0]


@pytest.mark.parametrize(
    ("rows", "lk", "page"),
    [
        (lambda j, table: (table[j // 24], j % 24), 48, 24),
        (lambda j, table: (table[j // 8], j % 8), 48, 8),  # the first rows of pages alone
        (lambda j, table: (table[0], j), 24, 0),  # one page for all: a matrix that the table chooses
        (lambda j, table: (table[j // 12], j % 12), 48, None),  # no multiple of eight
        (lambda j, table: (table[j // 16], j % 16), 40, None),  # a last page that is cut
        (lambda j, table: (table[j // 16], j % 8), 48, None),  # the same rows again
        (lambda j, table: (table[j], 3), 48, None),  # rows of their own
    ],
)
def test_pages_are_matrices(
    rows: Callable[[te.Expr, te.TensorRef], tuple[te.Expr, te.Expr]], lk: int, page: int | None
) -> None:
    program = of_cache(rows, lk)
    found = match(program)
    assert found is not None
    assert fetched(found) == (page is not None)
    if page is None:
        return
    keys = matrices(found.k)
    assert keys is not None
    assert (keys.paged, keys.rows) == (page > 0, page or lk)
    assert [keys.piece(n) for n in (16, 32, 64)] == ([8, 8, 8] if page else [16, 32, 64])
    if page != 24:
        made = lowered(program, [TEMPLATE.space(task_of(program, HOPPER)).schedule({**ONE_GROUP, "BK": 16})])
        computes(program, made, built(made))


def test_rules_say_why() -> None:
    task = task_of(attention(lq=512, lk=512, d=128, dv=128, dtype="float16", rounded=True), HOPPER)
    good = {**ONE_GROUP, "BK": 64, "groups": 2, "KP": 1, "ping_pong": True}
    space = TEMPLATE.space(task)
    assert space.allows(good)
    for change, reason in (
        ({"warps": 8}, "four warps"),
        ({"q_registers": True}, "in shared memory"),
        ({"min_blocks": 2}, "all registers"),
        ({"tiles": 2}, "more registers"),
        ({"BK": 128, "stages": 3, "groups": 3}, "shared memory"),
        ({"groups": 1}, "to take turns with"),
        ({"groups": 0, "BK": 96, "ping_pong": False}, "are for groups"),
    ):
        with pytest.raises(IllegalSchedule, match=reason):
            space.schedule({**good, **change})


# ------------------------------------------------------------------ the default


@pytest.mark.parametrize(
    ("sizes", "takes"),
    [
        ({"lq": 4096, "d": 64}, True),
        ({"lq": 4096, "d": 128, "is_causal": True}, True),
        ({"lq": 4096, "d": 256}, True),
        ({"lq": 64, "d": 128}, True),
        ({"lq": 16, "d": 128}, False),
    ],
)
def test_the_default_takes_groups_where_queries_fill_their_tiles(sizes: dict[str, int], takes: bool) -> None:
    task = Task(get_operator("attention").workload(b=1, h=16, lk=4096, **sizes, dtype="bfloat16"), HOPPER)
    schedule = TEMPLATE.default(task)
    assert (int(schedule.values.get("groups", 0)) > 0) == takes
    numbers = TEMPLATE.static(task, schedule)
    assert numbers["copy_threads"] == (128 if takes else 0)
    assert numbers["tensor_core"] == 1


def test_causal_blocks_that_nothing_sees_are_not_fetched() -> None:
    program = attention(lq=256, lk=256, d=64, dv=64, dtype="float16", modify=causal)
    [schedule] = sampled(program, 1)
    source = TEMPLATE.lower(Candidate(task_of(program, HOPPER), schedule)).source
    assert source.count("while (t <") == 1
    assert source.count("next(now + 1)") == 2  # by who copies and by who multiplies
