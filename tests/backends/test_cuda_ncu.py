"""Nsight Compute as it prints, misses names and refuses: what is read of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripted_ncu import H100, ScriptedNcu
from tilewright.backends.cuda.ncu import QUANTITIES, NoCounters, Profiler, find_profiler, parse
from tilewright.core import TilewrightError

PRINTED = """==PROF== Connected to process 21 (/usr/bin/python3.11)
a word of the program's own
==PROF== Profiling "tw_a" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 21
"ID","Process ID","Kernel Name","Grid Size","sm__cycles_elapsed.max","dram__bytes.sum","launch__registers_per_thread"
"","","","","cycle","byte","register/thread"
"0","21","tw_a","(132, 1, 1)","1,234,567","4,096.50","n/a"
"1","21","void tw_b(const float *, float *)","(1, 1, 1)","12","","255"
==WARNING== Found outstanding GPU clock reset, trying to revert...Success.
"""
TWO = ("tw_a", "tw_a_b")
DEADLINE = 30.0


def read(ncu: ScriptedNcu, profiler: Profiler | None = None, *command: str) -> dict[str, dict[str, float]]:
    profiler = profiler or Profiler(str(ncu.program))
    found = profiler.counters(command or ("/bin/true",), dict(os.environ), DEADLINE)
    return {x.kernel: dict(x.values) for x in found}


def keys(known: tuple[str, ...] = tuple(H100)) -> set[str]:
    """What can be read where these names are known."""
    return {q.key for q in QUANTITIES if any(n in known for n in q.names)}


def test_a_table_has_units_thousands_and_unknown_values_and_stands_among_messages() -> None:
    a, b = parse(PRINTED)
    assert (a.kernel, dict(a.values)) == ("tw_a", {"cycles": 1234567.0, "dram_bytes": 4096.5})
    assert (b.kernel, dict(b.values)) == ("void tw_b", {"cycles": 12.0, "registers": 255.0})
    assert parse("==PROF== Connected\n==WARNING== No kernels were profiled.\n") == ()
    assert parse('"ID","Process ID"\n"",""\n"0","1"\n') == ()


@pytest.mark.parametrize("unknown", ["named", "n/a"])
def test_names_that_are_not_known_are_replaced_by_others_and_not_asked_again(tmp_path: Path, unknown: str) -> None:
    ncu = ScriptedNcu(tmp_path, TWO, unknown=unknown)
    profiler = Profiler(str(ncu.program))
    found = read(ncu, profiler)
    assert set(found) == set(TWO)
    assert set(found["tw_a"]) == keys()
    assert (found["tw_a"]["fma"], found["tw_a"]["instructions"]) == (0.52, 21_504_000.0)
    assert "fp64" not in found["tw_a"], "none of its names is known"
    first = len(ncu.asked)
    assert set(read(ncu, profiler)["tw_a"]) == keys()
    assert len(ncu.asked) == first + 1
    assert set(ncu.asked[-1]) <= set(H100)


def test_one_that_does_not_say_which_name_it_misses_costs_that_names_group(tmp_path: Path) -> None:
    known = {name: value for name, value in H100.items() if not name.startswith("dram__bytes")}
    firsts = {q.names[0]: H100.get(q.names[0], ("%", "1.00")) for q in QUANTITIES if q.names[0] in known}
    ncu = ScriptedNcu(tmp_path, TWO, known=firsts, unknown="silent")
    profiler = Profiler(str(ncu.program))
    found = read(ncu, profiler)["tw_a_b"]
    lost = {q.group for q in QUANTITIES if q.names[0] not in firsts}
    assert lost == {"pipes", "shared", "dram"}
    assert set(found) == {q.key for q in QUANTITIES if q.group not in lost}


def test_counters_that_the_system_keeps_to_itself_are_an_error_with_what_to_do(tmp_path: Path) -> None:
    ncu = ScriptedNcu(tmp_path, TWO, denied=True)
    with pytest.raises(NoCounters, match="ERR_NVGPUCTRPERM") as error:
        read(ncu)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in error.value.hint
    assert len(ncu.asked) == 1


def test_a_program_that_launches_nothing_is_said_to(tmp_path: Path) -> None:
    ncu = ScriptedNcu(tmp_path, (), known=dict.fromkeys((n for q in QUANTITIES for n in q.names), ("", "1")))
    with pytest.raises(TilewrightError, match="No kernels were profiled"):
        read(ncu)


def test_what_hangs_is_stopped(tmp_path: Path) -> None:
    ncu = ScriptedNcu(tmp_path, TWO)
    with pytest.raises(TilewrightError, match=r"ncu took more than 0\.3 s"):
        Profiler(str(ncu.program)).counters(("/bin/sleep", "60"), dict(os.environ), 0.3)


def test_one_that_is_missing_or_no_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_NCU", str(tmp_path / "none"))
    with pytest.raises(NoCounters, match=r"TILEWRIGHT_NCU=.*none is not a program"):
        find_profiler()
    bad = tmp_path / "ncu"
    bad.write_text("not a program")
    bad.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_NCU", str(bad))
    with pytest.raises(NoCounters, match="does not start"):
        find_profiler().counters(("/bin/true",), dict(os.environ), DEADLINE)
    monkeypatch.delenv("TILEWRIGHT_NCU")
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert find_profiler().tool.endswith("/ncu")
