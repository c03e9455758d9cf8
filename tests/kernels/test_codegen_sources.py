"""What builders accept: everything that templates print, and nothing that reads files or steers the compiler."""

from __future__ import annotations

import contextlib
import functools
import math
import random
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from golden_sources import FOLDER, SYMBOL
from hypothesis import given
from hypothesis import strategies as st

from harness.gpu_programs import MAPS, ROWS, WINDOWS
from tilewright.backends import get_backend
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import Candidate, Target, Task, UsageError
from tilewright.kernels import te
from tilewright.kernels.codegen.sources import _DEVICE, _HOST, DEEPEST, LONGEST, SourceRefused, check_source
from tilewright.kernels.expression.functions import MAX_DEPTH
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import TEMPLATES, lower
from tilewright.kernels.templates.user_kernel import UserTemplate, own_kernel
from tilewright.testing import programs
from tilewright.testing.contractions import CONTRACTIONS
from tilewright.testing.kernels import task_of

PROGRAMS: dict[str, Callable[[], Program]] = {
    **ROWS, **MAPS, **WINDOWS, **CONTRACTIONS, **{f"{n} (CPU)": f for n, f in programs.PROGRAMS.items()},
}  # fmt: skip
SAMPLE = ("matmul (CPU)", "int8_dot (CPU)", "conv2d (CPU)", "gather (CPU)", "softmax", "transposed_half", "halves")
CPU = "cpu"


@pytest.mark.parametrize("pattern", [_HOST.pattern, _DEVICE.pattern], ids=["host", "device"])
def test_the_pattern_means_the_same_with_every_python(pattern: str) -> None:
    """Before 3.11.5 possessive groups run past their lookaheads (CPython issue 106052), and directives went unseen."""
    assert not re.search(r"[+*?}]\+|\(\?>", re.sub(r"\[[^]]*\]|\\.", "", pattern))


def kind_of(path: Path) -> str:
    return "cuda" if path.suffix == ".cu" else "cpu"


def refused(text: str, kind: str = CPU) -> SourceRefused:
    with pytest.raises(SourceRefused) as e:
        check_source(text, [SYMBOL], kind)
    return e.value


# ---------------------------------------------------------------- what templates print passes: golden sources do, too


def targets() -> Iterator[Target]:
    for name in ("cpu:avx512bf16", "cpu:avx512", "cpu:avx2", "cpu:neon", "cpu:portable"):
        yield get_backend("cpu").parse_target(name, 2, allow_foreign=True)
    yield from map(cuda_target, ("sm_80", "sm_90a"))


def printed(labels: Iterator[str] | tuple[str, ...], samples: int) -> Iterator[tuple[list[str], str]]:
    """symbols and source of every template's default and random schedules."""
    rng = random.Random(5)
    for label in labels:
        program = PROGRAMS[label]()
        for target in targets():
            task = task_of(program, target)
            for template in TEMPLATES.values():
                if template.matches(task):
                    space = template.space(task)
                    for schedule in (template.default(task), *(space.sample(rng) for _ in range(samples))):
                        kernel = lower(Candidate(task, schedule))
                        symbols = list(kernel.program.symbols)
                        yield "cuda" if target.kind == "cuda" else "cpu", symbols, kernel.source


def test_sources_of_every_template_pass() -> None:
    seen = 0
    for kind, symbols, source in printed(SAMPLE, 1):
        check_source(source, symbols, kind)
        seen += 1
    assert seen > 100


@pytest.mark.nightly
def test_sources_of_every_program_pass() -> None:
    for kind, symbols, source in printed(tuple(PROGRAMS), 2):
        check_source(source, symbols, kind)


def test_the_deepest_expressions_that_operators_may_have_pass() -> None:
    x = te.input("x", (8,))
    y = te.compute((8,), lambda i: functools.reduce(lambda value, _: te.exp(value), range(MAX_DEPTH - 3), x[i]))
    program = te.program(y)[0]
    for target in targets():
        task = task_of(program, target)
        template = next(t for t in TEMPLATES.values() if t.matches(task))
        kernel = lower(Candidate(task, template.default(task)))
        assert kernel.source.count("(") > MAX_DEPTH
        check_source(kernel.source, [kernel.symbol], "cuda" if target.kind == "cuda" else "cpu")


def test_constants_that_are_no_numbers_pass() -> None:
    """Printed as calls with an empty string, the only one of a source but for an opaque copy's."""
    for dtype in ("float32", "float64"):
        x = te.input("x", (8,), dtype)
        y = te.compute((8,), lambda i, x=x: te.select(x[i] > 0, math.nan, te.select(x[i] < -1, math.inf, x[i])))
        for target in targets():
            task = task_of(te.program(y)[0], target)
            template = next(t for t in TEMPLATES.values() if t.matches(task))
            kernel = lower(Candidate(task, template.default(task)))
            assert "__builtin_nan" in kernel.source
            check_source(kernel.source, [kernel.symbol], "cuda" if target.kind == "cuda" else "cpu")


# ---------------------------------------------------------------- what else there is does not

WORDS: list[list[str]] = [
    *([mark, word, what] for mark in ("#", "%:", "??=") for word in ("include", "include_next", "embed", "import")
      for what in ("<x>", '"/etc/passwd"')),
    ["#", "define", "A", "1"], ["#", "undef", "TW_INLINE"], ["#", "pragma", "GCC", "poison", "x"],
    ["#", "pragma", "GCC", "pch_preprocess", '"x"'], ["#", "line", "1", '"/etc/passwd"'], ["#", "ident", '"x"'],
    ["#", "if", "__has_include", "(", "<x>", ")"], ["#", "ifdef", "A"], ["#", "error", "x"], ["#", "warning", "x"],
    ["int", "x", ";", "#", "define", "A", "1"], ["#", "if", "1"],
    ["_Pragma", "(", '"GCC optimize(0)"', ")"], ["__pragma", "(", "x", ")"],
    ["asm", "(", '".incbin"', '"x"', ")", ";"], ["__asm", "(", '""', ")", ";"],
    ["__asm__", "volatile", "(", '""', ")", ";"], ["__asm__", "(", '"nop"', ":", '"+r"', "(", "a", ")", ")", ";"],
    ["__asm__", "(", '""', ":", '"+r"', "(", "a", ")", ":", ":", '"memory"', ")", ";"],
    ["int", "f", "(", ")", "__asm__", "(", '"x"', ")", ";"], ["tw", "::", "__asm__", "(", '""', ")", ";"],
    *(["int", "x", "__attribute__", "(", "(", a, ")", ")", ";"] for a in
      ("constructor", "__constructor__", 'section(".init")', 'ifunc("f")', 'alias("f")', 'target("avx")', "used",
       'vector_size(16),section("x")', "vector_size(16),used")),
    ["__declspec", "(", "dllexport", ")"], ["[", "[", "gnu", "::", "constructor", "]", "]"], ["<:", "<:", "x", ":>"],
    ['R"(x)"', ";"], ['R""(x)""', ";"], ['u8R"x(y)x"', ";"], ['""', "_x", ";"], ["'a'", ";"], ["'", ";"], ['"', ";"],
    ["extern", '"C"', "int", "system", "(", "const", "char", "*", ")", ";"], ["extern", "int", "x", ";"],
    ["import", "<x>", ";"], ["export", "module", "x", ";"],
    ["__FILE__", ";"], ["__DATE__", ";"], ["__builtin_system", "(", ")", ";"], ["_Exit", "(", ")", ";"],
    ["__builtin_nan", "(", '"1"', ")", ";"], ["__has_include", ";"], ["__import__", ";"],
    ["\\u0061sm", ";"], ["\\"], ["é"], ["\0"], ["\r"], ["\f"], ["$x", ";"], ["`"], ["@x"],
    ["/*"], ["*/", "/*", "x", "*/"], ["{"], ["}"], ["("], [")"], ["]"], ["}", "{"],
    ["#if defined(__clang__)"], ["#endif"], ["#else"], ["#elif __GNUC__ >= 13"],
]  # fmt: skip
"""What may not occur, as words between which any of ``GAPS`` may stand."""

GAPS = ("", " ", "  ", "\t", "/**/", " /* x */ ", "\\\n", " // x\n")
HARMLESS = {p.name: p.read_text() for p in sorted(p for p in FOLDER.iterdir() if p.suffix in (".cpp", ".cu"))[::2]}


def places(text: str) -> list[int]:
    """Offsets at which a text's lines begin, and its end."""
    return [0, *(n + 1 for n, c in enumerate(text) if c == "\n")]


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[str]:
    """A golden source with something forbidden on lines of its own."""
    name = draw(st.sampled_from(sorted(HARMLESS)))
    text = HARMLESS[name]
    words = draw(st.sampled_from(WORDS))
    made = words[0]
    for left, right in pairwise(words):
        apart = left[-1].isalnum() and (right[0].isalnum() or right[0] in "_\"'")
        made += draw(st.sampled_from([g for g in GAPS if g not in ("", "\\\n")] if apart else GAPS)) + right
    if draw(st.integers(0, 9)) == 0:  # a line that goes on within a word
        at = draw(st.integers(1, max(1, len(made) - 1)))
        made = made[:at] + "\\\n" + made[at:]
    at = draw(st.sampled_from(places(text)))
    lead = draw(st.sampled_from(["", " ", ";", "\t"]))
    return kind_of(Path(name)), f"{text[:at]}{lead}{made}\n{text[at:]}"


@given(spoilt())
def test_forbidden_constructs_are_refused_wherever_they_stand(case: tuple[str]) -> None:
    error = refused(case[1], case[0])
    assert error.line >= 1
    assert error.rule in error.message
    assert error.message.isprintable()


@pytest.mark.parametrize("words", WORDS, ids=repr)
def test_each_forbidden_construct_is_refused(words: list[str]) -> None:
    for apart in (" ", ""):
        if apart or not words[0][0].isalpha():
            assert refused(f"int x;\n{apart.join(words)}\nint y;\n").line >= 1


@given(st.sampled_from(sorted(HARMLESS)), st.data())
def test_odd_texts_pass_or_are_refused(name: str, data: st.DataObject) -> None:
    text = HARMLESS[name]
    start = data.draw(st.integers(0, len(text)))
    end = min(len(text), start + data.draw(st.integers(0, 40)))
    inside = data.draw(st.text(alphabet=st.sampled_from("#\"'/*\\<>:%?()[]{}_a1 \n\x00é"), max_size=8))
    with contextlib.suppress(SourceRefused):
        check_source(text[:start] + inside + text[end:], ["tw_x"], kind_of(Path(name)))


def test_errors_name_the_line_the_rule_and_the_mend() -> None:
    error = refused("int x;\n\n  # include <stdio.h>\n")
    assert (error.line, error.rule, error.kind) == (3, "directive", "source")
    assert (
        error.message
        == "kernel source refused, line 3: '  # include <stdio.h>' is not a directive that templates print (rule: directive)"
    )
    assert "on the client" in error.hint
    assert refused("int y;\nint x __attribute__((used));").rule == "attribute"
    assert (refused("{\n(\n}").line, refused("{\n(\n}").rule) == (3, "brackets")
    assert refused("#if defined(__clang__)\nint x;\n").rule == "brackets"
    assert refused("#if defined(__clang__)\n{\n#else\nint x;\n#endif\n}").line == 3  # each branch closes its own
    assert len(refused("#" + "x" * 5000).message) < 200


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ("(", ")", f"line 2: ( at column {DEEPEST + 1}"), ("{", "}", f"line 2: {{ at column {DEEPEST + 1}"),
        ("a[", "]", f"line 2: [ at column {2 * DEEPEST + 2}"), ("\n (", ")", f"line {DEEPEST + 3}: ( at column 2"),
        ("#if defined(__AVX__)\n", "\n#endif\n", f"line {DEEPEST + 2}: #if at column 1"),
    ],
)  # fmt: skip
def test_nesting_over_the_limit_is_refused_at_its_place(left: str, right: str, where: str) -> None:
    check_source(f"int x;\n{(left * DEEPEST + right * DEEPEST) * 3}", [], CPU)
    for deep in (DEEPEST + 1, 40_000):
        error = refused(f"int x;\n{left * deep}{right * deep}")
        assert error.message == f"kernel source refused, {where} is nested over the limit of {DEEPEST} (rule: nesting)"


def test_what_a_gpu_kernel_has_no_use_for_is_refused_there() -> None:
    for text in ("#if defined(__AVX__)\n#endif\n", "void f(int *p) { __builtin_prefetch(p); }\n"):
        check_source(text, ["tw_x"], "cpu")
        refused(text, "cuda")


def test_size_and_symbols_are_bounded() -> None:
    check_source(" " * LONGEST, ["tw_0a_z"], "cpu")
    assert refused(" " * (LONGEST + 1)).rule == "size"
    for symbol in ("", "main", "tw_", "tw_A", "tw_a b", "tw_a\n", "tw_é", "_tw_a", "tw_" + "a" * 121, "tw_a){}"):
        with pytest.raises(SourceRefused) as e:
            check_source("int x;", ["tw_a", symbol], "cpu")
        assert (e.value.line, e.value.rule) == (0, "symbol")
    with pytest.raises(UsageError, match="'rocm'"):
        check_source("", [], "rocm")  # type: ignore[arg-type]


def test_kernels_of_users_are_built_on_the_client(tmp_path: Path) -> None:
    for include in ("", "#include <math.h>\n"):
        path = tmp_path / "k.cpp"
        path.write_text(
            include + 'extern "C" int mm(const float *a, const float *b, float *out, long m) { return BM; }'
        )
        own = own_kernel(path, entry="mm", reference="matmul", knobs={"BM": [0]})
        task = Task(get_operator("matmul").workload(m=6, n=5, k=4), next(targets()))
        template = UserTemplate(own)
        kernel = template.lower(Candidate(task, template.default(task)))
        error = refused(kernel.source)
        assert "your own among them, on the client" in error.hint
