"""CUDA attention whose blocks share keys: every part merged, on the emulator, and when the default has parts."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from attention_programs import attention, bias, causal
from cuda_attention_programs import real_bias

from tilewright.backends.cuda.archs import target
from tilewright.backends.emulator import EmulatedKernel, run
from tilewright.core import Candidate, IllegalSchedule, Task
from tilewright.kernels import te
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.testing.cuda_template import ORDERS, empty_output, emulated
from tilewright.testing.kernels import Array, check, launch_values, random_arrays, task_of

TEMPLATE = get_template("cuda_attention")
SM80 = target("sm_80")

EACH = [("float16", False), ("float16", True), ("float32", False)]
KINDS = pytest.mark.parametrize(("dtype", "rounded"), EACH, ids=["kept", "rounded", "float32"])
COPIED = [("fifo", "lazy")]


def candidate(program: Program, parts: int, stages: int = 2) -> Candidate:
    """The default but for its parts, of 16 keys at a time."""
    task = task_of(program, SM80)
    values = {**TEMPLATE.default(task).values, "BK": 16, "stages": stages, "KP": parts}
    if "lanes" in values:
        values |= {"lanes": 8, "warps": 1, "rows": 2}
    return Candidate(task, TEMPLATE.space(task).schedule(values))


def computed(
    made: Candidate, inputs: list[Array], orders: list[tuple[str, str]] = COPIED, built: EmulatedKernel | None = None
) -> Array:
    """The result, which is the same in all these orders."""
    lowered = TEMPLATE.lower(made)
    kernel = built or emulated([lowered], SM80)
    (out,) = made.task.workload.outputs
    results = []
    for order, copies in orders:
        got = empty_output(out.shape, out.dtype)
        report = run(kernel, lowered.program, launch_values(made), inputs, got, order=order, copies=copies)
        assert report.ok, report.bugs
        results.append(got)
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    return results[0]


def cases(dtype: str, rounded: bool) -> dict[str, Program]:
    kind: dict[str, Any] = {"dtype": dtype, "rounded": rounded, "d": 16}
    half = dtype != "float32"
    return {
        "one query": attention(b=2, h=4, hk=2, lq=1, lk=260, dv=8, **kind),
        "odd": attention(h=3, hk=1, lq=5, lk=259, dv=6 if half else 7, **kind),
        "causal": attention(h=1, lq=16, lk=300, dv=8, modify=causal, **kind),
        "mask": attention(
            lq=2, lk=270, dv=10, modify=real_bias if half else bias,
            inputs=lambda: (te.input("bias", (2, 2, 270), dtype),), **kind,
        ),
        "residual": attention(
            h=2, lq=3, lk=280, dv=4, finish=lambda y, p, g, i, c, x: y * 0.5 + x[g, i, c],
            inputs=lambda: (te.input("x", (2, 3, 4)),), **kind,
        ),
    }  # fmt: skip


@cache
def merged() -> tuple[dict[tuple[str, bool, str], Candidate], EmulatedKernel]:
    """Every case of every kind, in two parts or four: each has both. Compiled together."""
    made: dict[tuple[str, bool, str], Candidate] = {}
    for kind, (dtype, rounded) in enumerate(EACH):
        for number, (name, program) in enumerate(cases(dtype, rounded).items()):
            made[dtype, rounded, name] = candidate(program, *((2, 1), (4, 2))[(kind + number) % 2])
    return made, emulated([TEMPLATE.lower(c) for c in made.values()], SM80)


@KINDS
@pytest.mark.parametrize("name", cases("float32", False))
def test_parts_are_merged(dtype: str, rounded: bool, name: str) -> None:
    program = cases(dtype, rounded)[name]
    inputs = random_arrays(program)
    made, kernel = merged()
    got = computed(made[dtype, rounded, name], inputs, list(ORDERS), kernel)
    check(program, inputs, got, evaluate(program, inputs))


@KINDS
def test_any_part_may_have_the_greatest_scores(dtype: str, rounded: bool) -> None:
    """So far ahead that the others weigh nothing, and that no power of 2 of the distance is finite."""
    program = attention(h=1, lq=3, lk=256, d=16, dv=4, dtype=dtype, rounded=rounded)
    made = candidate(program, 4)
    built = emulated([TEMPLATE.lower(made)], SM80)
    q, k, v = random_arrays(program)
    q[...] = 4
    for part in range(4):
        k[...] = 0
        k[:, :, 64 * part : 64 * (part + 1)] = 8  # 128 above the others
        got = computed(made, [q, k, v], built=built)
        check(program, [q, k, v], got, evaluate(program, [q, k, v]))


@KINDS
def test_queries_without_keys(dtype: str, rounded: bool) -> None:
    """In a part they weigh nothing there, in all they are NaN, as in one pass."""
    program = attention(
        h=1, lq=10, lk=256, d=16, dv=4, dtype=dtype, rounded=rounded,
        modify=lambda s, p, g, i, j, m: te.select(m[i, j], s, -math.inf),
        inputs=lambda: (te.input("m", (10, 256), "bool"),),
    )  # fmt: skip
    q, k, v, mask = random_arrays(program)
    mask[...] = True
    mask[2, :150], mask[3, 20:], mask[5, :], mask[6, 64:192] = False, False, False, False
    q[0, 0, 1, 2] = np.nan
    inputs = [q * 8, k, v, mask]
    got = computed(candidate(program, 4), inputs)[0, 0].astype(np.float64)
    assert np.isnan(got[[1, 5]]).all()
    expected = evaluate(program, inputs)[0, 0]
    seen = [0, 2, 3, 4, 6, 7, 8, 9]
    np.testing.assert_allclose(
        got[seen], expected[seen], rtol=2e-2 if rounded else 4e-3, atol=2e-2 if rounded else 4e-3
    )


@KINDS
def test_a_query_whose_keys_are_all_masked_by_a_number_sees_all_alike(dtype: str, rounded: bool) -> None:
    least = float(np.finfo(np.float32).min)
    program = attention(
        h=1, lq=3, lk=257, d=16, dv=4, dtype=dtype, rounded=rounded,
        modify=lambda s, p, g, i, j, x: s + x[i, j], inputs=lambda: (te.input("bias", (3, 257)),),
    )  # fmt: skip
    q, k, v, masks = random_arrays(program)
    masks[...] = 0
    masks[0], masks[1, :200] = least, least
    got = computed(candidate(program, 4), [q, k, v, masks])[0, 0].astype(np.float64)
    np.testing.assert_allclose(got[0], v[0, 0].astype(np.float64).mean(0), rtol=1e-2, atol=4e-3)
    np.testing.assert_allclose(got[1], evaluate(program, [q, k, v, masks])[0, 0, 1], rtol=1e-2, atol=1e-2)


@KINDS
def test_masked_blocks_of_a_part_are_not_read(dtype: str, rounded: bool) -> None:
    program = attention(h=1, lq=80, lk=256, d=16, dv=8, dtype=dtype, modify=causal, rounded=rounded)
    q, k, v = random_arrays(program)
    made = candidate(program, 4)
    right = computed(made, [q, k, v])
    k[0, 0, 80:], v[0, 0, 80:] = np.nan, np.inf
    np.testing.assert_array_equal(computed(made, [q, k, v]), right)


def test_one_part_is_one_launch_without_a_workspace() -> None:
    program = attention(lq=1, lk=256, d=16, dv=16, dtype="float16")
    one, four = (TEMPLATE.lower(candidate(program, n)) for n in (1, 4))
    assert _launches(one) == [(2, 1, 1)]
    assert "merge" not in one.source
    assert one.program.workspace == 0
    assert _launches(four) == [(2, 4, 1), (1, 1, 1)]
    assert four.program.workspace == 4 * 2 * (16 + 2) * 4


def _launches(kernel: LoweredKernel) -> list[tuple[object, ...]]:
    return [x.grid for x in kernel.program.launches]


@pytest.mark.parametrize("variant", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    ("sizes", "shared"),
    [
        ({"b": 1, "h": 32, "lq": 1, "lk": 4096, "d": 128}, True),
        ({"b": 1, "h": 32, "hk": 8, "lq": 16, "lk": 2048, "d": 64}, True),
        ({"b": 1, "h": 8, "lq": 4, "lk": 32768, "d": 128}, True),
        ({"b": 1, "h": 16, "lq": 1, "lk": 64, "d": 64}, False),
        ({"b": 8, "h": 32, "lq": 1, "lk": 4096, "d": 128}, False),
        ({"b": 1, "h": 32, "lq": 4096, "lk": 4096, "d": 128, "is_causal": True}, False),
    ],
)
def test_the_default_has_parts_where_blocks_are_few(
    variant: str, dtype: str, sizes: dict[str, int], shared: bool
) -> None:
    task = Task(get_operator("attention").workload(**sizes, dtype=dtype), target(variant))
    schedule = TEMPLATE.default(task)
    parts = int(schedule.values.get("KP", 1))
    assert (parts > 1) == shared
    assert TEMPLATE.static(task, schedule)["split_k"] == parts
    assert parts == 1 or sizes["lk"] // int(schedule.values["BK"]) >= 2 * parts
    assert len(TEMPLATE.nests(task, schedule)) == (3 if shared else 2)


def test_blocks_enough_have_no_parts() -> None:
    program = attention(h=30, lq=64, lk=256, d=16, dv=8, dtype="float16")
    task = task_of(program, SM80)
    one = {**TEMPLATE.default(task).values, "warps": 1, "tiles": 1, "BK": 16}
    assert TEMPLATE.space(task).allows({**one, "KP": 1})
    with pytest.raises(IllegalSchedule, match="blocks enough"):
        TEMPLATE.space(task).schedule({**one, "KP": 2})
    with pytest.raises(IllegalSchedule, match="only one block"):
        TEMPLATE.space(task).schedule({**one, "warps": 4, "BK": 128, "KP": 2})
