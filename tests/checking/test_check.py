"""Checking kernels on the emulator: right ones pass, every planted bug is named with its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from checked_kernel import PROGRAM, SOURCE, WORKLOAD, line_of, subject

from harness.caches import with_runtime
from tilewright.backends.cuda.archs import target
from tilewright.checking import cost as check_cost
from tilewright.checking.check import (
    ORDERS,
    CannotCheck,
    Checked,
    Checker,
    compile_findings,
    parse_orders,
    parse_sanitizers,
    subject_of,
)
from tilewright.checking.files import emit, load
from tilewright.checking.poison import poisoned
from tilewright.checking.schedules import parse_schedules, random_schedules
from tilewright.core import Candidate, Launch, Task, UsageError
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import get_template, templates_for

SIMT = get_template("cuda_simt").version


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(WORKLOAD)


def test_a_right_kernel_passes_every_check() -> None:
    orders = ("random:1/lazy",)
    result = Checker(WORKLOAD, orders=orders, sanitize=("thread", "address", "undefined"), profile=True).check(
        subject()
    )
    assert result.state == "right", result.to_json()
    # One order on two input sets, and on one under each of two sanitized builds.
    assert result.runs == 2 + 1 + 1
    assert result.profile["shared_load"]["requests"] > 0
    assert json.dumps(result.to_json())


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (("tw::cp_wait<1>();", "tw::cp_wait<2>();"), {"uninitialized", "wrong_result", "exit_with_pending_copies"}),
        (("m < 38 && n < 37", "m < 38"), {"wrong_result", "out_of_bounds_global"}),
        (("out + m * 37 + n", "out + m * 37 + n + 1"), {"out_of_bounds_global", "uninitialized"}),
        (("as + k * 32 + row + i", "as + k * 320 + row + i"), {"out_of_bounds_shared", "wrong_result"}),
        (("in ? 4 : 0", "4"), {"out_of_bounds_global", "wrong_result"}),
        (("tw::sync();", "if (tid < 32) tw::sync();"), {"divergence", "deadlock"}),
        (("x0 + (bm + r)", "(const float *)((const char *)x0 + 1) + (bm + r)"), {"misaligned", "out_of_bounds_global"}),
        (("k < 8; k++", "k < 7; k++"), {"wrong_result"}),
        (("acc[i][j] = 0.f;", ";"), {"wrong_result"}),
        (("kt < nk; kt++", "kt < nk; kt += 0"), {"timeout"}),
    ],
)
def test_planted_bugs_are_found(checker: Checker, change: tuple[str, str], kinds: set[str]) -> None:
    hasty = checker.watching(())
    hasty.plain, hasty.first, hasty.timeout = True, True, 1.0 if kinds == {"timeout"} else 60.0
    result = hasty.check(subject(change))
    assert result.state == "bug"
    assert result.findings[0].kind in kinds, result.findings


def test_a_race_is_found_with_line_block_and_thread(checker: Checker) -> None:
    watching = checker.watching(("thread",))
    watching.orders = ORDERS[:1]
    result = watching.check(subject(("tw::sync();", ";")))
    races = [f for f in result.findings if f.kind == "race"]
    assert races
    assert races[0].line in {line_of("cp_async<4>(tw::shared_address(a"), line_of("cp_async<4>(tw::shared_address(b"),
                             line_of("acc[i][j] +="), line_of("cp_wait")}  # fmt: skip
    assert races[0].block.startswith("(")
    assert races[0].thread.startswith("(")
    assert races[0].text in SOURCE
    assert races[0].sanitizer == "thread"


def test_a_wrong_result_has_its_line_looked_for(checker: Checker) -> None:
    hasty = checker.watching(())
    hasty.plain, hasty.orders = True, ("lifo/eager",)
    result = hasty.check(subject(("tw::sync();", ";")))
    assert result.findings[0].line is None
    assert any(f.kind == "race" and f.line for f in result.findings), result.findings
    assert hasty.check(subject(("k < 8; k++", "k < 7; k++"))).findings[0].kind == "wrong_result"  # there is none


def test_an_unset_register_shows_although_it_might_be_zero_by_chance(checker: Checker) -> None:
    text = poisoned(SOURCE)
    assert "float acc[2][4]; tw_unset(&acc, sizeof(acc));" in text
    assert text.count("\n") == SOURCE.count("\n")
    assert checker.check(subject(("acc[i][j] = 0.f;", "if (i) acc[i][j] = 0.f;"))).state == "bug"


def test_declarations_are_told_from_other_statements() -> None:
    text = "struct S { int a; };\nint f() { S s; tw::pack<float, 4> p, q[2]; int n = 1; return n; }"
    assert poisoned(text) == (
        "struct S { int a; };\nint f() { S s; tw_unset(&s, sizeof(s)); tw::pack<float, 4> p, q[2];"
        " tw_unset(&p, sizeof(p)); tw_unset(&q, sizeof(q)); int n = 1; return n; }"
    )
    assert poisoned("int f() { int a; (") == "int f() { int a; ("  # no structure: left as it is


def test_compile_errors_name_the_kernels_line(checker: Checker) -> None:
    result = checker.check(subject(("const int nk =", "const int nk = undeclared +")))
    (finding, *_) = result.findings
    assert finding.kind == "compile"
    assert finding.line == line_of("const int nk")
    assert "undeclared" in finding.message
    assert "undeclared" in finding.text
    missing = checker.check(
        replace(subject(), program=replace(PROGRAM, launches=(Launch("other", (), (1, 1, 1), (32, 1, 1)),)))
    )
    assert missing.findings[0].kind == "compile"
    assert "other" in missing.findings[0].message
    assert compile_findings(subject(), "ld: cannot find -lm")[0].line is None


def test_a_launch_that_the_device_would_refuse(checker: Checker) -> None:
    for shape in (
        Launch("demo", (), (6, 70000, 1), (128, 1, 1), 6144),
        Launch("demo", (), (6, 1, 1), (128, 1, 1), 200000),
    ):
        result = checker.check(subject(program=replace(PROGRAM, launches=(shape,))))
        assert [f.kind for f in result.findings] == ["launch"]
        assert "cuda:sm_80" in result.findings[0].message or "65535" in result.findings[0].message
    assert result.runs == 0


def test_without_a_compiler_nothing_is_said_to_be_right(checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nonexistent/c++")
    with pytest.raises(CannotCheck) as e:
        checker.check(subject())
    assert e.value.exit_code == 3


def test_a_sanitizer_that_does_not_run_is_not_clean(
    checker: Checker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A compiler as it is where the sanitizer's library is not installed.
    fake = tmp_path / "c++"
    fake.write_text('#!/bin/sh\ncase "$*" in *-fsanitize*) echo "no libtsan" >&2; exit 1;; esac\nexec g++ "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    watching = checker.watching(("thread",))
    watching.cache = with_runtime(tmp_path / "cache", shared_library=False).root
    watching.plain, watching.first = True, True
    result = watching.check(subject())
    assert result.state == "unchecked", result.to_json()
    assert "thread" in " ".join(result.unchecked)
    # A bug that the plain build shows is a bug nevertheless.
    assert watching.check(subject(("m < 38 && n < 37", "m < 38"))).state == "bug"


def test_several_kernels_at_a_time(checker: Checker) -> None:
    subjects = [subject(), subject(("kt < nk", "kt < nk - 1")), subject(("tw::sync();", "tw::sync(); "))]
    results: dict[int, Checked] = dict(checker.check_all(subjects, workers=2))
    assert [results[n].state for n in range(3)] == ["right", "bug", "right"]


def test_orders_and_sanitizers_are_parsed() -> None:
    assert parse_orders(ORDERS) == ORDERS
    assert parse_orders(["random:12/eager"]) == ("random:12/eager",)
    for wrong in ("fifo", "lifo/never", "random/lazy", ""):
        with pytest.raises(UsageError):
            parse_orders([wrong])
    assert parse_sanitizers(["thread", "address", "thread"]) == ("address", "thread")
    with pytest.raises(UsageError, match="memory"):
        parse_sanitizers(["memory"])


# --------------------------------------------------------------------------- schedules


@pytest.fixture(scope="module")
def task() -> Task:
    return Task(get_operator("matmul").workload(m=33, n=65, k=17), target("sm_80"))


def test_schedules_by_every_spelling(task: Task, tmp_path: Path) -> None:
    (default,) = parse_schedules(task, "default")
    knob = next(k for k in get_template(default.template).space(task).knobs if k.name == "unroll")
    other = next(s for s in random_schedules(task, 20, seed=3) if s.template == default.template)
    assert parse_schedules(task, json.dumps(other.to_json())) == [other]
    assert parse_schedules(task, json.dumps(dict(other.values))) == [other]
    assert parse_schedules(task, ",".join(f"{k}={v}" for k, v in other.values.items())) == [other]
    (tmp_path / "s.json").write_text(json.dumps(other.to_json()))
    assert parse_schedules(task, f"@{tmp_path / 's.json'}") == [other]
    assert parse_schedules(task, f"unroll={default.values['unroll']}") == [default]
    assert knob.values
    many = parse_schedules(task, "random:7", seed=5)
    assert len({s.key for s in many}) == 7
    assert many == parse_schedules(task, "random:7", seed=5)
    assert many != parse_schedules(task, "random:7", seed=6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("random:", "not name a number"), ("random:0", "not name a number"), ("unroll", "not a schedule"), ("unroll=banana", "banana"),
        ("nothing=1", "no knob 'nothing'"), ("{", "not JSON"), ("{}", "no schedule"), ("@/nowhere", "cannot read"),
        ('{"structure": []}', "missing"),
        ('{"template": "cuda_simt", "version": 1, "structure": [], "launch": []}', "not in the space"),
        (f'{{"template": "cuda_simt", "version": {SIMT}, "structure": [], "launch": []}}', "has no value"),
    ],
)  # fmt: skip
def test_schedules_that_make_no_sense(task: Task, text: str, said: str) -> None:
    with pytest.raises(UsageError) as e:
        parse_schedules(task, text)
    assert said in e.value.message


def test_templates_that_cannot(task: Task) -> None:
    with pytest.raises(UsageError, match="unknown template 'nonsense'"):
        parse_schedules(task, "default", "nonsense")
    with pytest.raises(UsageError, match="no code for cuda"):
        parse_schedules(task, "default", "cpu_generic")


def test_costs_grow_and_sizes_shrink() -> None:
    operator = get_operator("matmul")
    large = operator.workload(m=4096, n=4096, k=4096)
    assert check_cost.estimate(large, [()], 3, 2) > check_cost.LIMIT
    assert check_cost.estimate(large, [(), ("thread",)], 3, 2) > 3 * check_cost.estimate(large, [()], 3, 2)
    small = check_cost.smaller(operator, dict(large.params), 1e7)
    assert small is not None
    assert 1e5 < small.flops <= 1e7
    assert check_cost.sizes_text(small).startswith("m=")
    conv = get_operator("conv2d").workload(n=8, ci=64, h=56, w=56, co=64, kh=3, kw=3, padding=1)
    less = check_cost.smaller(get_operator("conv2d"), dict(conv.params), 1e7)
    assert less is not None
    assert dict(less.params)["padding"] == 1
    assert check_cost.smaller(operator, {"m": 8, "n": 8, "k": 8}, 1) is None
    norm = get_operator("batch_norm")
    fewer = check_cost.smaller(norm, {"shape": "16,64,224,6"}, 1e5)
    assert fewer is not None
    assert check_cost.sizes_text(fewer).startswith("shape=")
    assert 1e4 < fewer.flops <= 1e5
    assert fewer.output.shape[3] == 6


# --------------------------------------------------------------------------- files


def test_a_kernel_survives_the_files(tmp_path: Path, task: Task) -> None:
    for template in templates_for(task):
        wanted = subject_of(Candidate(task, template.default(task)))
        emit(wanted, tmp_path)
        got = load(tmp_path)
        assert got.program == wanted.program
        assert got.workload == wanted.workload
        assert got.target == wanted.target
        assert got.launch == wanted.launch
        assert got.schedule == wanted.schedule
        assert wanted.source in got.source
        # A line of the report is a line of the file.
        number = got.source.split("\n").index(wanted.source.split("\n")[3]) + 1
        assert got.line(number) == (tmp_path / "kernel.cu").read_text().split("\n")[number - 1].strip()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("format",), 7, "format is 7"),
        (("program",), None, "program"),
        (("program", "launches"), [], "no kernel is launched"),
        (("program", "launches", 0, 2, "grid"), [1, 2], "three sizes"),
        (("program", "launches", 0, 2, "grid"), [0, 1, 1], "grid[0]"),
        (("program", "launches", 0, 2, "grid"), ["many", 1, 1], "grid[0]"),
        (("program", "launches", 0, 2, "block"), [2048, 1, 1], "2048 threads"),
        (("program", "launches", 0, 2, "block"), ["x", 1, 1], "block[0]"),
        (("program", "launches", 0, 2, "shared"), -4, "shared"),
        (("program", "launches", 0, 0), "no name", "not a kernel's name"),
        (("program", "launches", 0, 1), ["absent"], "'absent'"),
        (("program", "workspace"), "x", "workspace"),
        (("program", "align"), 0, "align"),
        (("launch",), {"GROUP": "2"}, "GROUP"),
        (("launch",), [], "launch"),
        (("target",), "cuda:sm_80", "whole target"),
        (("target", "kind"), "cpu", "no emulator"),
        (("target", "colour"), 1, "colour"),
        (("workload", "program"), "{", "workload"),
        (("workload", "inputs", 0, 1), [1, 1], "shapes differ"),
        (("schedule",), {"template": "x"}, "schedule"),
    ],
)  # fmt: skip
def test_a_bad_field_is_named(tmp_path: Path, path: tuple[str | int, ...], value: object, said: str) -> None:
    emit(subject(), tmp_path)
    file = tmp_path / "launch.json"
    data = json.loads(file.read_text())
    at = data
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError) as e:
        load(tmp_path)
    assert said in e.value.message
    assert "launch.json" in e.value.message


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"kernel\.cu"):
        load(tmp_path)
    emit(subject(), tmp_path)
    for name, text, said in (
        ("launch.json", "{", "not JSON"), ("launch.json", "[]", "a JSON object"), ("kernel.cu", " \n", "is empty"),
    ):  # fmt: skip
        emit(subject(), tmp_path)
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=said):
            load(tmp_path)
    emit(subject(), tmp_path)
    data = json.loads((tmp_path / "launch.json").read_text())
    del data["workload"]
    (tmp_path / "launch.json").write_text(json.dumps(data))
    with pytest.raises(UsageError, match="'workload' is missing"):
        load(tmp_path)
    (tmp_path / "kernel.cu").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        load(tmp_path)
