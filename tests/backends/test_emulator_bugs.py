"""Planted bugs: each is found, with its kind, kernel line, block and thread, in every order that may matter."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from emulated import compiled, line_of, numbers, perform, program, reversed_blocks

from tilewright.backends.cache import ArtifactCache
from tilewright.backends.emulator import KINDS, Bug, EmulatedKernel, Report, run
from tilewright.backends.emulator.report import parse_sanitizers
from tilewright.core import LaunchProgram

ORDERS = ("fifo", "lifo", "random:1")

# name -> (body, kind, a part of the message)
PLAIN = {
    "store_past_end": ("tw::store_global(out + i + 1, x0[i]); // HERE", "out_of_bounds_global", "past the end of the output"),
    "load_before": ("out[i] = tw::load_global<float>(x0 + i - 1); // HERE", "out_of_bounds_global", "4 bytes before input 0"),
    "copy_past_end": (
        "tw::cp_async<4>(tw::shared_address(s), x0 + i + 1); // HERE\ntw::cp_commit(); tw::cp_wait<0>(); out[i] = 1;",
        "out_of_bounds_global", "past the end of input 0",
    ),
    "plain_far": ("out[i + 5000] = x0[i]; // HERE", "out_of_bounds_global", "past the end of the output"),
    "write_input": ("tw::store_global((float *)x0 + i, 1.0f); // HERE\nout[i] = 1;", "out_of_bounds_global", "an input"),
    "plain_write_input": ("((volatile float *)x0)[i] = 1; // HERE\nout[i] = 1;", "out_of_bounds_global", "an input"),
    "global_is_shared": ("out[i] = tw::load_global<float>(s + t); // HERE", "out_of_bounds_global", "a shared address"),
    "shared_past_end": ("tw::store_shared(s + 2 * t + 2, 1.0f); // HERE\nout[i] = 1;", "out_of_bounds_shared", "byte 512 of 512"),
    "shared_before": ("out[i] = tw::load_shared<float>(s + t - 1); // HERE", "out_of_bounds_shared", "byte -4 of 512"),
    "shared_address": ("out[i] = (float)tw::shared_address(s + 100 + t); // HERE", "out_of_bounds_shared", "the address of byte"),
    "ldmatrix_past_end": (
        "tw::u32 r[4];\ntw::ldmatrix_x4(r, tw::shared_address(s) + t % 32 * 32); // HERE\nout[i] = (float)r[0];",
        "out_of_bounds_shared", "512",
    ),
    "misaligned_global": ("tw::store_global((char *)(out + i) + 1, 1.0f); // HERE", "misaligned", "global memory"),
    "misaligned_shared": ("tw::store_shared((char *)s + 4 * t + 4, 1.0); // HERE\nout[i] = 1;", "misaligned", "shared memory"),
    "misaligned_copy": (
        "tw::cp_async<8>(tw::shared_address(s) + 4, x0); // HERE\ntw::cp_commit(); tw::cp_wait<0>(); out[i] = 1;",
        "misaligned", "",
    ),
    "early_exit": ("if (t == 40) return;\ntw::sync(); // HERE\nout[i] = 1;", "divergence", "threads 0-39, 41-63 (63) wait at the block barrier"),
    "whole_warp_exits": ("if (t >= 32) return;\ntw::sync(); // HERE\nout[i] = 1;", "deadlock", "32-63 (32) have exited"),
    "two_barriers": ("if (t < 32)\ntw::sync();\nelse\ntw::sync();\nout[i] = 1;", "divergence", "at different barriers"),
    "half_warp": ("float v = 0;\nif (t % 32 < 16) v = tw::shuffle_xor(x0[i], 1); // HERE\nout[i] = v;", "divergence", "have exited"),
    "barrier_and_warp": (
        "if (t < 8)\ntw::sync(); // HERE\nelse tw::sync_warp();\nout[i] = 1;", "divergence", "wait at sync_warp",
    ),
    "pending_copy": ("tw::cp_async<4>(tw::shared_address(s + t), x0 + i); // HERE\ntw::cp_commit(); out[i] = 1;", "exit_with_pending_copies", "not waited for"),
    "uncommitted_copy": ("tw::cp_async<4>(tw::shared_address(s + t), x0 + i); // HERE\ntw::cp_wait<0>(); out[i] = 1;", "exit_with_pending_copies", "not waited for"),
    "wild": ("out[i] = *(volatile float *)(0x1000ul + (unsigned long)x0[i]); // HERE", "crash", "no buffer"),
    "trap": ("if (t == 5) __builtin_trap(); // HERE\nout[i] = 1;", "crash", "illegal instruction"),
    "divide": ("out[i] = (float)(t / (n - 256)); // HERE", "undefined", "division by zero"),
    "stack": (
        "volatile float a[100000];\nfor (int k = 0; k < 100000; k++) a[k] = x0[i]; // HERE\nout[i] = a[t];",
        "crash", "local memory is over",
    ),
    "hang": ("for (volatile int k = 0; k < n;) { } // HERE\nout[i] = 1;", "timeout", "time limit"),
}  # fmt: skip
# Found without a line: what is wrong shows in memory only.
QUIET = {
    "unwritten": ("if (i != 7) out[i] = 1;", "uninitialized", "1 of 256 elements of the output are never written, the first at (7,)"),
    "shared_unwritten": ("out[i] = s[t] + 1;", "uninitialized", "256 elements of the output come from shared memory"),
    "workspace_unwritten": ("out[i] = ((float *)ws)[t] * 2;", "uninitialized", "come from workspace memory"),
    "no_barrier": ("s[t] = x0[i]; out[i] = s[63 - t];", "uninitialized", "come from shared memory"),
}  # fmt: skip
# Wrong numbers only when copies are lazy.
LATE = "tw::cp_async<4>(tw::shared_address(s + t), x0 + i); tw::cp_commit();\ntw::cp_wait<1>(); tw::sync(); out[i] = s[63 - t];\ntw::cp_wait<0>();"
# A second round overwrites what slower threads of the first still read: numbers are right by luck.
RACES = {
    "no_barrier": ("s[t] = x0[i]; // HERE\nout[i] = s[63 - t]; // HERE", "shared memory"),
    "second_round": ("for (int k = 0; k < 2; k++) {\ns[t] = x0[i]; // HERE\ntw::sync();\nout[i] = s[63 - t]; // HERE\n}", "shared memory"),
    "early_read_of_copy": (LATE.replace("s[63 - t];", "s[63 - t]; // HERE") + " // HERE", "shared memory"),
    "copy_over_readers": (
        "s[t] = x0[i]; tw::sync(); out[i] = s[63 - t]; // HERE\n"
        "tw::cp_async<4>(tw::shared_address(s + t), x0 + i); // HERE\ntw::cp_commit(); tw::cp_wait<0>();",
        "shared memory",
    ),
    "blocks": ("s[t] = x0[i];\nout[t] = s[t]; // HERE\nout[i] = x0[i];", "the output"),
    "warp_without_sync": ("s[t] = x0[i]; // HERE\nfloat v = tw::shuffle_xor(x0[i], 1); out[i] = s[t ^ 1] + 0 * v; // HERE", "shared memory"),
    "no_fence": (
        "((float *)ws)[64 + t] = x0[i]; // HERE\ntw::atomic_add((tw::u32 *)ws, 1u);\nout[i] = ((float *)ws)[64 + t]; // HERE",
        "the workspace",
    ),
}  # fmt: skip


def bodies(table: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: row[0] for name, row in table.items()}


QUIET_AND_LATE = {**bodies(QUIET), "late": LATE}


@pytest.fixture(scope="module")
def folder(cache: ArtifactCache) -> Path:
    return cache.root


@pytest.fixture(scope="module")
def plain(folder: Path) -> EmulatedKernel:
    return compiled({**bodies(PLAIN), **QUIET_AND_LATE}, folder)


def lines(table: dict[str, str], name: str) -> set[int]:
    """Kernel lines that bear the mark in one kernel."""
    first = line_of(table, name)
    marked = [n for n, x in enumerate(table[name].splitlines()) if "// HERE" in x]
    return {first + n - marked[0] for n in marked}


@pytest.mark.parametrize("name", PLAIN)
def test_bug_has_kind_line_and_thread(plain: EmulatedKernel, name: str) -> None:
    body, kind, message = PLAIN[name]
    for order in ORDERS if name != "hang" else ORDERS[:1]:
        report, _ = perform(plain, name, order, "eager" if order == "lifo" else "lazy", 0.5 if name == "hang" else 30)
        assert not report.ok
        assert report.output is None
        (bug,) = report.bugs
        assert bug.kind == kind, (order, bug)
        assert message in bug.message, (order, bug)
        assert bug.block is not None, (order, bug)
        assert bug.thread is not None, (order, bug)
        if "// HERE" in body:
            assert bug.line == line_of({**bodies(PLAIN), **QUIET_AND_LATE}, name), (order, bug)


def test_the_thread_named_is_the_one(plain: EmulatedKernel) -> None:
    for name, block, thread in (
        ("store_past_end", 3, 63),
        ("load_before", 0, 0),
        ("early_exit", None, 40),
        ("trap", None, 5),
    ):
        for order in ORDERS:
            (bug,) = perform(plain, name, order)[0].bugs
            assert bug.thread == (thread, 0, 0), (name, order, bug)
            assert bug.block == (block, 0, 0) or block is None, (name, order, bug)


def test_a_crash_is_told_without_its_line_where_the_compiler_is_gone(
    plain: EmulatedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert perform(plain, "trap")[0].bugs[0].line is not None
    monkeypatch.setenv("CXX", "no-such-compiler")
    (bug,) = perform(plain, "trap")[0].bugs
    assert (bug.kind, bug.line) == (PLAIN["trap"][1], None)


@pytest.mark.parametrize("name", QUIET)
def test_poison_shows_in_the_output(plain: EmulatedKernel, name: str) -> None:
    _, kind, message = QUIET[name]
    for order in ORDERS:
        report, _ = perform(plain, name, order)
        assert not report.ok
        (bug,) = report.bugs
        assert bug.kind == kind
        assert message in bug.message or name == "no_barrier"


def test_a_wait_too_few_shows_when_copies_are_lazy(plain: EmulatedKernel) -> None:
    for order in ORDERS:
        assert not perform(plain, "late", order, "lazy")[0].ok
        report, output = perform(plain, "late", order, "eager")
        assert report.ok
        np.testing.assert_array_equal(output, reversed_blocks(numbers()))


def test_an_early_launch_waits_for_the_ones_before_it(folder: Path) -> None:
    """Inputs may be read before; what a launch before may still write, results among it, must be waited for."""
    first = "tw::grid_launch(); tw::store_global((float *)ws + i, x0[i]);"
    waits = "tw::grid_wait(); tw::store_global(out + i, tw::load_written<float>((float *)ws + i));"
    reads = "const float v = tw::load_global<float>((float *)ws + i); tw::grid_wait(); tw::store_global(out + i, v);"
    writes = "tw::store_global(out + i, tw::load_global<float>(x0 + i)); tw::grid_wait();"
    kernel = compiled({"first": first, "waits": waits, "reads": reads, "writes": writes}, folder)
    before = program("first").launches[0]
    for name, ends in (("waits", ""), ("reads", "read at"), ("writes", "write at")):
        for is_early in (True, False):
            behind = replace(program(name).launches[0], early=is_early)
            output = np.empty(256, np.float32)
            both = LaunchProgram((before, behind), workspace=1024)
            report = run(kernel, both, {"n": 256}, [numbers()], output)
            assert report.ok == (not is_early or not ends), (name, report.bugs)
            if report.ok:
                np.testing.assert_array_equal(output, numbers())
            else:
                assert ends in report.bugs[0].message
                assert "before grid_wait" in report.bugs[0].message


def test_writes_next_to_a_buffer(folder: Path) -> None:
    # Without a sanitizer, and too close to the buffer for the guard page: found after the launch.
    kernel = compiled({"k": "out[i] = x0[i];\nif (i == 255) out[n] = 1;"}, folder)
    report, _ = perform(kernel, "k", "lifo")
    assert [b.kind for b in report.bugs] == ["out_of_bounds_global"]
    assert "next to the output" in report.bugs[0].message


def test_a_program_that_dies_is_a_crash(folder: Path) -> None:
    kernel = compiled({"k": 'out[i] = 1;\n__asm__ volatile("mov $231, %eax; mov $9, %edi; syscall");'}, folder)
    report, _ = perform(kernel, "k")
    assert [b.kind for b in report.bugs] == ["crash"]
    assert "ended with status 9" in report.bugs[0].message


# ------------------------------------------------------------------ sanitizers


def checked(report: Report) -> Report:
    if report.unchecked:
        pytest.skip(report.unchecked)
    return report


SANITIZED = {
    "store_past_end": ("out[i + 1] = x0[i]; // HERE", "out_of_bounds_global", "past the end of the output"),
    "load_before": ("out[i] = x0[i - 1]; // HERE", "out_of_bounds_global", "before input 0"),
    "input_written": ("((float *)x0)[i] = 1; // HERE\nout[i] = 1;", "out_of_bounds_global", "an input"),
    "shared_past_end": ("s[2 * t + 2] = x0[i]; // HERE\nout[i] = s[t];", "out_of_bounds_shared", "byte 512 of 512"),
    "local": ("float a[4];\nfor (int k = 0; k <= t % 5; k++) a[k] = x0[i]; // HERE\nout[i] = a[0];", "undefined", "out of bounds"),
    "heap_of_local": (
        'float a[4] = {};\nfloat *p = a;\n__asm__("" : "+r"(p) :: "memory");\nout[i] = p[n / 64]; // HERE',
        "undefined", "local array",
    ),
    "overflow": ("out[i] = (float)(2147483647 - 60 + t + n); // HERE", "undefined", "signed integer overflow"),
    "shift": ("out[i] = (float)(1 << (t + n)); // HERE", "undefined", "shift exponent"),
    "misaligned": ("*(float *)((char *)out + 4 * i + (i == 3)) = 1; // HERE", "misaligned", "misaligned address"),
    "early_exit": ("if (t == 40) return;\ntw::sync(); // HERE\nout[i] = 1;", "divergence", "have exited"),
    "stack": (
        "volatile float a[100000];\nfor (int k = 0; k < 100000; k++) a[k] = x0[i]; // HERE\nout[i] = a[t];",
        "crash", "local memory is over",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sanitized(folder: Path) -> EmulatedKernel:
    return compiled(bodies(SANITIZED), folder, ("address", "undefined"))


@pytest.mark.parametrize("name", SANITIZED)
def test_address_and_undefined(sanitized: EmulatedKernel, name: str) -> None:
    _, kind, message = SANITIZED[name]
    for order in ORDERS if "out_of_bounds" in kind else ORDERS[:1]:  # each places buffers differently
        report = checked(perform(sanitized, name, order)[0])
        assert not report.ok
        bug = report.bugs[0]
        assert bug.kind == kind, (order, report.bugs)
        assert message in bug.message, (order, bug)
        assert bug.line == line_of(bodies(SANITIZED), name), (order, bug)
        assert bug.block is not None
        assert bug.thread is not None


def test_undefined_behaviour_alone_is_found(folder: Path) -> None:
    table = {name: SANITIZED[name][0] for name in ("overflow", "shift")}
    kernel = compiled(table, folder, ("undefined",))
    for name in table:
        (bug,) = checked(perform(kernel, name)[0]).bugs
        assert (bug.kind, bug.line, bug.block, bug.thread) == ("undefined", line_of(table, name), (0, 0, 0), (0, 0, 0))


@pytest.fixture(scope="module")
def racy(folder: Path) -> EmulatedKernel:
    return compiled(bodies(RACES), folder, ("thread",))


@pytest.mark.parametrize("name", RACES)
def test_races_are_found(racy: EmulatedKernel, name: str) -> None:
    where = lines(bodies(RACES), name)
    # Each thread is a fiber of the sanitizer, which takes a while: two blocks, each of two warps.
    for order, copies in (("fifo", "lazy"), ("random:1", "eager"))[: 2 if "copy" in name else 1]:
        report = checked(perform(racy, name, order, copies, blocks=2)[0])
        races = [b for b in report.bugs if b.kind == "race"]
        assert races, (order, report.bugs)
        bug = races[0]
        assert bug.line in where, (order, bug)
        assert RACES[name][1] in bug.message
        assert set(map(int, re.findall(r"line (\d+)", bug.message))) <= where, (order, bug)
        assert bug.block is not None
        assert bug.thread is not None


def test_race_between_blocks_that_are_not_resident_together(folder: Path) -> None:
    kernel = compiled(bodies(RACES), folder, ("thread",))
    size = 32 * 64
    output = np.empty(size, np.float32)
    report = checked(run(kernel, program("blocks", 32), {"n": size}, [numbers(size)], output, order="random:5"))
    assert {b.kind for b in report.bugs} == {"race"}
    # A block whose fibers another one took over cannot be named.
    assert report.bugs[0].message.count("block") == 1


def test_a_hang_under_the_thread_sanitizer_is_ended(folder: Path) -> None:
    kernel = compiled(
        {"k": "volatile int *p = (volatile int *)ws; while (*p != 5) { }\nout[i] = 1;"}, folder, ("thread",)
    )
    report = checked(perform(kernel, "k", timeout=0.5)[0])  # of itself it would never end
    assert "timeout" in {b.kind for b in report.bugs}


# ------------------------------------------------------------------ sanitizers that are not there


def test_a_compiler_without_the_sanitizer(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "cxx"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *sanitize=thread*) echo "ld: error: cannot find -ltsan" >&2; exit 1;; esac\nexec g++ "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    kernel = compiled({"k": "out[i] = 27;"}, folder, ("thread",))
    assert "cannot find -ltsan" in kernel.unchecked
    report, _ = perform(kernel, "k")
    assert (report.ok, report.bugs, report.unchecked) == (False, (), kernel.unchecked)


@pytest.mark.parametrize(
    "says",
    [
        "FATAL: ThreadSanitizer: unexpected memory mapping 0x5f0000000000-0x5f0000001000",
        "==7==ERROR: AddressSanitizer failed to allocate 0x1000 bytes of shadow memory",
        "kernel: error while loading shared libraries: libtsan.so.2: cannot open shared object file",
    ],
)
def test_a_sanitizer_that_cannot_run_is_never_clean(tmp_path: Path, says: str) -> None:
    program_ = tmp_path / "program"
    program_.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 66\n")
    program_.chmod(0o755)
    kernel = EmulatedKernel(str(program_), ("k",), ("thread",))
    report, _ = perform(kernel, "k")
    assert not report.ok
    assert not report.bugs
    assert report.unchecked


def test_setarch_that_may_not_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As in containers that forbid it: the program is tried without.
    module = __import__("tilewright.backends.emulator.run", fromlist=["_prefixes"])
    script = tmp_path / "setarch"
    script.write_text("#!/bin/sh\necho 'setarch: failed to set personality to x86_64: not permitted' >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(module, "_prefixes", lambda: ((str(script), "-R"), ()))
    report, _ = perform(replace(compiled(bodies(RACES), folder), sanitize=("thread",)), "second_round")
    assert report.ok, report.bugs  # it ran, on a build without the sanitizer


# ------------------------------------------------------------------ reports


def test_reports_are_json(plain: EmulatedKernel) -> None:
    report, _ = perform(plain, "store_past_end")
    (bug,) = report.to_json()["bugs"]
    assert bug["kind"] in KINDS
    assert (bug["block"], bug["thread"]) == ([3, 0, 0], [63, 0, 0])
    assert str(report.bugs[0]).startswith(
        f"out_of_bounds_global (line {bug['line']}, block (3, 0, 0), thread (63, 0, 0)): "
    )
    assert str(Bug("crash", "gone")) == "crash: gone"


def test_undefined_behaviour_in_a_helper_names_the_kernels_line() -> None:
    text = """emulator: thread 1 0 0 5 0 0
prelude:12:30: runtime error: signed integer overflow
    #0 0x55d0 in tw::helper(int, int) prelude:12
    #1 0x55d1 in my_kernel /somewhere/kernel:34
    #2 0x55d2 in emu_call_k entries:3
"""
    (bug,) = parse_sanitizers(text)
    assert bug == Bug("undefined", "signed integer overflow", 34, (1, 0, 0), (5, 0, 0))
