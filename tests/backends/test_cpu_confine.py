"""What a compiler is confined to: its environment, its folder, its limits, and what of it a hostile source meets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from handwritten import SAXPY

from tilewright.backends import confine
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.cpu.compiler import Compiler, compile_library, find_compiler
from tilewright.backends.cpu.targets import detect
from tilewright.backends.toolchain import CompileError, CompileTimeout

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits are read from /proc")

EXPLODES = """
template <int D, long N> struct Twice { Twice<D - 1, 2 * N> a; Twice<D - 1, 2 * N + 1> b; };
template <long N> struct Twice<0, N> { char x; };
long f() { return sizeof(Twice<40, 1>); }
"""


def shell(script: str) -> confine.Ran:
    return confine.confined(["/bin/sh", "-c", script], "", 20)


def test_the_environment_is_the_path_to_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "HOME", "CXXFLAGS", "SECRET"):
        monkeypatch.setenv(name, "/nowhere")
    ran = shell("env >&2")
    names = {line.partition("=")[0] for line in ran.said.splitlines()}
    kept = {"PATH", "LC_ALL", "GLIBC_TUNABLES", "TMPDIR", "DEVELOPER_DIR", "SDKROOT"}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} <= kept
    assert f"PATH={os.environ['PATH']}" in ran.said


def test_a_confined_programs_temporary_folder_is_private_and_goes_with_it() -> None:
    ran = shell('echo "$TMPDIR" >&2; ls -ld "$TMPDIR" >&2; touch "$TMPDIR/left"')
    folder, listed = ran.said.splitlines()
    assert listed.startswith("drwx------")
    assert not Path(folder).exists()


@linux
def test_a_confined_program_has_limits() -> None:
    lines = shell("cat /proc/self/limits >&2").said.splitlines()
    found = {line[:26].strip(): line[26:].split()[:2] for line in lines}
    assert found["Max core file size"] == ["0", "0"]
    assert found["Max cpu time"] == ["21", "22"]
    assert found["Max address space"] == [str(confine.MEMORY)] * 2
    assert found["Max stack size"] == [str(8 << 20), str(64 << 20)]
    assert found["Max file size"] == [str(confine.LARGEST)] * 2


def test_what_it_says_is_bounded() -> None:
    ran = shell("head -c 3000000 /dev/zero >&2; exit 5")
    assert (ran.status, len(ran.said), ran.started, ran.timed_out) == (5, confine.LOG, True, False)


def test_a_program_that_is_not_there() -> None:
    assert not confine.confined(["/no/such/program"], "", 20).started


@pytest.fixture
def ready(cache: ArtifactCache, compiler: Compiler) -> ArtifactCache:
    """A cache with the support object: what fails afterwards is the source's."""
    compile_library(SAXPY, detect(), compiler, cache)
    return cache


def test_an_exploding_source_is_stopped_at_the_deadline(ready: ArtifactCache, compiler: Compiler) -> None:
    with pytest.raises(CompileTimeout, match="more than 1 s"):
        compile_library(SAXPY + EXPLODES, detect(), compiler, ready, deadline=1)


@linux
def test_an_exploding_source_is_stopped_at_the_limit_of_memory(
    ready: ArtifactCache, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confine, "MEMORY", 200 << 20)
    with pytest.raises(CompileError, match="GiB of memory"):
        compile_library(SAXPY + EXPLODES, detect(), compiler, ready)


@linux
def test_an_exploding_source_is_stopped_at_the_limit_of_time(
    ready: ArtifactCache, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is where nobody is left to look at the clock."""
    monkeypatch.setattr(confine, "_LIMITED", confine._LIMITED.replace("$1", "1"))
    with pytest.raises(CompileTimeout):
        compile_library(SAXPY + EXPLODES, detect(), compiler, ready)


def test_a_vast_library_is_stopped(ready: ArtifactCache, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "LARGEST", 1 << 20)
    source = SAXPY + "extern char vast[8 << 20]; char vast[8 << 20] = {1};"
    with pytest.raises(CompileError) as e:
        compile_library(source, detect(), compiler, ready)
    assert e.value.kind == "compile"


def test_a_hostile_environment_changes_nothing(
    ready: ArtifactCache, compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = compile_library(SAXPY, detect(), compiler, ready)
    note, tools = tmp_path / "note", tmp_path / "tools"
    tools.mkdir()
    (tools / "hostile.h").write_text("#define HOSTILE 1\n")
    for name in ("cc1plus", "as", "ld", "collect2"):
        (tools / name).write_text(f"#!/bin/sh\necho {name} >> {note}\nexit 1\n")
        (tools / name).chmod(0o755)
    variables = {
        "CPATH": tools, "CPLUS_INCLUDE_PATH": tools, "C_INCLUDE_PATH": tools, "COMPILER_PATH": tools,
        "GCC_EXEC_PREFIX": f"{tools}/", "LIBRARY_PATH": tools, "LD_PRELOAD": tools / "as", "LD_RUN_PATH": tools,
        "DEPENDENCIES_OUTPUT": note, "SUNPRO_DEPENDENCIES": note, "CCC_OVERRIDE_OPTIONS": "+-fplugin=/nowhere",
        "COLLECT_GCC_OPTIONS": "-fplugin=/nowhere", "GCC_COMPARE_DEBUG": "-fplugin=/nowhere",
        "SOURCE_DATE_EPOCH": "1",
    }  # fmt: skip
    for variable, value in variables.items():
        monkeypatch.setenv(variable, str(value))
    assert find_compiler() == compiler
    assert compile_library(SAXPY, detect(), compiler, ready) == plain
    with pytest.raises(CompileError, match=r"hostile\.h"):
        compile_library("#include <hostile.h>\n" + SAXPY, detect(), compiler, ready)
    assert not note.exists()
