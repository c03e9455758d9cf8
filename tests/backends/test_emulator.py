"""The emulator runs right kernels right: all orders, both ways to copy, every sanitizer, several launches."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from elf import LIBRARIES, Elf
from emulated import BLOCKS, SIZE, THREADS, Floats, compiled, line_of, numbers, perform, program, reversed_blocks, unit

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.emulator import CompileError, EmulatedKernel, build, run
from tilewright.backends.emulator.build import runtime_object
from tilewright.core import Launch, LaunchProgram, Prepack, TilewrightError, UsageError

ORDERS = (("fifo", "lazy"), ("lifo", "eager"), ("random:3", "lazy"), ("random:4", "eager"))

RIGHT = {
    "barrier": "s[t] = x0[i]; tw::sync(); out[i] = s[63 - t];",
    "barriers": """
        float v = x0[i];
        for (int k = 0; k < 5; k++) { tw::store_shared(s + t, v); tw::sync();
            v = tw::load_shared<float>(s + 63 - t); tw::sync(); }
        tw::store_global(out + i, v);""",
    "ring": """
        const tw::u32 at = tw::shared_address(s);
        for (int k = 0; k < 2; k++) { tw::cp_async<4>(at + k * 256 + 4 * t, x0 + i); tw::cp_commit(); }
        float v = 0;
        for (int k = 0; k < 6; k++) {
            tw::cp_wait<1>();
            tw::sync();
            v = s[k % 2 * 64 + 63 - t];
            tw::sync();
            if (k + 2 < 6) tw::cp_async<4>(at + k % 2 * 256 + 4 * t, x0 + i);
            tw::cp_commit();
        }
        out[i] = v;""",
    "padded": """
        // The second half of each copy is not read, and must come out as zero.
        const tw::u32 at = tw::shared_address(s);
        if (t < 16) tw::cp_async<16>(at + 16 * t, x0 + b * 64 + 4 * t, 8);
        tw::cp_commit(); tw::cp_wait<0>(); tw::sync();
        const int k = 63 - t;
        out[i] = k % 4 < 2 ? s[k] : s[k] + x0[b * 64 + k];""",
    "warps": """
        s[t] = x0[b * 64 + 63 - t]; tw::sync_warp();
        float v = s[t ^ 1];
        out[i] = tw::shuffle_xor(v, 1);""",
    "last_block": """
        // The last block to come adds nothing; it copies what all of them left in the workspace.
        float *w = (float *)ws + 64;
        w[i] = x0[b * 64 + 63 - t];
        tw::threadfence();
        tw::sync();
        if (t == 0) { tw::u32 before = tw::atomic_add((tw::u32 *)ws, 1u); s[0] = before == gridDim.x - 1; }
        tw::sync();
        tw::threadfence();
        if (s[0] != 0) for (int k = t; k < n; k += 64) out[k] = w[k];""",
}


@pytest.fixture(scope="module")
def folder(cache: ArtifactCache) -> Path:
    return cache.root


@pytest.fixture(scope="module")
def right(folder: Path) -> EmulatedKernel:
    return compiled(RIGHT, folder)


def zeroed(name: str, blocks: int = BLOCKS) -> LaunchProgram:
    whole = program(name, blocks, workspace=256 + 4 * SIZE)
    return LaunchProgram(whole.launches, whole.workspace, zero_fill=256, align=16)


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_in_every_order(right: EmulatedKernel, name: str) -> None:
    for order, copies in ORDERS:
        output = np.empty(SIZE, np.float32)
        report = run(right, zeroed(name), {"n": SIZE}, [numbers()], output, order=order, copies=copies)
        assert report.ok, (order, copies, report.bugs)
        assert report.output is output
        assert 0 < report.seconds < 10
        np.testing.assert_array_equal(output, reversed_blocks(numbers()))


@pytest.mark.parametrize("sanitize", [("address", "undefined"), ("thread",)])
def test_right_kernels_under_sanitizers(folder: Path, sanitize: tuple[str, ...]) -> None:
    kernel = compiled(RIGHT, folder, sanitize)
    assert kernel.sanitize == sanitize
    size = 2 * THREADS
    for n, name in enumerate(RIGHT):
        output = np.empty(size, np.float32)
        order, copies = ORDERS[n % len(ORDERS)]
        report = run(kernel, zeroed(name, 2), {"n": size}, [numbers(size)], output, order=order, copies=copies)
        if report.unchecked:
            pytest.skip(report.unchecked)
        assert report.ok, (name, report.bugs)
        np.testing.assert_array_equal(output, reversed_blocks(numbers(size)))


def test_more_blocks_than_fibers_under_the_thread_sanitizer(folder: Path) -> None:
    # Blocks then take over fibers of others, whose memory must not seem to be theirs.
    kernel = compiled(RIGHT, folder, ("thread",))
    size = 20 * THREADS
    output = np.empty(size, np.float32)
    report = run(kernel, program("barriers", 20), {"n": size}, [numbers(size)], output, order="random:1")
    if report.unchecked:
        pytest.skip(report.unchecked)
    assert report.ok, report.bugs
    np.testing.assert_array_equal(output, reversed_blocks(numbers(size)))


def test_the_portable_context_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What machines other than x86-64 and ARM use.
    module = import_module("tilewright.backends.emulator.build")
    monkeypatch.setattr(module, "_RUNTIME", (*module._RUNTIME, "-O1", "-DTW_EMU_PORTABLE"))
    kernel = compiled({"barriers": RIGHT["barriers"]}, tmp_path)
    report, output = perform(kernel, "barriers", "random:2")
    assert report.ok, report.bugs
    np.testing.assert_array_equal(output, reversed_blocks(numbers()))


# ------------------------------------------------------------------ launches

LAUNCHES = {
    "meet": """
        // Blocks 0 and 1 wait for each other: they must be resident at the same time.
        tw::u32 *flags = (tw::u32 *)ws;
        if (b < 2 && t == 0) {
            tw::atomic_add(flags + b, 1u);
            while (__atomic_load_n(flags + 1 - b, __ATOMIC_RELAXED) == 0) emu::yield(__LINE__);
        }
        out[i] = x0[i];""",
    "first": "((float *)ws)[i] = x0[i] * 2;",
    "second": "out[i] = ((float *)ws)[i] + (float)n;",
    "rearranged": "out[i] = x0[i] + x0[n + i] + ((float *)ws)[i];",
    "poisoned": "out[i] = ((float *)ws)[i] == ((float *)ws)[i] ? 1.0f : 2.0f;",
}
SHAPES = """
TW_KERNEL(64, 1) void shape(float *out, long long big, double d, float f, int negative) {
    const unsigned t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const unsigned n = blockDim.x * blockDim.y * blockDim.z;
    out[b * n + t] = (float)(b * 100 + t) + (big == (1ll << 40) && d == 0.1 && f == 0.5f && negative == -3 ? 0.5f : 0);
}
"""


@pytest.fixture(scope="module")
def launches(folder: Path) -> EmulatedKernel:
    return build(unit(LAUNCHES) + SHAPES, [*LAUNCHES, "shape"], cache=folder)


@pytest.mark.parametrize("order", ["fifo", "lifo", "random:9"])
def test_blocks_are_resident_together(launches: EmulatedKernel, order: str) -> None:
    output = np.empty(SIZE, np.float32)
    report = run(launches, zeroed("meet"), {"n": SIZE}, [numbers()], output, order=order, timeout=10.0)
    assert report.ok, report.bugs
    np.testing.assert_array_equal(output, numbers())


def test_two_launches_share_a_workspace(launches: EmulatedKernel) -> None:
    two = LaunchProgram(
        tuple(Launch(name, ("n",), (["ceildiv", "n", 64],), (64,)) for name in ("first", "second")),
        workspace=["*", "n", 4],
    )
    output = np.empty(SIZE, np.float32)
    report = run(launches, two, {"n": SIZE}, [numbers()], output)
    assert report.ok, report.bugs
    np.testing.assert_array_equal(output, numbers() * 2 + SIZE)


def test_rearranged_inputs_lie_in_cleared_memory_of_their_own(launches: EmulatedKernel) -> None:
    grid = (["ceildiv", "n", 64],)
    pack = Prepack(0, ["*", "n", 8], Launch("first", ("n",), grid, (64,)))  # the second half is left as it is
    call = Launch("rearranged", ("n",), grid, (64,))
    whole = LaunchProgram((call,), workspace=["*", "n", 4], zero_fill=["*", "n", 4], prepack=(pack,))
    output = np.empty(SIZE, np.float32)
    report = run(launches, whole, {"n": SIZE}, [numbers()], output)
    assert report.ok, report.bugs
    np.testing.assert_array_equal(output, numbers() * 2)


def test_workspace_is_poisoned_but_for_what_is_cleared(launches: EmulatedKernel) -> None:
    output = np.empty(SIZE, np.float32)
    whole = program("poisoned", workspace=4 * SIZE)
    half = LaunchProgram(whole.launches, whole.workspace, zero_fill=512)
    assert run(launches, half, {"n": SIZE}, [numbers()], output).ok
    np.testing.assert_array_equal(output, np.repeat([1, 2], 128))


def test_shapes_and_kinds_of_parameters(launches: EmulatedKernel) -> None:
    parameters = (("tensor", 0), ("int64", ["*", "k", 1 << 20]), ("float64", 0.1), ("float32", 0.5), ("int32", -3))
    shaped = LaunchProgram((Launch("shape", (), (3, 2, 2), (4, 2, 3), 0, parameters),))
    output = np.empty(12 * 24, np.float32)
    report = run(launches, shaped, {"k": 1 << 20}, [], output)
    assert report.ok, report.bugs
    expected = np.arange(12)[:, None] * 100 + np.arange(24) + 0.5
    np.testing.assert_array_equal(output, expected.reshape(-1))


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (Launch("absent", ("n",), (1,), (64,)), "no such kernel"),
        (Launch("first", (), (1,), (64,)), "another number of parameters"),
        (Launch("first", ("n",), (1,), (1024, 2)), "too many threads"),
        (Launch("first", ("n",), (1, 70000), (64,)), "too many blocks"),
        (Launch("first", ("n",), (0,), (64,)), "no extent"),
        (Launch("first", ("n",), (1,), (64,), 300 << 10), "227 KiB"),
        (Launch("shape", (), (1,), (64,), 0, (("tensor", 0), *[("int32", 1)] * 4)), "8 bytes in the kernel and 4"),
    ],
)
def test_impossible_launches_are_refused(launches: EmulatedKernel, launch: Launch, message: str) -> None:
    report = run(launches, LaunchProgram((launch,)), {"n": SIZE}, [numbers()], np.empty(SIZE, np.float32))
    assert [b.kind for b in report.bugs] == ["launch"]
    assert message in report.bugs[0].message
    assert report.output is None


def test_one_byte_and_empty_outputs(folder: Path) -> None:
    text = """
TW_KERNEL(32, 1) void bytes(const signed char *x0, signed char *out, unsigned char *ws) {
    out[threadIdx.x] = (signed char)-x0[threadIdx.x]; (void)ws;
}
"""
    kernel = build(unit({}) + text, ["bytes"], cache=folder)
    x = np.arange(-16, 16, dtype=np.int8)
    output = np.empty(32, np.int8)
    assert run(kernel, LaunchProgram((Launch("bytes", (), (1,), (32,)),)), {}, [x], output).ok
    np.testing.assert_array_equal(output, -x)


# ------------------------------------------------------------------ building


def test_builds_are_cached_by_content(folder: Path) -> None:
    source = unit({"k": "out[i] = 1;"})
    first = build(source, ["k"], cache=folder)
    again = build(source, ["k"], cache=folder)
    assert (first.cached, again.cached) == (False, True)
    assert first.sha256 == again.sha256
    assert Path(again.path).exists()
    assert build(unit({"k": "out[i] = 2;"}), ["k"], cache=folder).sha256 != first.sha256


def test_compiler_errors_name_the_kernel_line(folder: Path) -> None:
    bodies = {"k": "out[i] = 1;", "broken": "out[i] = 1;\nout[i] = undeclared; // HERE"}
    with pytest.raises(CompileError, match=rf"^kernel:{line_of(bodies, 'broken')}:.*undeclared"):
        compiled(bodies, folder)
    with pytest.raises(CompileError, match="absent"):
        build(unit({"k": "out[i] = 1;"}), ["absent"], cache=folder)


def test_without_a_compiler_the_error_says_what_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TilewrightError, match="no C\\+\\+ compiler"):
        compiled({"k": "out[i] = 1;"}, folder)


def test_the_emulator_refuses_wrong_usage(right: EmulatedKernel, folder: Path) -> None:
    x, output = numbers(), np.empty(SIZE, np.float32)
    with pytest.raises(UsageError, match="unknown sanitizer 'memory'"):
        build("", ["k"], sanitize=["memory"], cache=folder)
    with pytest.raises(UsageError, match="exclude each other"):
        build("", ["k"], sanitize=["thread", "address"], cache=folder)
    with pytest.raises(UsageError, match="not a kernel's name"):
        build("", ["k; int x"], cache=folder)
    with pytest.raises(UsageError, match="unknown order 'random'"):
        run(right, program("barrier"), {"n": 1}, [x], output, order="random")
    with pytest.raises(UsageError, match="unknown way to copy"):
        run(right, program("barrier"), {"n": 1}, [x], output, copies="soon")
    with pytest.raises(UsageError, match="'n' has no value"):
        run(right, program("barrier"), {}, [x], output)
    with pytest.raises(UsageError, match="must be contiguous"):
        run(right, program("barrier"), {"n": 1}, [x], np.empty((SIZE, 2), np.float32)[:, 0])


def test_runtime_is_compiled_once(folder: Path) -> None:
    from tilewright.backends.cpu.compiler import find_compiler

    store = ArtifactCache(folder)
    first = runtime_object(find_compiler(), (), False, store)
    stamp = Path(first).stat().st_ino
    assert runtime_object(find_compiler(), (), False, store) == first
    assert Path(first).stat().st_ino == stamp


@pytest.mark.skipif(not os.path.exists("/proc/self/exe"), reason="reads ELF")
def test_a_program_needs_libc_and_libm_only(right: EmulatedKernel) -> None:
    elf = Elf(Path(right.path).read_bytes())
    assert elf.needed() <= LIBRARIES
    assert b".debug" not in elf.data


def test_inputs_are_the_callers(right: EmulatedKernel) -> None:
    strided: Floats = np.repeat(numbers(), 2)[::2]  # not contiguous: the kernel gets a copy
    output = np.empty(SIZE, np.float32)
    assert run(right, program("barrier"), {"n": SIZE}, [strided], output).ok
    np.testing.assert_array_equal(output, reversed_blocks(numbers()))
