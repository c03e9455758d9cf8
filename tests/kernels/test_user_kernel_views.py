"""What a user's file is for the values of its knobs, and numbers that must fit the types of parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright.backends import get_backend
from tilewright.core import Candidate, Target, Task, UsageError
from tilewright.kernels.templates.user_kernel import UserTemplate
from tilewright.kernels.templates.user_kernel.conditions import view
from tilewright.kernels.templates.user_kernel.kernel import UserKernel


def kept(text: str, **knobs: Any) -> str:
    """The words that are left, with spaces between them."""
    return " ".join(view(text, knobs).split())


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("B == 4", True),
        ("B > 4 || B % 3 == 1", True),
        ("!B == 0 && (B & 6) == 4", True),
        ("B / 3 == 1 && -7 / 2 == -3 && -7 % 2 == -1", True),
        ("B ? 0 : 1", False),
        ("defined(B) && !defined OTHER", True),
        ("defined OTHER", False),
        ("B << 2 == 0x10 && 010 == 8 && 1'000u == 1000", True),
        ("WIDTH == 8", True),
        ("NOTHING", False),
        ("1 + 2 * 3 - 4 == 3 && ~0 == -1", True),
        ("TYPE == B", True),
    ],
)
def test_a_condition_over_knobs_is_decided_as_c_does(condition: str, holds: bool) -> None:
    text = f"#define WIDTH (2 * B)\n#if {condition} // why\nyes\n#else\nno\n#endif\n"
    assert kept(text, B=4, TYPE="4") == f"#define WIDTH (2 * B) {'yes' if holds else 'no'}"


def test_branches_may_be_nested_and_lines_keep_their_numbers() -> None:
    text = "#ifdef B\n#if B == 1\none\n#elif B == 2\ntwo\n#  ifndef C\nno c\n#  endif\n#else\nmany\n#endif\n#else\nnone\n#endif\nend"
    assert kept(text, B=1) == "one end"
    assert kept(text, B=2) == "two no c end"
    assert kept(text, B=2, C=0) == "two end"
    assert kept(text, B=3) == "many end"
    assert kept(text) == "none end"
    assert view(text, {"B": 3}).split("\n").index("many") == text.split("\n").index("many")


def test_what_only_the_compiler_knows_stays() -> None:
    text = "#if B == 1\none\n#elif __CUDA_ARCH__ >= 900\nnew\n#else\nold\n#endif"
    assert kept(text, B=1) == "one"
    assert kept(text, B=2) == "#if __CUDA_ARCH__ >= 900 new #else old #endif"
    for condition in ("__has_include(<x>)", "F(1)", "B / 0", "1 +", "", "B == 'a'"):
        asked = f"#if {condition}\na\n#else\nb\n#endif"
        assert view(asked, {"B": 1}) == asked
    maybe = "#ifdef __clang__\n#define N 1\n#endif\n#if N\na\n#endif"
    assert view(maybe, {}) == maybe


def test_comments_and_literals_are_no_directives() -> None:
    text = '/*\n#if 0\n*/\nchar *s = "\\\n#if 0\\\n";\n// #if 0 \nint x;'
    assert view(text, {}) == text


COPY = "from tilewright import operator, te\n@operator\ndef copy(n: int, scale: float = 1.0, far: int = 1):\n    x = te.input('x', (n,))\n    return te.compute((n,), lambda i: x[i] * scale * far)\n"


def own(folder: Path, text: str, **given: Any) -> UserKernel:
    (folder / "ref.py").write_text(COPY)
    path = folder / ("k.cu" if "__global__" in text else "k.cpp")
    path.write_text(text)
    launch = {"grid": "1", "block": "32"} if "__global__" in text else {}
    given = {"knobs": {"B": [1, 2, 4]}, **launch, **given}
    return tilewright.own_kernel(path, entry="f", reference=f"{folder / 'ref.py'}:copy", **given)


def task_of(kernel: UserKernel, **params: Any) -> Task:
    backend = get_backend("cpu")
    target: Target = backend.parse_target("cpu:avx2", 1, allow_foreign=True)
    if kernel.kind == "cuda":
        target = get_backend("emulator").parse_target("cuda:sm_90a")
    return Task(kernel.operator.workload(**{"n": 1000, **params}), target)


TWO = """
#if B == 1
__global__ void f(const float *x, float *out, int n) { first(); }
#else
__global__ void f(float *out, long n, const float *x) {
#if B > 2
    third();
#else
    second();
#endif
}
#endif
"""


def test_a_kernel_may_be_defined_in_every_branch_of_a_condition_on_knobs(tmp_path: Path) -> None:
    kernel = own(tmp_path, TWO)
    template, task = UserTemplate(kernel), task_of(kernel)
    seen = []
    for schedule in template.space(task):
        lowered = template.lower(Candidate(task, schedule))
        seen.append(
            ([k for k, _ in lowered.program.launches[0].parameters], re.findall(r"\w+(?=\(\);)", lowered.source))
        )
    turned = ["tensor", "int64", "tensor"]
    assert seen == [
        (["tensor", "tensor", "int32"], ["first", "end_kernel"]),
        (turned, ["second", "end_kernel"]),
        (turned, ["third", "end_kernel"]),
    ]


def test_a_kernel_that_is_missing_for_some_values_is_told_with_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"k\.cu with B=4 defines no function 'f'"):
        own(tmp_path, TWO.replace("#else\n__global__", "#elif B == 2\n__global__", 1))
    with pytest.raises(UsageError, match=r"k\.cu with B=1 defines f 2 times"):
        own(
            tmp_path,
            TWO.replace("#if B == 1", "#if B < 9").replace("#else\n__global__", "#endif\n#if B == 1\n__global__", 1),
        )
    twice = (
        "#ifdef __CUDA_ARCH__\n__global__ void f(float *x) {}\n#else\n__global__ void f(float *x) {}\n#endif\n(void)B;"
    )
    with pytest.raises(UsageError, match="defines f 2 times"):
        own(tmp_path, twice)


# --------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("declared", "param", "says"),
    [
        ("int p", "n * 3000000", "n * 3000000 = 3000000000, and int holds -2147483648 to 2147483647"),
        ("int p", "int32: n * 3000000", "= 3000000000, and int holds"),
        ("int p", "-3000000000", "-3000000000, and int holds"),
        ("unsigned p", "n * 5000000", "= 5000000000, and unsigned holds 0 to 4294967295"),
        ("unsigned p", "-n", "-n = -1000, and unsigned holds 0 to 4294967295"),
        ("size_t p", "n - 2000", "= -1000, and size_t holds 0 to 18446744073709551615"),
        ("long p", "2 ** 63", "9223372036854775808, and long holds"),
        ("unsigned long long p", "2 ** 64", "18446744073709551616, and unsigned long long holds"),
        ("short p", "n * 100", "100000, and short holds -32768 to 32767"),
        ("bool p", "n", "n = 1000, and bool holds 0 to 1"),
        ("unsigned char p", "256", "256, and unsigned char holds 0 to 255"),
        ("float p", "1e39", "1e+39, and float32 holds no more than 3.40282e+38"),
        ("float p", "float32: -1e300", "-1e+300, and float32 holds"),
        ("double p", "1e400", "'1e400' is beyond every number of type double"),
        ("int p", "n / 3", "n / 3 is 1000/3, which is not a whole number"),
        ("int p", "int64: n", "p of f is int, and --param gives 'int64: n'"),
        ("int p", "float32: 0.5", "p of f is int, and --param gives 'float32: 0.5'"),
    ],
)  # fmt: skip
def test_a_number_that_does_not_fit_its_parameter_is_an_error(
    tmp_path: Path, declared: str, param: str, says: str
) -> None:
    for head in ("void", "__global__ void"):
        text = f"{head} f(const float *x, float *out, {declared}) {{ (void)B; }}"
        kernel = own(tmp_path, text, parameters=f"x, out, {param}")
        with pytest.raises(UsageError) as caught:
            UserTemplate(kernel).bind(task_of(kernel))
        narrow = head != "void" and "has the type" in caught.value.message
        assert says in caught.value.message or narrow, caught.value.message
        assert caught.value.hint


def test_sizes_and_attributes_by_name_must_fit_too(tmp_path: Path) -> None:
    kernel = own(tmp_path, "void f(const float *x, float *out, int far) { (void)B; }")
    with pytest.raises(UsageError, match="far gets far = 3000000000, and int holds"):
        UserTemplate(kernel).bind(task_of(kernel, far=3_000_000_000))
    kernel = own(tmp_path, "void f(const float *x, float *out, float scale) { (void)B; }")
    with pytest.raises(UsageError, match=r"scale gets 1e\+300, and float holds"):
        UserTemplate(kernel).bind(task_of(kernel, scale=1e300))


def test_values_of_knobs_for_which_a_number_does_not_fit_are_not_tried(tmp_path: Path) -> None:
    kernel = own(tmp_path, "void f(const float *x, float *out, int p) { (void)B; }", parameters="x, out, n*B*1000000")
    assert [s.values["B"] for s in UserTemplate(kernel).space(task_of(kernel))] == [1, 2]
    none = own(tmp_path, "void f(const float *x, float *out, int p) { (void)B; }", parameters="x, out, n*B*9000000")
    space = UserTemplate(none).space(task_of(none))
    assert space.some == 0
    assert "numbers fit: int p = n * B * 9000000" in space.constraints[-1].reason


def test_numbers_at_the_ends_of_types_are_passed_by_their_bits(tmp_path: Path) -> None:
    text = " f(const float *x, float *out, unsigned a, unsigned long b, long c, int d) { (void)B; }"
    given = "x, out, 2**32 - 1, 2**64 - 1, -2**63, -2**31"
    kernel = own(tmp_path, f"__global__ void{text}", parameters=given)
    template, task = UserTemplate(kernel), task_of(kernel)
    (launch,) = template.lower(Candidate(task, template.default(task))).program.launches
    assert [v for _, v in launch.parameters[2:]] == [-1, -1, -(2**63), -(2**31)]
    kernel = own(tmp_path, f"void{text}", parameters=given)
    template, task = UserTemplate(kernel), task_of(kernel)
    source = template.lower(Candidate(task, template.default(task))).source
    assert "4294967295L, 18446744073709551615UL, (-9223372036854775807L - 1), -2147483648L" in source


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, float("inf"), float("nan")])
def test_knobs_are_numbers_that_c_has(tmp_path: Path, value: Any) -> None:
    with pytest.raises(UsageError, match="knob B cannot be"):
        own(tmp_path, "void f(const float *x, float *out) { (void)B; }", knobs={"B": [value]})


def test_grids_and_blocks_beyond_the_devices_are_not_tried(tmp_path: Path) -> None:
    text = "__global__ void f(const float *x, float *out) { (void)B; }"
    for given in ({"grid": "B * 2 ** 30 - 1 + B"}, {"grid": "1, 40000 * B"}, {"block": "1, 1, 40 * B"}):
        kernel = own(tmp_path, text, **given)
        assert [s.values["B"] for s in UserTemplate(kernel).space(task_of(kernel))] == [1]
