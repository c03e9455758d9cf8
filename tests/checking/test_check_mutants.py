"""Mutants of a kernel: which are found, that each changes what it says, and that the checks kill them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from checked_kernel import SOURCE, WORKLOAD, line_of, subject

from tilewright.checking.check import Checker
from tilewright.core import TilewrightError

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from cpp_syntax import read
from mutant_runs import Switched, run_mutants
from mutants import ARGUMENT, Mutant, applied, choose, describe, mutants, with_switch


@pytest.fixture(scope="module")
def found() -> list[Mutant]:
    return mutants(SOURCE)


def of(found: list[Mutant], kind: str, text: str) -> Mutant:
    return next(m for m in found if m.kind == kind and text in m.change)


def test_every_kind_of_mistake_is_made(found: list[Mutant]) -> None:
    counts = describe(found)
    assert counts["sync"] == 1
    assert counts["cp_wait"] == 1
    assert counts["cp_commit"] == 2
    assert counts["reset"] == 1
    # Of each pair of conditions and each copy's valid bytes, of both ternaries and both ifs, of the store.
    assert counts["guard"] >= 4 + 2 + 2 + 2 + 2
    assert counts["stage"] >= 6
    assert counts["index"] >= 30
    assert mutants(SOURCE) == found  # always the same
    assert len({m.alone for m in found}) == len(found)


def test_one_mistake_in_the_text(found: list[Mutant]) -> None:
    line = SOURCE.split("\n")[line_of("m < 38") - 1]
    without = applied(SOURCE, of(found, "guard", "m < 38")).split("\n")[line_of("m < 38") - 1]
    assert without == line.replace("m < 38", "true")
    assert "acc[(i) + 1][j] += " in applied(SOURCE, next(m for m in found if m.line == line_of("acc[i][j] +=")))
    gone = applied(SOURCE, of(found, "sync", "tw::sync()"))
    assert "tw::sync()" not in gone
    assert gone.count("\n") == SOURCE.count("\n")
    assert "tw::cp_wait<(1) + 1>();" in applied(SOURCE, of(found, "stage", "tw::cp_wait"))
    assert "ok ? 4 : 0" not in applied(SOURCE, of(found, "guard", "all 4 bytes valid, not ok ? 4 : 0"))


def test_all_mistakes_in_one_kernel_behind_a_switch(found: list[Mutant]) -> None:
    whole = with_switch(subject(), dict(enumerate(found, 1)))
    assert whole.program.launches[0].arguments == (ARGUMENT,)
    assert choose(whole, 3).arguments == {ARGUMENT: 3}
    body = whole.source.partition('#line 1 "kernel"\n')[2]
    assert body.count("\n") == SOURCE.count("\n")
    for n in range(1, len(found) + 1):
        assert re.search(rf"\b{n}\b", body), n


def test_the_switch_does_what_the_text_alone_does(found: list[Mutant]) -> None:
    checker = Checker(WORKLOAD, first=True, orders=("fifo/lazy", "random:1/lazy"))
    few = [of(found, "sync", "tw::sync"), of(found, "cp_wait", ""), of(found, "reset", ""), of(found, "guard", "m < 38"),
           of(found, "index", "address 0 of tw::store_global"), of(found, "stage", "tw::cp_wait"),
           of(found, "guard", "kt + 2 < nk")]  # fmt: skip
    switched = Switched(subject(), checker, few)
    assert not switched.alone
    for m in few:
        by_switch = checker.check(switched.mutated(m))
        by_text = checker.check(subject((SOURCE, applied(SOURCE, m))))
        assert by_switch.state == by_text.state, m
        if by_text.findings and m.kind != "reset":  # without a statement it is garbage, behind a switch a value
            assert (by_switch.findings[0].kind, by_switch.findings[0].line) == (
                by_text.findings[0].kind,
                by_text.findings[0].line,
            )


def test_the_checks_kill_mistakes_and_spare_what_changes_nothing(found: list[Mutant]) -> None:
    checker = Checker(WORKLOAD, first=True)
    some = [m for n, m in enumerate(found) if n % 4 == 0]
    spared = of(found, "guard", "s < nk")  # there are more tiles than the prologue copies
    verdicts = {v.mutant: v for v in run_mutants(subject(), checker, found=[*some, spared], sanitize=False)}
    states = [v.state for v in verdicts.values()]
    assert states.count("killed") >= 0.85 * len(states), [v for v in verdicts.values() if v.state != "killed"]
    assert verdicts[spared].state == "survived"
    assert all(v.by and v.line_text in SOURCE for v in verdicts.values() if v.state == "killed")


def test_a_race_that_no_order_shows_is_left_to_the_sanitizer() -> None:
    # One block's threads write what others read with no barrier between, but the same values.
    source = """\
TW_KERNEL(64, 1) void demo(const float *x0, const float *x1, float *out, unsigned char *ws) {
    TW_SHARED(smem);
    float *s = (float *)smem;
    tw::store_shared(s, 0.f);
    tw::sync();
    if (threadIdx.x == 0) for (int e = 0; e < 1406; e++) {
        float sum = tw::load_shared<float>(s);
        for (int k = 0; k < 29; k++)
            sum += tw::load_global<float>(x0 + e / 37 * 29 + k) * tw::load_global<float>(x1 + k * 37 + e % 37);
        tw::store_global(out + e, sum);
    }
}
"""
    one = subject((SOURCE, source))
    checker = Checker(WORKLOAD, first=True, orders=("fifo/lazy",))
    sync = [m for m in mutants(source) if m.kind == "sync"]
    (verdict,) = run_mutants(one, checker, found=sync)
    assert (verdict.state, verdict.by) == ("killed", "race")


def test_mutants_that_do_not_compile_stand_alone_and_count_for_nothing() -> None:
    source = SOURCE.replace("const int nk = (29 + 7) / 8;", "constexpr int nk = 4; float fixed[nk]; (void)fixed;")
    changed = [m for m in mutants(source) if m.line == line_of("const int nk")]
    assert changed
    assert not changed[0].edits  # the compiler must know it
    (verdict,) = run_mutants(
        subject((SOURCE, source)), Checker(WORKLOAD, first=True), found=changed[:1], sanitize=False
    )
    assert verdict.state in ("survived", "killed")
    broken = Mutant("index", 3, 1, "", "nonsense", (0, 0, "nonsense "))
    (verdict,) = run_mutants(subject(), Checker(WORKLOAD, first=True), found=[broken], sanitize=False)
    assert verdict.state == "stillborn"


def test_a_wrong_kernel_has_no_mutants() -> None:
    wrong = subject(("m < 38", "m < 37"))
    with pytest.raises(TilewrightError, match="not right to begin with"):
        list(run_mutants(wrong, Checker(WORKLOAD, first=True), found=[]))


def test_tokens_know_templates_declarations_and_dead_functions() -> None:
    tokens = read(
        "template <int V> void used(float (&r)[2][V]) { r[0][1] = a < b ? 1 : 2; }\n"
        "void unused(int n) { n = n + 1; }\n"
        "void main() { tw::pack<float, 4> p, q[2]; float x[3], y[4]; used<4>(x); y[1 + 2] = 0; int a = 1, b = 2; used<2>(a); }\n"
    )
    assert tokens.functions == {"used", "unused", "main"}
    text = [m.change for m in mutants(tokens.source.replace("void main", "TW_KERNEL(1, 1) void main"))]
    assert any("b = 2 + 1" in t for t in text)
    assert any("subscript 1 + 2" in t for t in text)
    assert not any("subscript 2" in t or "subscript 3" in t or "subscript V" in t for t in text)
    assert not any("n = n + 1" in t for t in text)  # in a function that nothing calls
