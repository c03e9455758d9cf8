"""NVRTC through ctypes, with the real library: compiling, errors, deadlines, threads, finding it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cuda_kernels import SAXPY, SPILLING, nvrtc

from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cuda import cubin
from tilewright.backends.cuda import nvrtc as module
from tilewright.backends.cuda.archs import VARIANTS
from tilewright.backends.cuda.nvrtc import NoNvrtc, Nvrtc, candidates, find_nvrtc
from tilewright.backends.toolchain import CompileError, CompileTimeout

PLAIN = ("--gpu-architecture=sm_90a", "-std=c++17")


def test_nvrtc_tells_its_version_and_architectures() -> None:
    n = nvrtc()
    assert n.version >= (12, 0)
    assert set(n.archs) >= {80, 86, 89, 90}
    assert n.supports("sm_90a")
    assert not n.supports("sm_20")
    assert not n.supports("nonsense")
    assert str(n.version[0]) in n.name
    assert n.key.startswith(n.name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_compiles_for_every_architecture(variant: str) -> None:
    n = nvrtc()
    if not n.supports(variant):
        pytest.skip(f"{n.name} does not know {variant}")
    code, log = n.compile(SAXPY, (f"--gpu-architecture={variant}", "-std=c++17", "--ptxas-options=-v"))
    parsed = cubin.parse(code)
    assert parsed.cc == int(variant.removeprefix("sm_").rstrip("a"))
    assert list(parsed.kernels) == ["tw_contract_saxpy"]
    assert "registers" in log


def test_equal_sources_give_equal_bytes() -> None:
    assert nvrtc().compile(SAXPY, PLAIN)[0] == nvrtc().compile(SAXPY, PLAIN)[0]


def test_diagnostics_keep_the_kernels_line() -> None:
    with pytest.raises(CompileError) as e:
        nvrtc().compile(SAXPY + "__device__ int f() { return y; }\n", PLAIN)
    assert e.value.message == 'kernel(6): error: identifier "y" is undefined'
    assert "1 error detected" in e.value.log


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (SAXPY, ("--gpu-architecture=sm_11",), "invalid value for --gpu-architecture"),
        (SAXPY, (*PLAIN, "--nonsense"), "unrecognized option"),
        ('extern "C" __global__ void k(float *x) { asm("bogus.f32 %0;" :: "f"(x[0])); }', PLAIN, "bogus"),
        ("int x;\0", PLAIN, "zero byte"),
    ],
)
def test_other_errors_are_one_clear_line(source: str, options: tuple[str, ...], words: str) -> None:
    with pytest.raises(CompileError) as e:
        nvrtc().compile(source, options)
    assert words in e.value.message
    assert "\n" not in e.value.message


ENDLESS = {
    "statements": 'extern "C" __global__ void k(float *x) {' + "x[threadIdx.x] += x[1] * 3.0f;\n" * 20000 + "}",
    "macros": "#define M0(x) x x\n" + "".join(f"#define M{i + 1}(x) M{i}(x) M{i}(x)\n" for i in range(40)) + "M40(;)",
    "a sum": "__device__ int f(int a) { return " + "a + " * 100_000 + "a; }",
}


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_the_deadline_stops_the_compiler(source: str) -> None:
    n = nvrtc()
    with pytest.raises(CompileTimeout, match=r"^NVRTC [0-9.]+ took more than 0\.2 s and was stopped$"):
        n.compile(source, PLAIN, deadline=0.2)
    assert n.compile(SAXPY, PLAIN)[0]  # it goes on working


DEEP = 400_000
NESTED = {
    "parentheses": "__device__ int f() { return " + "(" * DEEP + "1" + ")" * DEEP + "; }",
    "braces": "__device__ void f() " + "{" * DEEP + "}" * DEEP,
    "conditions": "__device__ int f(int a) { return " + "a ? a : " * DEEP + "a; }",
    "templates": "template <class T> struct A {}; __device__ " + "A<" * DEEP + "int" + ">" * DEEP + " x;",
    "macros": "".join(f"#define M{i} (M{i + 1})\n" for i in range(30_000)) + "__device__ int x = M0;",
}


@pytest.mark.parametrize("source", NESTED.values(), ids=NESTED)
def test_a_source_nested_too_deeply_fails_alone(source: str) -> None:
    n = nvrtc()
    with pytest.raises(CompileError) as e:
        n.compile(source, PLAIN, deadline=20)
    assert e.value.message == f"{n.name} was killed by SIGSEGV (a source nested too deeply?) while it compiled"
    assert n.compile(SAXPY, PLAIN)[0]


def test_thousands_of_levels_compile() -> None:
    nvrtc().compile("__device__ int f() { return " + "(" * 5000 + "1" + ")" * 5000 + "; }", PLAIN)


def test_threads_compile_at_the_same_time() -> None:
    n = nvrtc()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: n.compile(f"// {i % 2}\n{SPILLING}", PLAIN)[0], range(4)))
    assert results[0] == results[2]
    assert all(cubin.parse(r).kernels["tw_spill"].registers > 0 for r in results)


# --------------------------------------------------------------------------- finding it


def test_the_wheel_is_found_and_opened_once() -> None:
    n = nvrtc()
    assert n.path in candidates()
    assert find_nvrtc("sm_90a") is find_nvrtc()


def test_unknown_to_this_release_names_version_and_architecture() -> None:
    n = nvrtc()
    with pytest.raises(NoNvrtc, match=rf"{n.version[0]}\.{n.version[1]} is too old for sm_999.*sm_90") as e:
        find_nvrtc("sm_999")
    assert "tilewright[cuda13]" in e.value.hint


def test_the_variable_alone_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    missing = tmp_path / "libnvrtc.so"
    monkeypatch.setenv("TILEWRIGHT_NVRTC", str(missing))
    assert candidates() == (str(missing),)
    with pytest.raises(NoNvrtc, match="cannot be loaded"):
        find_nvrtc()
    missing.write_text("not a library")
    with pytest.raises(NoNvrtc, match="cannot be loaded"):
        find_nvrtc()


def test_a_library_that_is_not_nvrtc(tmp_path: Path) -> None:
    other = tmp_path / "libnvrtc.so.13"
    compiler = find_compiler()
    subprocess.run([*compiler.command, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(other)], input=b"", check=True)
    with pytest.raises(NoNvrtc, match="is not an NVRTC"):
        Nvrtc(str(other))


def test_nothing_anywhere_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "candidates", lambda: ())
    with pytest.raises(NoNvrtc, match="no NVRTC found") as e:
        find_nvrtc("sm_90a")
    assert "tilewright[cuda13]" in e.value.hint
    assert e.value.kind == "target"


def test_a_later_release_than_the_driver_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    nvrtc()
    monkeypatch.setattr(module, "driver_version", lambda: (11, 4))
    with pytest.raises(NoNvrtc, match=r"this driver \(CUDA 11.4\) cannot load"):
        find_nvrtc()


def test_toolkit_folders_are_looked_through(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TILEWRIGHT_NVRTC", raising=False)
    folder = tmp_path / "cuda-12.9" / "lib64"
    folder.mkdir(parents=True)
    for name in ("libnvrtc.so.12", "libnvrtc-builtins.so.12.9", "libnvrtc.so.12.9.86", "libnvrtc_static.a"):
        (folder / name).write_text(name)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda-12.9"))
    found = [Path(p) for p in candidates() if Path(p).parent == folder]
    assert [p.name for p in found] == ["libnvrtc.so.12.9.86", "libnvrtc.so.12"]


def test_opening_it_starts_no_process() -> None:
    nvrtc()
    # The audit hook sees every process that Python or its libraries' wrappers start.
    code = (
        "import sys; seen = []\n"
        "sys.addaudithook(lambda name, _: seen.append(name) if name in"
        " ('subprocess.Popen', 'os.system', 'os.posix_spawn', 'os.exec', 'os.fork') else None)\n"
        "from tilewright.backends.cuda.nvrtc import find_nvrtc; find_nvrtc()\n"
        "assert not seen, seen"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
