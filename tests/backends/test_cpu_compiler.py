"""The compiler: finding it, what it says, what it leaves in a library, and when it misbehaves."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from elf import LIBRARIES, Elf
from handwritten import MATMUL, SAXPY

from harness.waiting import until
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.build import build_library, library_key
from tilewright.backends.cpu.compiler import Compiler, compile_library, find_compiler
from tilewright.backends.cpu.loader import load_path
from tilewright.backends.cpu.targets import available, detect, parse_target
from tilewright.backends.toolchain import CompileError, CompileTimeout, first_error
from tilewright.core import Target, TilewrightError

Script = Callable[[str, str], Path]

# ---------------------------------------------------------------- finding it


def test_no_compiler_names_the_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TilewrightError, match="no C\\+\\+ compiler") as e:
        find_compiler()
    for package in ("apt install g++", "dnf install gcc-c++", "pacman -S gcc", "xcode-select --install"):
        assert package in e.value.hint


def test_cxx_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(TilewrightError, match="CXX names 'no-such-compiler'"):
        find_compiler()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 3", "answered --version with status 3"),
        ("echo licence expired >&2; exit 1", "licence expired"),
        ("echo Frobnicator 3.0", "neither GCC nor Clang"),
    ],
)
def test_cxx_that_does_not_work(script: Script, monkeypatch: pytest.MonkeyPatch, body: str, message: str) -> None:
    monkeypatch.setenv("CXX", str(script("cxx", body)))
    with pytest.raises(TilewrightError, match=message):
        find_compiler()


def test_cxx_that_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cxx").write_bytes(b"\x00\x01 not a program")
    (tmp_path / "cxx").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "cxx"))
    with pytest.raises(TilewrightError, match="does not run"):
        find_compiler()


def test_identity_does_not_depend_on_the_path(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "my-compiler++"
    link.symlink_to(os.path.realpath(compiler.path))
    monkeypatch.setenv("CXX", str(link))
    same = find_compiler()
    assert same.path == str(link)
    assert (same.family, same.version, same.key) == (compiler.family, compiler.version, compiler.key)


def test_arguments_of_cxx_count(compiler: Compiler, cache: ArtifactCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", f"{compiler.path} -DSEVEN=7")
    other = find_compiler()
    assert other.arguments == ("-DSEVEN=7",)
    assert library_key("", detect(), other) != library_key("", detect(), compiler)
    path, _, _ = build_library([SAXPY + "int seven() { return SEVEN; }"], detect(), other, cache)
    assert Path(path).exists()


# ---------------------------------------------------------------- what it says


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("<stdin>: In function 'f':\n<stdin>:3:5: error: 'y' was not declared\n  3 | y\n", "<stdin>:3:5: error: 'y' was not declared"),
        ("<stdin>:1:10: fatal error: x.h: No such file\ncompilation terminated.\n", "<stdin>:1:10: fatal error: x.h: No such file"),
        ("/usr/bin/ld: /tmp/tilewright-abc/k.o: in function `f':\n<stdin>:(.text+0x1): undefined reference to `g'\ncollect2: error: ld returned 1 exit status\n", "<stdin>:(.text+0x1): undefined reference to `g'"),
        ("warning: odd\nsomething else\n", "warning: odd"),
        ("", "the compiler failed with status 1 and said nothing"),
        ("\x1b[31m<stdin>:1:1: error: \x07red\x1b[0m\n", "[31m<stdin>:1:1: error: red [0m"),
    ],
)  # fmt: skip
def test_the_compilers_first_error_is_told(log: str, line: str) -> None:
    assert first_error(log, 1) == line


def test_killed_compiler_is_named() -> None:
    assert first_error("", -11) == "the compiler was killed by SIGSEGV (a source nested too deeply?)"
    assert first_error("", -15) == "the compiler was killed by SIGTERM"
    assert "SIGKILL (out of memory?)" in first_error("", -9)
    assert len(first_error("x: error: " + "y" * 5000, 1)) <= 300


def test_diagnostics_are_one_line(cache: ArtifactCache, compiler: Compiler) -> None:
    for source, said in (
        (SAXPY + "int f() { return y; }", "y"),
        ('#include "no/such/header.h"', "no/such/header.h"),
        (SAXPY + 'extern "C" int elsewhere(); ENTRY(tw_f) { return elsewhere(); }', "elsewhere"),
        (SAXPY + "template <long n> struct t { static_assert(n < 3, \"too large\"); }; t<3> x;", "too large"),
    ):  # fmt: skip
        with pytest.raises(CompileError) as e:
            compile_library(source, detect(), compiler, cache)
        assert said in e.value.message
        assert "\n" not in e.value.message
        assert e.value.message in " ".join(e.value.log.split()) or "undefined" in e.value.message


# ---------------------------------------------------------------- when it misbehaves

FAKE = """
case "$*" in
  *--version*) echo "g++ (fake) 1.0"; exit 0;;
  *-dumpmachine*) echo fake-linux-gnu; exit 0;;
esac
"""


def _fake(script: Script, monkeypatch: pytest.MonkeyPatch, body: str) -> Compiler:
    monkeypatch.setenv("CXX", str(script("fake-g++", FAKE + body)))
    return find_compiler()


def test_deadline_kills_the_compilers_children_too(
    script: Script, monkeypatch: pytest.MonkeyPatch, cache: ArtifactCache, tmp_path: Path
) -> None:
    note = tmp_path / "child"
    slow = _fake(script, monkeypatch, f"sleep 300 & echo $! > {note}.part; mv {note}.part {note}; wait")
    for deadline in (0.5, 4, 30):  # on a busy machine the child may not be there in half a second
        with pytest.raises(CompileTimeout, match=rf"took more than {deadline} s"):
            compile_library(SAXPY, detect(), slow, cache, deadline=deadline)
        if note.exists():
            break
    child = int(note.read_text())
    until(lambda: not _alive(child))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("exit 4", "failed with status 4 and said nothing"),
        ("echo 'cc1plus: internal compiler error: oops' >&2; exit 4", "internal compiler error: oops"),
    ],
)
def test_a_compiler_that_crashes_is_told(
    script: Script, monkeypatch: pytest.MonkeyPatch, cache: ArtifactCache, body: str, message: str
) -> None:
    with pytest.raises(CompileError, match=message):
        compile_library(SAXPY, detect(), _fake(script, monkeypatch, body), cache)


def test_full_disk_is_no_fault_of_the_source(
    script: Script, monkeypatch: pytest.MonkeyPatch, cache: ArtifactCache
) -> None:
    body = "echo 'as: BFD: /tmp/x.o: error: No space left on device' >&2; exit 1"
    with pytest.raises(TilewrightError, match="disk is full") as e:
        compile_library(SAXPY, detect(), _fake(script, monkeypatch, body), cache)
    assert not isinstance(e.value, CompileError)


def test_compiler_removed_after_it_was_found(
    script: Script, monkeypatch: pytest.MonkeyPatch, cache: ArtifactCache
) -> None:
    found = _fake(script, monkeypatch, "exit 0")
    os.unlink(found.path)
    with pytest.raises(TilewrightError, match="does not start"):
        compile_library(SAXPY, detect(), found, cache)


# ---------------------------------------------------------------- what it leaves in a library


def test_build_is_cached_mended_and_keyed(compiler: Compiler, tmp_path: Path) -> None:
    c = ArtifactCache(tmp_path)
    path, sha256, cached = build_library(["// prelude", SAXPY], detect(), compiler, c)
    assert not cached
    assert build_library(["// prelude", SAXPY], detect(), compiler, c) == (path, sha256, True)
    Path(path).write_bytes(b"damaged")
    assert build_library(["// prelude", SAXPY], detect(), compiler, c) == (path, sha256, False)
    assert build_library(["// other", SAXPY], detect(), compiler, c)[2] is False
    keys = {library_key(s, t, compiler) for s in ("a", "b") for t in available()}
    assert len(keys) == 2 * len(available())


@pytest.mark.skipif(not os.path.exists("/proc/self/exe"), reason="reads ELF")
def test_libraries_need_libc_and_libm_only(compiler: Compiler, cache: ArtifactCache) -> None:
    uses = (
        SAXPY
        + """
    #include <math.h>
    ENTRY(tw_uses) {
        double *x = (double *)tensors[0];
        *x = erf(*x);
        __int128 wide = args[0];
        return (int)(wide * args[1] / args[2]);
    }
    """
    )
    for target in available():
        for source in (SAXPY, uses):
            elf = Elf(Path(build_library([source], target, compiler, cache)[0]).read_bytes())
            assert elf.needed() <= LIBRARIES
            assert all(name.startswith("tw_") for name in elf.exported())
            assert {"tw_contract_saxpy", "tw_env_get", "tw_time_rounds"} <= elf.exported()
            assert elf.stack_flags() == {6}  # readable, writable, not executable
            assert str(Path.home()).encode() not in elf.data
            assert b"/tmp" not in elf.data


@pytest.mark.needs("clang++")
def test_clang_builds_every_target(cache: ArtifactCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "clang++")
    clang = find_compiler()
    assert clang.family == "clang"
    for target in available():
        path, sha256, _ = build_library([_sized(MATMUL, target)], target, clang, cache)
        load_path(path, sha256).close()


def _sized(source: str, target: Target) -> str:
    return source.replace("VECTOR", str(target.vector_bytes))


@pytest.mark.needs("aarch64-linux-gnu-g++")
def test_cross_compiler_builds_neon(cache: ArtifactCache) -> None:
    target = parse_target("cpu:neon", allow_foreign=True)
    path, _, _ = build_library([_sized(MATMUL, target)], target, find_compiler("aarch64"), cache)
    elf = Elf(Path(path).read_bytes())
    assert struct.unpack_from("<H", elf.data, 18) == (183,)  # EM_AARCH64
    assert elf.needed() <= LIBRARIES


def test_missing_cross_compiler_names_its_package() -> None:
    with pytest.raises(TilewrightError, match="no C\\+\\+ compiler for s390x") as e:
        find_compiler("s390x")
    assert "g++-s390x-linux-gnu" in e.value.hint
