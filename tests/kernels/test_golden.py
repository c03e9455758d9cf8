"""Committed generated sources: they change only with their template's version, and compile anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from attention_programs import attention
from partition_programs import mlp
from stencil_programs import depthwise

from tilewright.backends import get_backend
from tilewright.core import TilewrightError
from tilewright.kernels.codegen.prelude import prelude
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import TEMPLATES, get_template
from tilewright.testing import programs
from tilewright.testing.kernels import task_of
from tilewright.testing.template import GOLDEN_SYMBOL, check_golden, golden_source

GOLDEN = Path(__file__).parent.parent / "golden"
TARGETS = ("cpu:avx512", "cpu:portable")
CASES: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        programs.matmul,
        programs.matmul_epilogue,
        programs.conv2d,
        programs.softmax,
        programs.argmax,
        programs.running_sums,
        programs.transpose,
        programs.int8_dot,
        depthwise,
        attention,
        mlp,
    )
}


def bf16_matmul(m: int = 9, n: int = 37, k: int = 21) -> Program:
    return Program.loads(get_operator("matmul").workload(m=m, n=n, k=k, dtype="bfloat16").program)


DOTS: dict[str, Callable[[], Program]] = {f.__name__: f for f in (programs.int8_dot, bf16_matmul)}
"""Products that have instructions of their own on ``DOT_TARGET``."""
DOT_TARGET = "cpu:avx512bf16"


ELSEWHERE = {
    "cpu_generic": ("transpose", "int8_dot", "depthwise", "attention", "mlp"),
    "cpu_partition": ("attention",),
}
"""What adds nothing to the golden sources of other programs."""


def cases() -> list[tuple[str, str, str]]:
    backend = get_backend("cpu")
    found = [("cpu_dot", label, DOT_TARGET) for label in DOTS]
    for target in TARGETS:
        parsed = backend.parse_target(target, 2, allow_foreign=True)
        for template in TEMPLATES.values():
            for label, build in CASES.items():
                wanted = label not in ELSEWHERE.get(template.name, ())
                if wanted and template.matches(task_of(build(), parsed, label)):
                    found.append((template.name, label, target))
    return found


def path_of(template: str, label: str, target: str) -> Path:
    return GOLDEN / f"{template}-{label}-{target.split(':')[1]}.cpp"


@pytest.mark.parametrize(("template", "label", "target"), cases())
def test_sources_change_with_the_version_only(template: str, label: str, target: str, update_golden: bool) -> None:
    parsed = get_backend("cpu").parse_target(target, 2, allow_foreign=True)
    source = golden_source(get_template(template), task_of({**CASES, **DOTS}[label](), parsed, label))
    check_golden(path_of(template, label, target), source, update_golden)


def test_no_golden_file_is_left_over() -> None:
    assert {p.name for p in GOLDEN.glob("*.cpp")} == {path_of(*c).name for c in cases()}


def test_a_changed_source_needs_a_new_version(tmp_path: Path) -> None:
    path = tmp_path / "x.cpp"
    with pytest.raises(AssertionError, match="is missing"):
        check_golden(path, "// t version 1, cpu\na\n", update=False)
    check_golden(path, "// t version 1, cpu\na\n", update=True)
    check_golden(path, "// t version 1, cpu\na\n", update=False)
    for update in (False, True):
        with pytest.raises(AssertionError, match="Bump the version"):
            check_golden(path, "// t version 1, cpu\nb\n", update=update)
    with pytest.raises(AssertionError, match="another version"):
        check_golden(path, "// t version 2, cpu\nb\n", update=False)
    check_golden(path, "// t version 2, cpu\nb\n", update=True)
    assert path.read_text() == "// t version 2, cpu\nb\n"


@pytest.mark.parametrize(
    "target",
    [
        "cpu:portable",
        "cpu:neon",
        pytest.param("cpu:avx2", marks=pytest.mark.nightly),
        pytest.param("cpu:avx512", marks=pytest.mark.nightly),
    ],
)
def test_sources_compile_for_every_target(target: str, tmp_path: Path) -> None:
    """Not run here where the machine lacks the instructions; the compiler takes them all."""
    backend = get_backend("cpu")
    parsed = backend.parse_target(target, 2, allow_foreign=True)
    sources = []
    for template in TEMPLATES.values():
        for label, build in CASES.items():
            task = task_of(build(), parsed, label)
            if template.matches(task):
                text = golden_source(template, task)
                sources.append(text.replace(GOLDEN_SYMBOL, f"tw_{template.name}_{label}"))
    try:
        built = backend.build([prelude(parsed), *sources], parsed, tmp_path)
    except TilewrightError as error:
        if "compiler" in error.message and not backend.runs_here(parsed):
            pytest.skip(str(error))
        raise
    assert Path(built.path).stat().st_size > 0
