"""The CPU attention template: what it matches, what masks let it leave out, and NaN and infinity."""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from attention_programs import PROGRAMS, attention, causal, documents, window

from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate, IllegalSchedule, LaunchProgram, Target
from tilewright.kernels import te
from tilewright.kernels.expression.expr import Expr, axis, select
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.attention import match
from tilewright.kernels.kernel import Opaque
from tilewright.kernels.loopnest import LoopNest
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates.base import LoweredKernel
from tilewright.kernels.templates.cpu_attention.blocks import Blocks
from tilewright.kernels.templates.cpu_attention.staging import staged_reads
from tilewright.kernels.templates.cpu_attention.template import CPU_ATTENTION
from tilewright.testing.kernels import Array, compile_kernels, launch_values, random_arrays, run_kernel, task_of
from tilewright.testing.template import TemplateContract, portable_target

TEMPLATE = CPU_ATTENTION


class TestContract(TemplateContract):
    templates = ("cpu_attention",)
    programs = PROGRAMS
    schedules = 1


@pytest.mark.nightly
class TestEveryInstructionSet(TemplateContract):
    templates = ("cpu_attention",)
    programs = PROGRAMS
    schedules = 3
    targets = ("cpu:avx512", "cpu:avx2", "cpu:neon", "cpu:portable")


# --------------------------------------------------------------------------- the kernel as a value


def other_step(nest: LoopNest, axis: str, number: int, inside: bool) -> LoopNest:
    """The nest with twice the step in a loop of an axis; ``inside``: the next loop of the axis walks as much."""
    own = [n for n, x in enumerate(nest.loops) if x.axis == axis]
    loops, step = list(nest.loops), 2 * nest.loops[own[number]].step
    loops[own[number]] = replace(loops[own[number]], step=step)
    if inside:
        loops[own[number + 1]] = replace(loops[own[number + 1]], extent=step)
    return replace(nest, loops=tuple(loops))


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_of_other_steps_are_another_text(name: str) -> None:
    task, rng = task_of(PROGRAMS[name](), portable_target(TEMPLATE, 3)), random.Random(name)
    for schedule in (TEMPLATE.default(task), *(TEMPLATE.space(task).sample(rng) for _ in range(3))):
        kernel = TEMPLATE.kernel(task, schedule)
        assert isinstance(kernel.text, Opaque)
        for n, nest in enumerate(kernel.nests):
            for x in nest.axes:
                loops = [loop for loop in nest.loops if loop.axis == x]
                for number, loop in enumerate(loops):
                    alone = [other_step(nest, x, number, False) if m is nest else m for m in kernel.nests]
                    with pytest.raises(ValueError, match=f"do not walk all of {x!r}"):
                        replace(kernel, text=replace(kernel.text, nests=tuple(alone))).lower("tw")
                    if loop is loops[-1] or (x == "j" and loop.level != "register"):  # a block and a part are arguments
                        continue
                    several = [
                        other_step(m, x, number, True) if x == "i" or m is nest else m for m in kernel.nests
                    ]  # fmt: skip
                    changed = replace(kernel, text=replace(kernel.text, nests=tuple(several)))
                    assert changed.nests[n] != nest
                    assert changed.lower("tw").source != kernel.lower("tw").source, f"{loop} of {nest.name}"


def test_the_scores_and_the_result_have_the_same_strips() -> None:
    task = task_of(PROGRAMS["plain"](), portable_target(TEMPLATE))
    kernel = TEMPLATE.kernel(task, TEMPLATE.default(task))
    assert isinstance(kernel.text, Opaque)
    scores, values = kernel.nests
    for nests in ((other_step(scores, "i", 0, True), values), (scores, other_step(values, "i", 0, True))):
        with pytest.raises(ValueError, match="the scores and the result have other strips"):
            replace(kernel, text=replace(kernel.text, nests=nests)).lower("tw")


# --------------------------------------------------------------------------- matching


def test_what_is_read_from_a_program() -> None:
    a = match(PROGRAMS["grouped"]())
    assert a is not None
    assert (a.outer, a.query, a.key) == (("i0", "i1"), "i2", "i3")
    assert (a.queries, a.keys, a.depth, a.width) == (5, 19, 7, 3)
    assert a.plain_finish
    assert repr(a.k.load) == "x1[i0, (i1 // 3), i3, r0]"


def test_weights_may_be_rounded_to_the_values_type() -> None:
    kept, rounded = (match(attention(dtype="bfloat16", rounded=r)) for r in (False, True))
    assert kept is not None
    assert rounded is not None
    assert (kept.rounded, rounded.rounded) == ("", "bfloat16")


def small(
    top: Callable[[te.TensorRef], te.TensorRef] | None = None,
    weight: Callable[[te.Expr, te.Expr], te.Expr] = lambda s, t: te.exp(s - t),
    product: Callable[[te.Expr, te.Expr], te.Expr] = lambda q, k: q * k,
    result: Callable[[te.Expr, te.Expr, te.Expr], te.Expr] = lambda o, t, s: o / t,
    dtype: str = "float32",
    keys_of: Callable[[te.Expr, te.Expr], tuple[te.Expr, te.Expr]] = lambda i, j: (j, j),
) -> Program:
    """Attention of one head, with a part replaced."""
    n, d = 9, 4
    q, k, v = (te.input(x, (n, d), dtype) for x in "qkv")
    s = te.compute((n, n), lambda i, j: te.sum(d, lambda r: product(q[i, r], k[keys_of(i, j)[0], r])))
    t = top(s) if top else te.compute((n,), lambda i: te.max(n, lambda j: s[i, j]))
    total = te.compute((n,), lambda i: te.sum(n, lambda j: weight(s[i, j], t[i])))
    o = te.compute((n, d), lambda i, e: te.sum(n, lambda j: weight(s[i, j], t[i]) * v[keys_of(i, j)[1], e]))
    return te.program(te.compute((n, d), lambda i, e: result(o[i, e], total[i], s[i, e])))[0]


def test_one_head_matches() -> None:
    assert match(small()) is not None


@pytest.mark.parametrize(
    "program",
    [
        small(top=lambda s: te.compute((9,), lambda i: te.min(9, lambda j: s[i, j]))),
        small(top=lambda s: te.compute((9,), lambda i: te.max(9, lambda j: s[j, i]))),
        small(top=lambda s: te.compute((9,), lambda i: te.max(9, lambda j: s[i, j] * 2.0))),
        small(weight=lambda s, t: te.exp(t - s)),
        small(weight=lambda s, t: te.exp((s - t) * 0.5)),
        small(weight=lambda s, t: te.exp(s)),
        small(product=lambda q, k: q + k),
        small(product=lambda q, k: (q - k) * (q - k)),
        small(result=lambda o, t, s: o / t + s),
        small(result=lambda o, t, s: t / o),
        small(result=lambda o, t, s: o * t),
        small(dtype="float64"),
        small(keys_of=lambda i, j: ((i + j) % 9, j)),
        small(keys_of=lambda i, j: (j, (i + j) % 9)),
        small(keys_of=lambda i, j: (j * j // 9 if isinstance(j, int) else j // 2, j)),
    ],
    ids=itertools.count(),
)  # fmt: skip
def test_what_it_does_not_compute_is_refused(program: Program) -> None:
    assert match(program) is None
    task = task_of(program, portable_target(TEMPLATE))
    assert not TEMPLATE.matches(task)
    with pytest.raises(IllegalSchedule, match="not an attention"):
        TEMPLATE.space(task)


def test_a_block_of_keys_holds_a_tile() -> None:
    task = task_of(attention(lk=512), parse_target("cpu:avx512", allow_foreign=True))
    values = dict(TEMPLATE.default(task).values)
    with pytest.raises(IllegalSchedule, match="smaller than a tile"):
        TEMPLATE.space(task).schedule({**values, "NV": 1, "KR": 28, "ER": 11, "unroll_depth": 1, "KB": 16})


# --------------------------------------------------------------------------- keys shared by tasks


def wide(threads: int) -> Target:
    return replace(parse_target("cpu:avx512", allow_foreign=True), threads=threads)


@pytest.mark.parametrize(
    ("program", "threads", "parts"),
    [
        (attention(h=1, lq=16, lk=1024), 1, 1),
        (attention(h=1, lq=16, lk=1024), 2, 2),
        (attention(h=8, lq=16, lk=1024), 64, 8),
        (attention(h=8, lq=16, lk=100), 64, 1),
        (attention(h=64, lq=256, lk=1024), 64, 1),
    ],
    ids=itertools.count(),
)
def test_tasks_share_keys_where_strips_are_few(program: Program, threads: int, parts: int) -> None:
    task = task_of(program, wide(threads))
    schedule = TEMPLATE.default(task)
    assert schedule.values.get("KP", 1) == parts
    assert ("merge" in TEMPLATE.lower(Candidate(task, schedule)).source) == (parts > 1)


@pytest.mark.parametrize("parts", [2, 3])
def test_any_number_of_tasks_shares_the_keys(parts: int) -> None:
    """NaN, infinity, rows without keys in a part, and rows without keys at all, as in one pass."""
    program = attention(
        h=1, lq=10, lk=200, d=4, dv=4,
        modify=lambda s, p, g, i, j, m: te.select(m[i, j], s, -math.inf),
        inputs=lambda: (te.input("m", (10, 200), "bool"),),
    )  # fmt: skip
    q, k, v, mask = random_arrays(program)
    mask[...] = True
    mask[2, :150], mask[3, 20:], mask[5, :] = False, False, False
    q[0, 0, 1, 2], q[0, 0, 4, 0], v[0, 0, 30, 1] = np.nan, np.inf, np.inf
    got, expected = run(program, [q * 30, k * 30, v, mask], threads=2, KP=parts)
    assert np.isnan(got[0, 0, 5]).all()
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


# --------------------------------------------------------------------------- masks


def conditions() -> dict[str, Expr]:
    b, i, j = axis("b"), axis("i"), axis("j")
    return {
        "causal": j <= i,
        "window": (i - j < 5) & (j - i <= 3),
        "either": (i // 4 == j // 4) | (j < 3),
        "stripes": ~((j % 6 >= 2) | (i * 2 > 3 * j + 4)),
        "clamped": te.minimum(i, 7) + 1 != te.maximum(j, 4),
        "shifted": (j - b * 5 < i) & (i % 4 == 3),
        "lengths": j - i < te.cast(Expr("load", "int32", (b,), "x3"), "index"),
    }


def blocks_of_read(e: Expr) -> str:
    """What stands in a program's text for an element that is one for the whole block."""
    [load] = e.loads()
    return f"x3[{load.args[0].value}]"


def test_blocks_are_decided_as_every_point_says() -> None:
    """A mask may only be said to hold where it does; for affine conditions, wherever it does."""
    n, tests, names = 14, [], []
    for name, condition in conditions().items():
        blocks = Blocks({"b": ("b", "b"), "i": ("i0", "i1"), "j": ("j0", "j1")}, blocks_of_read)
        masked = blocks.masked(select(condition, Expr("var", "float32", (), "s"), -math.inf))
        names.append(name)
        tests += [f"({blocks.decide(condition)[0]})!=0", f"({masked})!=0"]
    body = "".join(f"((int*)tensors[0])[{k}]={t};" for k, t in enumerate(tests))
    source = (
        "TW_ENTRY(tw_masks) { long b=args[0],i0=args[1],i1=args[2],j0=args[3],j1=args[4]; "
        f"const int x3[]={{-2,5}}; (void)workspace; (void)env; (void)b; (void)i0; (void)i1; (void)j0; (void)j1; {body} return 0; }}"
    )
    kernel = LoweredKernel("tw_masks", source, LaunchProgram(()))
    library = compile_kernels([kernel], portable_target(TEMPLATE))
    out = (ctypes.c_int * len(tests))()
    tensors = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    b, i, j = np.ogrid[:2, :n, :n]
    points = {
        "causal": j <= i,
        "window": (i - j < 5) & (j - i <= 3),
        "either": (i // 4 == j // 4) | (j < 3),
        "stripes": ~((j % 6 >= 2) | (i * 2 > 3 * j + 4)),
        "clamped": np.minimum(i, 7) + 1 != np.maximum(j, 4),
        "shifted": (j - b * 5 < i) & (i % 4 == 3),
        "lengths": j - i < np.array([-2, 5])[b],
    }
    decided = dict.fromkeys(names, 0)
    for bb, i0, j0, hi, wj in itertools.product((0, 1), range(0, n, 3), range(0, n, 3), (1, 3, 4), (1, 2, 5)):
        i1, j1 = min(i0 + hi, n) - 1, min(j0 + wj, n) - 1
        library.tw_masks(tensors, (ctypes.c_longlong * 5)(bb, i0, i1, j0, j1), None, None)
        for k, name in enumerate(names):
            part = np.broadcast_to(points[name], (2, n, n))[bb, i0 : i1 + 1, j0 : j1 + 1]
            assert not out[2 * k] or part.all(), f"{name} does not always hold in {i0}:{i1}, {j0}:{j1}"
            assert not out[2 * k + 1] or not part.any(), f"{name} holds somewhere in {i0}:{i1}, {j0}:{j1}"
            decided[name] += out[2 * k] + out[2 * k + 1]
            if name == "causal":
                assert (bool(out[0]), bool(out[1])) == (part.all(), not part.any())
    assert all(decided.values()), decided


def test_conditions_on_data_are_left_open() -> None:
    blocks = Blocks({"i": ("i0", "i1"), "j": ("j0", "j1")}, blocks_of_read)
    keep = te.Expr("load", "bool", (axis("j"),), "x3")
    score = select(keep, Expr("var", "float32", (), "s"), -math.inf)
    assert blocks.decide(keep) == ("0", "0")
    assert blocks.decide(axis("i") < te.cast(Expr("load", "int32", (axis("j"),), "x3"), "index")) == ("0", "0")
    assert blocks.masked(score) == "0"
    assert blocks.masked(select(axis("j") <= axis("i"), score, -1e9)) == "0", "a finite number is no mask"
    test, simple = blocks.open(select(axis("j") <= axis("i"), score, -math.inf))
    assert test != "1"
    assert simple.args[0].op == "load"


def test_sources_leave_masked_blocks_out() -> None:
    target = portable_target(TEMPLATE)
    for modify, skips in ((None, False), (causal, True), (window, True), (documents, True)):
        task = task_of(attention(lq=40, lk=40, modify=modify), target)
        source = TEMPLATE.lower(Candidate(task, TEMPLATE.default(task))).source
        assert ("continue;" in source) == skips


# --------------------------------------------------------------------------- NaN and infinity


def run(program: Program, inputs: list[Array], threads: int = 1, **values: int) -> tuple[Array, Array]:
    task = task_of(program, replace(parse_target("cpu:portable", allow_foreign=True), threads=threads))
    chosen = {**TEMPLATE.default(task).values, "KB": 16, **values}
    candidate = Candidate(task, TEMPLATE.space(task).schedule(chosen))
    kernel = TEMPLATE.lower(candidate)
    library = compile_kernels([kernel], task.target)
    got = run_kernel(library, kernel, launch_values(candidate), inputs, task.workload.output)
    return got, evaluate(program, inputs)


@pytest.mark.parametrize("width", [3, 16, 19])
def test_what_follows_a_head_reaches_lanes_that_fill_no_vector(width: int) -> None:
    program = attention(
        dv=width, finish=lambda y, p, g, i, c, x: y + x[p, g, i, c], inputs=lambda: (te.input("x", (1, 2, 21, width)),)
    )
    got, expected = run(program, random_arrays(program, 3))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_rows_without_keys_are_nan_and_others_are_not() -> None:
    """The first keys, or all of them, are masked for some rows; no block of keys may leave NaN behind."""
    program = attention(
        h=1, lq=10, lk=48, d=4, dv=4,
        modify=lambda s, p, g, i, j, m: te.select(m[i, j], s, -math.inf),
        inputs=lambda: (te.input("m", (10, 48), "bool"),),
    )  # fmt: skip
    q, k, v, mask = random_arrays(program)
    mask[...] = True
    mask[2, :20], mask[3, :32], mask[5, :] = False, False, False
    got, expected = run(program, [q, k, v, mask])
    assert np.isnan(got[0, 0, 5]).all()
    assert np.isfinite(np.delete(got, 5, axis=2)).all()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_a_mask_by_position_leaves_whole_rows_nan() -> None:
    program = attention(
        h=1, lq=12, lk=24, d=4, dv=4,
        modify=lambda s, p, g, i, j: te.select(j + 4 <= i, s, -math.inf),
    )  # fmt: skip
    got, expected = run(program, random_arrays(program))
    assert np.isnan(got[0, 0, :4]).all()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_infinite_and_nan_operands_spread_as_in_the_reference() -> None:
    program = attention(h=1, lq=9, lk=40, d=4, dv=4)
    q, k, v = random_arrays(program)
    q[0, 0, 1, 2], q[0, 0, 4, 0], v[0, 0, 30, 1] = np.nan, np.inf, np.inf
    got, expected = run(program, [q, k, v])
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(got[0, 0, 1]).all()
    assert np.isinf(got[0, 0, 0, 1])


def test_large_scores_do_not_overflow() -> None:
    program = attention(h=1, lq=9, lk=40, d=4, dv=4)
    q, k, v = random_arrays(program)
    got, expected = run(program, [q * 300, k * 300, v])
    assert np.isfinite(got).all()
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)


# --------------------------------------------------------------------------- dense masks


def test_reads_along_the_keys_are_turned() -> None:
    for name, expected in {"bias": ["x3[i1, i2, i3]"], "mask": ["x3[i2, i3]"], "keep": [], "window": []}.items():
        a = match(PROGRAMS[name]())
        assert a is not None
        assert [repr(r.load) for r in staged_reads(a)] == expected


def test_reads_that_need_their_condition_are_not_turned() -> None:
    """Outside of the condition the address may lie outside of the tensor."""
    program = attention(
        h=1, lq=20, lk=20,
        modify=lambda s, p, g, i, j, x: te.select((j > 0) & (j < i), s + x[i, j - 1], s),
        inputs=lambda: (te.input("x", (20, 19)),),
    )  # fmt: skip
    a = match(program)
    assert a is not None
    assert not staged_reads(a)
    got, expected = run(program, random_arrays(program))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_few_queries_are_left_to_other_templates() -> None:
    wide = parse_target("cpu:avx512", allow_foreign=True)
    assert not TEMPLATE.matches(task_of(attention(lq=8), wide))
    assert TEMPLATE.matches(task_of(attention(lq=9), wide))
