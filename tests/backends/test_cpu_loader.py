"""Loading and calling: every target, workspaces, timing, damaged and many libraries, no memory files."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from handwritten import ENV, MATMUL, SAXPY, Load

from tilewright.backends.cpu import loader
from tilewright.backends.cpu.compiler import find_compiler, support_hash
from tilewright.backends.cpu.loader import (
    LoadedLibrary,
    Memory,
    TurningCall,
    load_bytes,
    load_path,
    process_host,
    time_rounds,
)
from tilewright.backends.cpu.targets import available
from tilewright.backends.driver import LaunchError, LoadError
from tilewright.core import Launch, LaunchProgram, Prepack, Target, TilewrightError

SAXPY_PROGRAM = LaunchProgram((Launch("tw_contract_saxpy", ("n", "a")),))

# Fills the output with what it was given: first workspace word, the workspace's address, arguments.
REPORT = (
    ENV
    + """
ENTRY(tw_first) {
    long *work = (long *)workspace;
    work[0] += 1;
    work[1] = 5;
    return (int)args[0];
}
ENTRY(tw_second) {
    long *out = (long *)tensors[0], *work = (long *)workspace;
    out[0] = work[0]; out[1] = (long)workspace; out[2] = args[0]; out[3] = args[1];
    out[4] = env->threads; out[5] = work[4096 / 8];
    work[4096 / 8] = 9;
    return 0;
}
"""
)


def _pointers(*arrays: np.ndarray) -> list[int]:
    return [a.ctypes.data for a in arrays]


@pytest.mark.parametrize("target", available(), ids=lambda t: t.name)
def test_matmul_by_hand(load: Load, target: Target) -> None:
    n = 48
    size = ["*", 128, "threads"]
    program = LaunchProgram((Launch("tw_matmul", ("n",)),), workspace=size, zero_fill=size)
    library = load(MATMUL.replace("VECTOR", str(target.vector_bytes)), target)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((n, n)).astype(np.float32) for _ in range(2))
    c = np.full((n, n), np.nan, np.float32)
    library.kernel(program, {"n": n, "threads": 1}).run(_pointers(a, b, c))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_launches_workspace_and_arguments(load: Load) -> None:
    program = LaunchProgram(
        (Launch("tw_first", ("zero",)), Launch("tw_first", ("zero",)), Launch("tw_second", ("p", "q"))),
        workspace=["+", 4096, ["*", "p", 8]],
        zero_fill=4096,
    )
    library = load(REPORT)
    kernel = library.kernel(program, {"zero": 0, "q": -5, "p": 1 << 40 >> 30, "unused": 1}, threads=3)
    out = np.zeros(6, np.int64)
    for call in range(3):
        kernel.run(_pointers(out))
        assert out[0] == 2  # cleared before each call, shared by its launches
        assert out[1] % 4096 == 0
        assert list(out[2:5]) == [1024, -5, 3]
        assert out[5] == (9 if call else 0)  # what is beyond zero_fill stays as it was


def test_failing_launch_stops_the_program(load: Load) -> None:
    program = LaunchProgram((Launch("tw_first", ("x",)), Launch("tw_second", ("x", "x"))), workspace=8192)
    out = np.full(6, -1, np.int64)
    kernel = load(REPORT).kernel(program, {"x": 3})
    for call in (
        lambda: kernel.run(_pointers(out)),
        lambda: kernel.time(_pointers(out), 5),
        lambda: time_rounds([kernel.prepare(_pointers(out))], 5),
    ):
        with pytest.raises(LaunchError, match="tw_first failed with code 3"):
            call()
    assert (out == -1).all()


# Adds the sum of a weight that is rearranged (reversed), and of one that is not, to the output.
WEIGHTED = (
    ENV
    + """
ENTRY(tw_reverse) {
    const long *weight = (const long *)tensors[0];
    for (long i = 0; i < 4; i++) ((long *)workspace)[i] = weight[3 - i];
    return 0;
}
ENTRY(tw_add) {
    const long *packed = (const long *)tensors[0], *plain = (const long *)tensors[1];
    *(long *)tensors[2] += 1000 * packed[0] + packed[3] + 100 * plain[0];
    return 0;
}
"""
)


def test_calls_that_take_turns_read_copies_of_constant_inputs(load: Load) -> None:
    weight, plain, out = np.array([1, 2, 3, 4]), np.array([7]), np.zeros(1, np.int64)
    pack = (Prepack(0, 32, Launch("tw_reverse", ())),)
    kernel = load(WEIGHTED).kernel(LaunchProgram((Launch("tw_add", ()),), prepack=pack), {})
    call = TurningCall(kernel, tuple(_pointers(weight, plain, out)), 3, {0: 32, 1: 8})
    call.run()
    assert out[0] == 4701
    plain[0] = 0  # the first of the three reads it where it lies
    for _ in range(4):
        call.run()
    assert out[0] == 4701 + 2 * 4701 + 4001 + 4701
    assert min(time_rounds([call], 3, 2)[0]) > 0
    alone = TurningCall(kernel, tuple(_pointers(weight, plain, out)), 1, {0: 32, 1: 8})
    before = int(out[0])
    alone.run()
    assert out[0] == before + 4001


def test_calls_that_take_turns_use_copies_and_memory_of_earlier_ones(load: Load) -> None:
    weight, plain, out = np.array([1, 2, 3, 4]), np.array([7]), np.zeros(1, np.int64)
    pack = (Prepack(0, 32, Launch("tw_reverse", ())),)
    kernel = load(WEIGHTED).kernel(LaunchProgram((Launch("tw_add", ()),), prepack=pack), {})
    how = (tuple(_pointers(weight, plain, out)), 2, {0: 32, 1: 8})
    first = TurningCall(kernel, *how)
    weight[:], plain[0] = 0, 0
    second = TurningCall(kernel, *how, before=first)
    assert second.memory is first.memory
    second.run()
    assert out[0] == 0
    second.run()
    assert out[0] == 4701, "the copy of before"
    third = TurningCall(kernel, *how, memory=first.memory)
    third.run()
    third.run()
    assert out[0] == 4701, "a copy of now"
    larger = TurningCall(kernel, how[0], 4, how[2], memory=first.memory)
    assert larger.memory is not first.memory


def test_large_workspaces_are_aligned_to_huge_pages(load: Load) -> None:
    load(SAXPY)
    m = Memory(5 << 20)
    assert m.address % (2 << 20) == 0
    ctypes.memset(m.address, 1, m.size)


def test_workspace_that_does_not_fit(load: Load) -> None:
    library = load(SAXPY)
    for size in (1 << 62, -1):
        program = LaunchProgram(SAXPY_PROGRAM.launches, workspace=size)
        with pytest.raises(TilewrightError, match="workspace"):
            library.kernel(program, {"n": 1, "a": 1}).run([0, 0, 0])


def test_a_loaded_kernel_is_timed(load: Load) -> None:
    kernel = load(SAXPY).kernel(SAXPY_PROGRAM, {"n": 4096, "a": 2})
    x, y, out = (np.ones(4096, np.float32) for _ in range(3))
    for clock in ("monotonic", "cpu"):
        assert 0 < kernel.time(_pointers(x, y, out), 200, clock) < 1
    with pytest.raises(KeyError):
        kernel.time(_pointers(x, y, out), 1, "sundial")


def test_rounds_of_two_kernels_interleave(load: Load) -> None:
    # Each kernel writes a serial number taken from a shared tensor: the order of calls is in the data.
    source = (
        ENV
        + """
    ENTRY(tw_tick) {
        long *shared = (long *)tensors[0], *mine = (long *)tensors[1];
        mine[1 + mine[0]++] = shared[0]++;
        return 0;
    }
    """
    )
    kernel = load(source).kernel(LaunchProgram((Launch("tw_tick"),)), {})
    shared = np.zeros(1, np.int64)
    a, b, c = (np.zeros(64, np.int64) for _ in range(3))
    calls = [kernel.prepare(_pointers(shared, x)) for x in (a, b, c)]
    flush = Memory(1 << 20)
    times = time_rounds(calls, 3, [1, 2, 1], flush=flush)
    assert [len(t) for t in times] == [3, 3, 3]
    assert all(0 <= t < 1 for row in times for t in row)
    #         round 0: a b b c       round 1: b b c a       round 2: c a b b
    assert list(a[1 : 1 + a[0]]) == [0, 7, 9]
    assert list(b[1 : 1 + b[0]]) == [1, 2, 4, 5, 10, 11]
    assert list(c[1 : 1 + c[0]]) == [3, 6, 8]
    shared[0] = a[0] = b[0] = c[0] = 0
    assert len(time_rounds(calls, 1, [1, 2, 1])) == 3  # each finds the caches as a call of its own left them
    assert [list(x[1 : 1 + x[0]]) for x in (a, b, c)] == [[0, 1], [2, 3, 4], [5, 6]]
    shared[0] = a[0] = 0
    time_rounds(calls[:1], 2)
    assert a[0] == 2
    assert time_rounds([], 3) == []
    assert time_rounds(calls, 0) == [[], [], []]
    for bad in ([1, 2], [1, 0, 1]):
        with pytest.raises(ValueError, match="repeats"):
            time_rounds(calls, 1, bad)


def test_the_machines_figures_are_plausible(load: Load) -> None:
    handle = load(SAXPY).handle
    assert handle.tw_peak_flops(0.005) > 1e8
    assert handle.tw_bandwidth(4 << 20, 0.005) > 1e8
    assert handle.tw_copy_bandwidth(4 << 20, 0.005) > 1e8


def _numbered(load: Load, number: int) -> LoadedLibrary:
    return load(ENV + f"ENTRY(tw_number) {{ *(long *)tensors[0] = {number}; return 0; }}")


def test_many_libraries_are_not_mixed_up(load: Load) -> None:
    # Numbers of closed files come again, and the dynamic linker remembers paths.
    libraries = [_numbered(load, n) for n in range(12)]
    out = np.zeros(1, np.int64)
    for n, library in enumerate(libraries):
        library.kernel(LaunchProgram((Launch("tw_number"),)), {}).run(_pointers(out))
        assert out[0] == n
        library.close()
    for n in (3, 5):
        again = _numbered(load, n)
        again.kernel(LaunchProgram((Launch("tw_number"),)), {}).run(_pointers(out))
        assert out[0] == n


def test_no_file_stays_open(load: Load) -> None:
    _numbered(load, 100)
    before = len(os.listdir("/proc/self/fd"))
    for n in range(101, 105):
        _numbered(load, n)
    assert len(os.listdir("/proc/self/fd")) == before


def test_close_counts_users_and_spares_the_host(load: Load) -> None:
    load(SAXPY)
    host = process_host()
    first = _numbered(load, 200)
    second = _numbered(load, 200)
    assert first is second
    first.close()
    out = np.zeros(1, np.int64)
    second.kernel(LaunchProgram((Launch("tw_number"),)), {}).run(_pointers(out))
    assert out[0] == 200
    second.close()
    assert _numbered(load, 200) is not second
    for _ in range(10):
        host.close()
    assert process_host() is host
    assert host.handle.tw_support_abi() == loader.SUPPORT_ABI


def test_hash_is_checked(load: Load, tmp_path: Path) -> None:
    library = load(SAXPY)
    data = b"other bytes"
    with pytest.raises(LoadError, match="damaged"):
        load_bytes(data, library.sha256)
    (tmp_path / "x.so").write_bytes(data)
    with pytest.raises(LoadError, match="damaged"):
        load_path(tmp_path / "x.so", library.sha256)
    with pytest.raises(LoadError, match="cannot read"):
        load_path(tmp_path / "absent.so")


def test_a_library_without_support_is_refused(tmp_path: Path) -> None:
    import subprocess

    out = tmp_path / "plain.so"
    words = [*find_compiler().command, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(out)]
    subprocess.run(words, input=b'extern "C" int f() { return 1; }', check=True)
    with pytest.raises(LoadError, match="lacks the support functions"):
        load_path(out)


def test_without_memory_files(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*args: object) -> None:
        raise OSError("no memory files")

    opened: list[str] = []
    real = loader._dlopen_file

    def refusing(data: bytes, name: str, folder: str) -> ctypes.CDLL:
        opened.append(folder)
        if folder == str(tmp_path / "noexec"):
            raise OSError("failed to map segment from shared object")
        return real(data, name, folder)

    (tmp_path / "noexec").mkdir()
    (tmp_path / "own").mkdir()  # not the shared temporary folder, where other tests compile meanwhile
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "noexec"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "own"))
    monkeypatch.setattr(loader, "_dlopen_memory", absent)
    monkeypatch.setattr(loader, "_dlopen_file", refusing)
    out = np.zeros(1, np.int64)
    _numbered(load, 300).kernel(LaunchProgram((Launch("tw_number"),)), {}).run(_pointers(out))
    assert out[0] == 300
    assert opened == [str(tmp_path / "noexec"), str(tmp_path / "own")]
    assert not list((tmp_path / "own").iterdir())


def test_support_hash_covers_every_source() -> None:
    assert len(support_hash()) == 64
