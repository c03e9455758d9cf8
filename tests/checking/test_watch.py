"""Users' own kernels under the sanitizers before they may win: at which sizes, and what is said where none run."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.backends.cuda import archs
from tilewright.checking import native, watch
from tilewright.checking.places import named
from tilewright.checking.watch import Watch
from tilewright.core import Candidate, FailureKind, Task
from tilewright.kernels import templates
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates.user_kernel import UserTemplate

EXAMPLES = Path(__file__).parents[2] / "examples" / "own_kernel"


def candidate(constraints: str = "m >= BM", **sizes: int) -> Candidate:
    kernel = tilewright.own_kernel(
        EXAMPLES / "dense.cu", entry="dense", reference=f"{EXAMPLES / 'reference.py'}:dense",
        knobs={"BM": [32], "BN": [32], "BK": [8], "TM": [4], "TN": [4]}, grid="ceildiv(n, BN), ceildiv(m, BM)",
        block="BN/TN, BM/TM", constraints=constraints,
    )  # fmt: skip
    template = UserTemplate(kernel)
    templates.register(template)
    task = Task(kernel.operator.workload(**sizes), archs.target("sm_90a"))
    return Candidate(task, template.default(task))


def test_a_kernel_that_would_run_for_long_is_watched_at_smaller_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    large = candidate(m=512, n=512, k=512)
    template = templates.get_template(large.schedule.template)
    assert isinstance(template, UserTemplate)
    small = watch._small(large, template)
    assert small.schedule == large.schedule
    assert 32 <= dict(small.task.workload.params)["m"] < 512  # type: ignore[operator]
    assert small.task.workload.flops < 4e7
    fixed = candidate("m == 512", m=512, n=512, k=512)
    template = templates.get_template(fixed.schedule.template)
    assert isinstance(template, UserTemplate)
    assert watch._small(fixed, template) == fixed  # its knobs are legal nowhere else
    seen = []
    monkeypatch.setattr(Watch, "_look", lambda self, subject, sizes: seen.append((subject, sizes)))
    assert Watch(None).problem(large) is None
    ((subject, sizes),) = seen
    assert (subject.workload, sizes) == (small.task.workload, small.task.workload.label)


def test_a_kernel_that_cannot_be_watched_does_not_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    build = importlib.import_module("tilewright.backends.emulator.build")  # whose name is that of a function too
    monkeypatch.setattr(build, "missing_sanitizer", lambda compiler, wanted: f"there is no {wanted[0]} sanitizer")
    failure = Watch(None).problem(candidate(m=40, n=33, k=9))
    assert failure is not None
    assert failure.kind is FailureKind.RESOURCES
    assert failure.message == "it cannot be checked: there is no address sanitizer"


def test_kernels_of_templates_are_not_watched() -> None:
    task = Task(get_operator("matmul").workload(m=8, n=8, k=8), archs.target("sm_80"))
    template = templates.templates_for(task)[0]
    assert Watch(None).problem(Candidate(task, template.default(task))) is None


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("read at 0 bytes past the end of input 0 (2304 bytes)", "read at element 576 of a, which has 576"),
        ("8 bytes past the end of the output (128 bytes)", "element 34 of out, which has 32"),
        ("write at 5 bytes before input 1 (72 bytes)", "write at element -2 of b, which has 18"),
        ("byte 76 of input 1 (144 bytes)", "b[1][1]"),
        ("byte 12 of the workspace (64 bytes)", "byte 12 of the workspace (64 bytes)"),
    ],
)
def test_places_are_told_by_the_names_and_elements_of_tensors(told: str, said: str) -> None:
    workload = get_operator("matmul").workload(m=32, n=18, k=18)
    assert named(told, workload) == said


def test_names_of_missing_sanitizers_are_those_of_the_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    build = importlib.import_module("tilewright.backends.emulator.build")  # whose name is that of a function too
    monkeypatch.setattr(build, "missing_sanitizer", lambda compiler, wanted: "none here")
    target = tilewright.backends.get_backend("cpu").parse_target("cpu")
    kernel = native.build("int x;", "tw_x", target, ("thread",), tmp_path)
    report = native.run(kernel, [])
    assert (report.ok, report.unchecked) == (False, "none here")


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("((float *)t[0])[2] = 5; return 0;", "out_of_bounds_global", "wrote byte 10 of input 0 (16 bytes)"),
        ("return 3;", "crash", "the kernel returned 3"),
    ],
)
def test_a_cpu_kernel_that_writes_an_input_or_fails_is_told(body: str, kind: str, message: str, tmp_path: Path) -> None:
    target = tilewright.backends.get_backend("cpu").parse_target("cpu")
    text = f'extern "C" int tw_x(void *const *t, const long *, void *, const tw_env *) {{ {body} }}'
    kernel = native.build(f'{prelude(target, emulated=True)}#line 1 "kernel"\n{text}', "tw_x", target, cache=tmp_path)
    report = native.run(kernel, [np.ones(4, np.float32)], np.zeros(4, np.float32))
    assert (report.bugs[0].kind, report.bugs[0].message) == (kind, message)
