"""What Python reads of C headers, beside what a compiler makes of them."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

import tilewright
from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.loader import STRUCTURES
from tilewright.backends.cpu.structures import SUPPORT, Structure, prototypes, structures

PACKAGE = Path(tilewright.__file__).parent
HEADERS = {
    SUPPORT / "tw.h": STRUCTURES,
    SUPPORT / "pycall.h": structures(SUPPORT / "pycall.h", STRUCTURES),
    PACKAGE / "torch" / "plan.h": structures(PACKAGE / "torch" / "plan.h", STRUCTURES),
}


def layout(made: dict[str, Structure]) -> list[str]:
    """Bytes of each structure, and where each of its members begins."""
    lines = []
    for name, s in made.items():
        lines.append(f"{name} {ctypes.sizeof(s)}")
        lines += [f"{name}.{member} {getattr(s, member).offset}" for member, *_ in s._fields_]
    return lines


@pytest.mark.parametrize("header", HEADERS, ids=lambda p: p.name)
def test_layouts_are_those_that_the_compiler_gives(header: Path, tmp_path: Path) -> None:
    asked = [line.split()[0] for line in layout(HEADERS[header])]
    sizes = (f"sizeof({a})" if "." not in a else f"offsetof({a.replace('.', ', ')})" for a in asked)
    prints = "".join(f'std::printf("{a} %zu\\n", (size_t){size});' for a, size in zip(asked, sizes, strict=True))
    source = f'#include <cstddef>\n#include <cstdio>\n#include "{header}"\nint main() {{ {prints} }}\n'
    program = str(tmp_path / "layout")
    command = [*find_compiler().command, "-std=c++20", "-w", f"-I{SUPPORT}", "-x", "c++", "-", "-o", program]
    subprocess.run(command, input=source, text=True, check=True)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines() == layout(
        HEADERS[header]
    )


def test_signatures_have_the_types_of_the_header() -> None:
    found = prototypes(SUPPORT / "tw.h", STRUCTURES)
    assert found["tw_support_abi"] == (ctypes.c_int, [])
    assert found["tw_free"] == (None, [ctypes.c_void_p, ctypes.c_size_t])
    assert found["tw_time"] == (ctypes.c_double, [ctypes.c_void_p, ctypes.c_long, ctypes.c_int])
    assert len(found["tw_time_rounds"][1]) == 8


def test_members_of_every_form(tmp_path: Path) -> None:
    header = tmp_path / "forms.h"
    header.write_text(
        "struct one { int a, *b; /* int c; */ unsigned d[3]; // int e;\n const char *f; };\n"
        "struct two { struct one whole; const struct one *at; int (*call)(struct one, int); };\n"
    )
    made = structures(header)
    assert [(n, t) for n, t, *_ in made["one"]._fields_] == [
        ("a", ctypes.c_int), ("b", ctypes.c_void_p), ("d", ctypes.c_uint * 3), ("f", ctypes.c_char_p),
    ]  # fmt: skip
    assert [(n, t) for n, t, *_ in made["two"]._fields_] == [
        ("whole", made["one"]), ("at", ctypes.c_void_p), ("call", ctypes.c_void_p),
    ]  # fmt: skip
