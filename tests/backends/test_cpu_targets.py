"""Targets: names, identity, flags, and what machines report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.backends.cpu import targets
from tilewright.backends.cpu.targets import (
    VARIANTS,
    available,
    detect,
    flags,
    host_arch,
    host_isa,
    parse_cpuinfo,
    parse_target,
    read_caches,
    runs_here,
)
from tilewright.core import Target, TargetUnavailable, UsageError

Machine = Callable[[str, set[str]], None]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Pretend to be another machine."""

    def pretend(arch: str, isa: set[str]) -> None:
        monkeypatch.setattr(targets, "host_arch", lambda: arch)
        monkeypatch.setattr(targets, "host_isa", lambda: frozenset(isa))

    return pretend


SKYLAKE = {"sse2", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"}
ICE_LAKE = SKYLAKE | {"avx512vnni"}
ZEN5 = ICE_LAKE | {"avx512bf16"}
PLAIN = ["cpu:avx512", "cpu:avx2", "cpu:portable"]


@pytest.mark.parametrize(
    ("arch", "isa", "best", "all_of_them"),
    [
        ("x86_64", ZEN5, "cpu:avx512bf16", ["cpu:avx512bf16", *PLAIN]),
        ("x86_64", ICE_LAKE, "cpu:avx512", PLAIN),
        ("x86_64", SKYLAKE, "cpu:avx512", PLAIN),
        ("x86_64", ZEN5 - {"avx512vl"}, "cpu:avx2", ["cpu:avx2", "cpu:portable"]),  # Knights Landing
        ("x86_64", {"sse2", "avx"}, "cpu:portable", ["cpu:portable"]),
        ("aarch64", {"neon", "fphp"}, "cpu:neon", ["cpu:neon", "cpu:portable"]),
        ("riscv64", set(), "cpu:portable", ["cpu:portable"]),
    ],
)
def test_the_best_target_of_a_machine_is_detected(
    machine: Machine, arch: str, isa: set[str], best: str, all_of_them: list[str]
) -> None:
    machine(arch, isa)
    assert detect().name == best
    assert [t.name for t in available()] == all_of_them
    for t in available(3):
        assert t.arch == arch
        assert t.threads == 3
        assert set(t.isa) <= isa
        assert parse_target(t.name, 3) == t
    assert parse_target("auto") == parse_target("cpu") == detect()


def test_this_machine_runs_its_targets() -> None:
    assert detect() == available()[0]
    assert all(runs_here(t) for t in available())
    assert set(detect().isa) <= host_isa()
    assert not runs_here(replace(detect(), arch="s390x"))
    assert not runs_here(replace(detect(), isa=(*detect().isa, "avx9000")))


def test_absent_target_says_what_is_missing(machine: Machine) -> None:
    machine("x86_64", {"sse2", "avx2", "fma", "f16c"})
    with pytest.raises(TargetUnavailable, match="lacks avx512bw, avx512dq, avx512f, avx512vl") as e:
        parse_target("cpu:avx512")
    assert "cpu:avx2" in e.value.hint
    with pytest.raises(TargetUnavailable, match="x86_64, not aarch64"):
        parse_target("cpu:neon")
    assert parse_target("cpu:neon", allow_foreign=True).arch == "aarch64"
    assert parse_target("cpu:avx512", allow_foreign=True).vector_bytes == 64


@pytest.mark.parametrize("text", ["avx2", "cpu:avx", "cpu:AVX2", "gpu", "cpu:avx2 ", "cuda:sm_90"])
def test_an_unknown_target_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="unknown target") as e:
        parse_target(text)
    assert "cpu:portable" in e.value.hint


@pytest.mark.parametrize("threads", [0, -1, True])
def test_impossible_numbers_of_threads_are_refused(threads: int) -> None:
    with pytest.raises(UsageError, match="threads"):
        parse_target("cpu", threads)


def test_cache_sizes_are_no_part_of_the_identity() -> None:
    t = detect()
    assert t.key == replace(t, l1_bytes=1, l2_bytes=2, l3_bytes=3).key
    assert t.key != replace(t, threads=2).key
    assert 8 << 10 <= t.l1_bytes <= t.l2_bytes <= t.l3_bytes


@pytest.mark.parametrize("family", ["gcc", "clang", "apple-clang"])
@pytest.mark.parametrize("variant", list(VARIANTS))
def test_flags_fix_the_instruction_set(variant: str, family: str) -> None:
    t = parse_target(f"cpu:{variant}", allow_foreign=True)
    got = flags(t, family)
    assert not any("native" in f or f in ("-Ofast", "-ffast-math", "-fopenmp", "-O3") for f in got)
    assert "-ffp-contract=fast" in got
    if t.arch == "x86_64":
        assert "-march=x86-64" in got
        assert [f[2:] for f in got if f[2:] in t.isa] == list(t.isa)
        assert ("-mprefer-vector-width=512" in got) == variant.startswith("avx512")
    else:
        assert not any("avx" in f or "sse" in f or "x86" in f or f == "-mfma" for f in got)


def test_portable_uses_the_baseline_alone() -> None:
    t = parse_target("cpu:portable")
    assert t.vector_bytes == 16
    if host_arch() == "x86_64":
        assert t.isa == ("sse2",)
        assert not any(f.startswith("-mavx") or f == "-mfma" for f in flags(t, "gcc"))


def test_cpuinfo_of_mixed_cores() -> None:
    text = "processor: 0\nflags\t\t: fpu sse2 avx2 avx512f\n\nprocessor: 1\nflags\t\t: fpu sse2 avx2\n"
    assert parse_cpuinfo(text) == {"fpu", "sse2", "avx2"}
    assert parse_cpuinfo("Features\t: fp asimd sve\n") == {"fp", "neon", "sve"}
    assert parse_cpuinfo("flags : avx512_bf16 avx512_vnni\n") == {"avx512bf16", "avx512vnni"}
    assert parse_cpuinfo("nothing of use\n") == frozenset()


def test_an_older_kernel_runs_on_a_richer_machine(machine: Machine) -> None:
    """A kernel for plain AVX-512 is another task's, but is still found and run."""
    machine("x86_64", ZEN5)
    rich, plain = detect(), parse_target("cpu:avx512")
    assert rich.key != plain.key
    assert runs_here(plain)
    machine("x86_64", ICE_LAKE)
    assert not runs_here(rich)
    with pytest.raises(TargetUnavailable, match="lacks avx512bf16"):
        parse_target("cpu:avx512bf16")


def _index(folder: Path, number: int, level: str, kind: str, size: str) -> None:
    index = folder / f"index{number}"
    index.mkdir(parents=True)
    for name, text in (("level", level), ("type", kind), ("size", size)):
        (index / name).write_text(text + "\n")


def test_targets_have_separate_cache_folders(tmp_path: Path) -> None:
    assert read_caches(tmp_path) is None
    _index(tmp_path, 0, "1", "Data", "48K")
    _index(tmp_path, 1, "1", "Instruction", "32K")
    _index(tmp_path, 2, "2", "Unified", "2M")
    assert read_caches(tmp_path) == (48 << 10, 2 << 20, 2 << 20)
    _index(tmp_path, 3, "3", "Unified", "32768K")
    assert read_caches(tmp_path) == (48 << 10, 2 << 20, 32 << 20)
    _index(tmp_path, 4, "x", "Unified", "?")
    assert read_caches(tmp_path) == (48 << 10, 2 << 20, 32 << 20)


def test_json_round_trip() -> None:
    assert Target.from_json(detect(2).to_json()) == detect(2)
