"""Reading declarations of users' files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core import UsageError
from tilewright.kernels.templates.user_kernel import source
from tilewright.kernels.templates.user_kernel.source import Parameter

FILE = """
#include <math.h>
#define SQUARE(x) ((x) * (x))   // f(int a) { in a comment
/* void hidden(int a) { } */
static const char *text = "void quoted(int a) {";
namespace inner { void f(int a) { if (a) { } } }
struct S { void f(int a) { } };
template <class T> T helper(T a) { return a; }
static inline float twice(float x) { return 2 * x; }
void later(int n);
extern "C" {
void listed(const float *a, float *out) { for (int i = 0; i < 3; i++) { out[i] = twice(a[i]); } }
}
extern "C" __attribute__((noinline)) void __launch_bounds__(BM * BN)
f(const float *__restrict__ a, // the operand
  const double b[], unsigned long long k, tw::bf16* const c) noexcept
{
    listed(0, 0);
}
"""


def test_functions_are_found_where_they_are_defined() -> None:
    found = {f.name: f for f in source.functions(FILE)}
    assert list(found) == ["helper", "twice", "later", "listed", "f"]
    assert [f.name for f in found.values() if not f.defined] == ["later"]
    assert found["listed"].in_c_block
    assert FILE[found["f"].start :].startswith('extern "C" __attribute__')


def test_parameters_of_a_users_source_are_read() -> None:
    found = source.parameters(source.find(FILE, "f", "x.cpp"), "x.cpp")
    assert found == (
        Parameter("a", "float", True, True),
        Parameter("b", "double", True, True),
        Parameter("k", "unsigned long long", False, False),
        Parameter("c", "tw::bf16", True, False),
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ff", "Did you mean f?"), ("g", "It defines"), ("quoted", "It defines"), ("hidden", "It defines"),
        ("later", "It defines"),
    ],
)  # fmt: skip
def test_functions_that_are_not_there(name: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        source.find(FILE, name, "x.cpp")
    assert says in caught.value.hint


def test_templates_and_nested_functions_are_refused() -> None:
    with pytest.raises(UsageError, match="is a template"):
        source.find(FILE, "helper", "x.cpp")
    with pytest.raises(UsageError) as caught:
        source.find("namespace a { void f(int n) { } }", "f", "x.cpp")
    assert "top level" in caught.value.hint
    with pytest.raises(UsageError, match="2 times"):
        source.find("void f(int a) {} void f(float a) {}", "f", "x.cpp")


@pytest.mark.parametrize(
    "text",
    ["float &a", "void (*f)(int)", "float **a", "int", "float *a = 0", "std::vector<float> a", "...", "T<int, 3> *a"],
)
def test_parameters_beyond_the_reader(text: str) -> None:
    function = source.find(f"void f({text}) {{ }}", "f", "x.cpp")
    with pytest.raises(UsageError) as caught:
        source.parameters(function, "x.cpp")
    assert "--param" in caught.value.hint


def test_renaming_leaves_members_comments_and_texts_alone() -> None:
    text = '// f\nstruct S { int f; };\nvoid f(S s);\nvoid f(S s) { s.f = 1; (&s)->f = 2; puts("f"); inner::f(3); ff(); }\n'
    new = source.renamed(text, "f", "tw_1", c_linkage=True)
    assert new == (
        '// f\nstruct S { int f; };\nextern "C" void tw_1(S s);\n'
        'extern "C" void tw_1(S s) { s.f = 1; (&s)->f = 2; puts("f"); inner::f(3); ff(); }\n'
    )


def test_local_includes_are_put_in_once(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "b.h"\nint a;\n')
    (tmp_path / "b.h").write_text("#pragma once\nint b;\n")
    main = tmp_path / "k.cpp"
    main.write_text('#include <math.h>\n  #include "a.h" // own\n#include "b.h"\nint c;\n')
    text = source.read(main)
    assert text.count("int a;") == text.count("int b;") == 1
    assert "#include <math.h>" in text
    assert text.endswith('#line 3 "k.cpp"\n\nint c;\n')
    main.write_text('\n#include "nowhere.h"\n')
    with pytest.raises(UsageError, match=r"k\.cpp:2 includes nowhere\.h"):
        source.read(main)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"a\0b"])
def test_files_that_are_no_source(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "k.cpp"
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        source.read(path)
    assert caught.value.hint


def test_macros_that_the_file_fixes() -> None:
    text = "#ifndef BM\n#define BM 3\n#endif\n#if !defined(BN)\n# define BN 4\n#else\n#endif\n#define TM 5\n#ifdef X\n#define U 1\n#endif\n"
    assert source.fixed_macros(text, ("BM", "BN", "TM", "U")) == [("TM", 8), ("U", 10)]
