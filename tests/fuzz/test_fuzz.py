"""The fuzzer: it notices errors that are planted in kernels, makes their programs small, and goes on where it ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz import calls, formats, ranges, reference, text
from fuzz.check import Failure, prepare, values
from fuzz.findings import Log, replayed
from fuzz.generate import program
from fuzz.session import SCHEDULES, Options, Session
from fuzz.tree import Case, Input, Node, Stage, axis, binary, const
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operator import operator
from tilewright.kernels.reference import evaluate

READ = Node("load", "float32", (axis("a0"), axis("k0")), "x0")
ROWS = Stage("s0", "reduce", (("a0", 9),), (READ,), "float32", "sum", (("k0", 19),))
DOUBLED = binary("mul", Node("load", "float32", (axis("a0"),), "s0"), const(2.0, "float32"))
CASE = Case(
    (Input("x0", (9, 19), "float32"), Input("x1", (9,), "float32")),
    (
        ROWS,
        Stage("s1", "map", (("a0", 9),), (DOUBLED,), "float32"),
        Stage("s2", "map", (("a0", 9),), (Node("load", "float32", (axis("a0"),), "x1"),), "float32"),
    ),
    ("s1", "s2"),
)
"""Sums of rows, twice them, and a copy of something else."""


def dropped_term(source: str) -> str:
    """The last vector of a sum is taken to be one element shorter."""
    return re.sub(r"(tw::first<tw::mask<[^()]*>>>\()(\d+)", lambda m: f"{m[1]}{int(m[2]) - 1}", source)


def off_by_one(source: str) -> str:
    return source.replace("x0 + (", "x0 + 1 + (").replace("x0[", "x0[1 + ")


def beyond_the_end(source: str) -> str:
    return re.sub(r"(\bTW_ENTRY\(\w+\) \{\n)", r"\1 ((float *)tensors[2])[64] = 1;\n", source)


def crash(source: str) -> str:
    return re.sub(r"(\bTW_ENTRY\(\w+\) \{\n)", r"\1 *(volatile int *)8 = 1;\n", source)


def no_language(source: str) -> str:
    return source + "}"


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """Default schedules alone, and a few steps towards smaller programs: each is compiled."""
    monkeypatch.setitem(SCHEDULES, "portable", 0)
    return Session(Options(targets=("portable",), tries=4), Log(tmp_path / "found.jsonl", resume=False), lambda _: None)


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    ("doctor", "kind"),
    [
        (dropped_term, "wrong"), (crash, "crash"), (no_language, "build"),
        pytest.param(off_by_one, "wrong", marks=NIGHTLY), pytest.param(beyond_the_end, "memory", marks=NIGHTLY),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)  # fmt: skip
def test_planted_errors_are_found_and_their_programs_made_small(
    session: Session, doctor: Callable[[str], str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz.session.program", lambda seed, number: replace(CASE, seed=seed, number=number))
    session.o.programs, session.o.doctor = 1, doctor
    assert session.run().findings >= 1
    found = next(x for x in session.log.findings() if x["kind"] == kind)
    target, template, case = replayed(Path(found["file"]))
    assert (target, template) == ("portable", found["template"])
    assert case.size() < CASE.size()
    assert len(case.stages) < len(CASE.stages)
    like = Failure(kind, "", target, template)
    assert session.fails(case, like)
    session.o.doctor = str
    assert not session.fails(case, like)  # without the error it is right


def test_kernels_without_errors_are_right_and_a_run_goes_on_where_it_ended(session: Session, tmp_path: Path) -> None:
    session.o.programs = 2
    counts = session.run()
    assert (counts.programs, counts.findings) == (2, 0)
    assert counts.kernels >= 2
    later = Session(replace(session.o), Log(tmp_path / "found.jsonl", resume=True), lambda _: None)
    assert later.run().programs == 0


def test_programs_are_the_same_each_time_and_all_of_the_language() -> None:
    texts = [text.source(program(0, n)) for n in range(150)]
    assert texts == [text.source(program(0, n)) for n in range(150)]
    together = "".join(texts)
    for word in (
        "te.sum", "te.max", "te.prod", "te.argmax", "te.scan", "te.scatter", "te.reduce", "te.select", "float8_e4m3fn",
        "bfloat16", "float64", "int8", "bool", "%", "//", "linear(", "te.erf", "te.pow",
    ):  # fmt: skip
        assert word in together, word


def test_numpy_says_what_the_interpreter_says() -> None:
    compared = 0
    for n in range(60):
        p = prepare(program(3, n))
        assert not isinstance(p, Failure)
        if p is None:
            continue
        given = values(p.case, "normal", 1000 * p.case.seed + n)
        try:
            known = reference.evaluate(p.case, given)
        except reference.Unclear:
            continue
        stored = [formats.pack(given[t.name], t.dtype) for t in p.case.inputs]
        for s, one in zip(p.case.results, Program.loads(p.workload.program).of_each(), strict=True):
            wrong = reference.difference(np.asarray(evaluate(one, stored)), known[s.name], s.dtype)
            assert wrong is None, f"program {n}: {wrong}\n{text.source(p.case)}"
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_agrees_with_the_package_that_has_these_types(dtype: str) -> None:
    kind = formats.numpy_type(dtype)
    x = np.concatenate([np.random.default_rng(0).standard_normal(5000) * 10.0**e for e in range(-9, 7)])
    x = x.astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(formats.rounded(x, dtype), x.astype(np.float32).astype(kind).astype(np.float64))


def test_an_error_bound_leaves_no_room_for_a_missing_term() -> None:
    given = {"x0": np.random.default_rng(0).standard_normal((9, 19)), "x1": np.ones(9)}
    want = reference.evaluate(CASE, given)["s1"]
    assert reference.difference(2 * given["x0"].sum(1), want, "float32") is None
    assert reference.difference(2 * given["x0"][:, :-1].sum(1), want, "float32") is not None


def test_a_product_is_judged_only_where_no_group_of_its_factors_can_overflow() -> None:
    product = replace(CASE, stages=(replace(ROWS, how="prod"),), outputs=("s0",))
    values = np.full((9, 19), 0.5)
    values[0, :12] = 1e4  # any order may come to infinity times 0
    want = reference.evaluate(product, {"x0": values, "x1": np.zeros(9)})["s0"]
    assert np.isinf(want.error[0])
    assert (want.error[1:] < 1e-4 * want.value[1:]).all()


def test_ranges_are_operators_of_which_a_size_is_one() -> None:
    seen = set()
    for n in range(40):
        case = ranges.ranged(0, n)
        seen.add(case.op)
        assert f"{case.low}..{case.high}" in case.told
    assert seen == {"matmul", "elementwise", "softmax", "sum"}


def test_a_wrong_answer_of_a_call_is_a_failure() -> None:
    x = np.ones((calls.M, calls.K), np.float32)

    def judged(call: Callable[..., object], may_refuse: bool = False) -> Failure | None:
        return calls._judged(call, calls._softmax, [x], [x.copy()], "softmax(dense)", may_refuse)

    assert judged(calls._softmax) is None
    assert judged(lambda a: calls._softmax(a) + 1).kind == "wrong"  # type: ignore[union-attr]
    assert judged(lambda a: calls._softmax(a)[:1]).kind == "wrong"  # type: ignore[union-attr]

    def refuses(_: object) -> object:
        raise ValueError("no")

    assert judged(refuses, may_refuse=True) is None
    assert judged(refuses).kind == "wrong"  # type: ignore[union-attr]


def test_a_programs_text_defines_the_operator() -> None:
    made = operator(name="case")(text.definition(text.source(CASE))).workload()
    assert [s.shape for s in made.inputs] == [(9, 19), (9,)]
    assert len(made.outputs) == 2
