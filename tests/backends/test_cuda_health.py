"""What nvidia-smi says of GPUs, in its own form: identity, health, and what makes a time void."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripted_smi import BUS, GPU, H200, ScriptedSmi, ask, stub_driver
from tilewright.backends.cuda import health as module
from tilewright.backends.cuda.health import (
    GpuFacts,
    Health,
    MigDevice,
    Smi,
    disturbances,
    identify,
    parse_facts,
    parse_list,
    parse_processes,
    throttle,
)

NEWEST = (
    "uuid", "pci.bus_id", "name", "driver_version", "memory.total", "power.limit", "mig.mode.current",
    "persistence_mode", "ecc.errors.uncorrected.volatile.total",
    "clocks_event_reasons.active", "clocks_event_reasons_counters.sw_thermal_slowdown",
    "clocks_event_reasons_counters.hw_thermal_slowdown", "clocks_event_reasons_counters.hw_power_brake_slowdown",
)  # fmt: skip
R470 = (*NEWEST[:9], "clocks_throttle_reasons.active")

H200_ROW = (
    f"{GPU}, 00000000:1B:00.0, NVIDIA H200, 570.133.20, 143771, 700.00, Disabled, Enabled, 0, "
    "0x0000000000000004, 1500, 0, 0\n"
)
A100_ROW = (
    "GPU-fcf41002-68b6-5900-d7d1-74026173bb44, 00000000:07:00.0, NVIDIA A100-SXM4-40GB, 470.199.02, 40536, 400.00, "
    "Enabled, Disabled, 0, 0x0000000000000001\n"
)
RTX_ROW = (
    "GPU-1b9f2c44-9d3e-7a10-0c55-9e1f20ab7711, 00000000:01:00.0, NVIDIA GeForce RTX 3050 Laptop GPU, 535.183.01, 4096, "
    "[N/A], [N/A], Disabled, [N/A], 0x0000000000000001, [N/A], [N/A], [N/A]\n"
)
OLD_RTX_ROW = (
    "GPU-1b9f2c44-9d3e-7a10-0c55-9e1f20ab7711, 00000000:01:00.0, NVIDIA GeForce RTX 2070, 470.199.02, 7982, "
    "[Not Supported], N/A, [Unknown Error], [GPU requires reset], [Not Supported]\n"
)
A100_LIST = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-fcf41002-68b6-5900-d7d1-74026173bb44)
  MIG 3g.20gb     Device  0: (UUID: MIG-e07a497d-1bb6-5a42-b670-1c33bf55ab6e)
  MIG 1g.5gb+me   Device  1: (UUID: MIG-90155500-9a09-5016-9746-95ef09bd78a6)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-ce5b3123-f4f2-6250-8428-40617e5f9b9d)
  MIG 7g.40gb     Device  0: (UUID: MIG-GPU-ce5b3123-f4f2-6250-8428-40617e5f9b9d/0/0)
"""


# --------------------------------------------------------------------------- reading


def test_a_data_centre_gpu() -> None:
    (g,) = parse_facts(H200_ROW)
    assert (g.uuid, g.bus_id, g.name, g.driver) == (GPU, "00000000:1B:00.0", "NVIDIA H200", "570.133.20")
    assert g.memory == 143771 << 20
    assert (g.power_limit, g.mig, g.persistence) == (700.0, False, True)
    assert g.ecc_uncorrected == 0
    assert g.reasons == ("sw_power_cap",)
    assert dict(g.slowed) == {"sw_thermal_slowdown": 1500, "hw_thermal_slowdown": 0, "hw_power_brake_slowdown": 0}


def test_an_older_driver_and_mig() -> None:
    (g,) = parse_facts(A100_ROW, R470)
    assert g.mig
    assert g.persistence is False
    assert (g.memory, g.power_limit) == (40536 << 20, 400.0)
    assert g.reasons == ("gpu_idle",)
    assert g.slowed == ()
    assert parse_list(A100_LIST) == (
        MigDevice("MIG-e07a497d-1bb6-5a42-b670-1c33bf55ab6e", "3g.20gb", g.uuid),
        MigDevice("MIG-90155500-9a09-5016-9746-95ef09bd78a6", "1g.5gb+me", g.uuid),
        MigDevice(
            "MIG-GPU-ce5b3123-f4f2-6250-8428-40617e5f9b9d/0/0", "7g.40gb", "GPU-ce5b3123-f4f2-6250-8428-40617e5f9b9d"
        ),
    )


def test_a_consumer_gpu_tells_less() -> None:
    (g,) = parse_facts(RTX_ROW)
    assert g.name == "NVIDIA GeForce RTX 3050 Laptop GPU"
    assert (g.power_limit, g.ecc_uncorrected, g.mig, g.slowed) == (None, None, False, ())
    (g,) = parse_facts(OLD_RTX_ROW, R470)
    assert (g.mig, g.persistence, g.reasons) == (False, None, None)
    assert g.memory == 7982 << 20


def test_several_gpus_and_lines_that_are_none() -> None:
    text = f"{H200_ROW}\nUnable to determine the device handle for GPU1: 0000:2B:00.0: GPU is lost.\n{RTX_ROW}"
    assert [g.name for g in parse_facts(text)] == ["NVIDIA H200", "NVIDIA GeForce RTX 3050 Laptop GPU"]


def test_processes_of_a_gpu_are_listed() -> None:
    assert parse_processes(f"4711, {GPU}\n 4712 , {GPU}\n") == {(4711, GPU), (4712, GPU)}
    assert parse_processes("[N/A], GPU-x\n\nNo running processes found\n") == frozenset()


FIELDS = (
    "", "N/A", "[N/A]", "0", "-1", "1e999", "nan", "0x10", "1,5", "\u0663", "9" * 40, "P0", "Enabled", "\n", "\0", GPU,
)  # fmt: skip
"""Words, good and bad, that a row may be made of."""


@given(st.text() | st.lists(st.sampled_from(FIELDS), min_size=len(NEWEST), max_size=len(NEWEST)).map(", ".join))
def test_nothing_that_is_printed_is_an_error(text: str) -> None:
    for g in parse_facts(text):
        assert g.uuid
    parse_list(text)
    parse_processes(text)


# --------------------------------------------------------------------------- asking


def test_no_program_is_no_error(tmp_path: Path) -> None:
    for name in (str(tmp_path / "nvidia-smi"), str(tmp_path)):
        smi = Smi(name)
        assert (smi.gpus(), smi.mig_devices(), smi.health(BUS)) == ((), (), None)


@pytest.mark.parametrize("body", ["exit 9", "echo NVIDIA-SMI has failed; exit 0", "kill -9 $$", "printf '\\377\\n'"])
def test_a_program_that_fails_is_no_error(script: Callable[[str, str], Path], body: str) -> None:
    smi = Smi(str(script("nvidia-smi", body)))
    assert (smi.gpus(), smi.mig_devices(), smi.health(BUS)) == ((), (), None)


def test_a_program_that_hangs_is_given_up(script: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    assert Smi(str(script("nvidia-smi", "exec sleep 60"))).gpus() == ()


def test_one_gpu_is_asked_for_by_its_address(tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    (g,) = Smi(str(smi.program)).gpus(BUS)
    assert g == parse_facts(H200_ROW)[0]
    assert f"--id={BUS}" in smi.asked[0]
    assert Smi(str(smi.program)).gpus("0000:1C:00.0") == ()  # another than was asked for


def test_fields_that_a_driver_does_not_know_are_left_out(tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    known = {k: v for k, v in H200.items() if "event_reasons" not in k} | {"clocks_throttle_reasons.active": "0x40"}
    smi.state("old", known)
    smi.go("old")
    asking = Smi(str(smi.program))
    (g,) = asking.gpus()
    assert g.reasons == ("hw_thermal_slowdown",)
    assert g.slowed == ()
    asking.gpus()
    assert len(smi.asked) == 6  # four refusals, once


def test_health_counts_the_processes_of_the_device_only(tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    smi.state("busy", H200, [10, 11])
    smi.go("busy")
    asking = Smi(str(smi.program))
    found = asking.health(BUS)
    assert found is not None
    assert found.processes == {10, 11}
    sliced = asking.health(BUS, "MIG-e07a497d-1bb6-5a42-b670-1c33bf55ab6e")
    assert sliced is not None
    assert sliced.processes == frozenset()


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub_driver(tmp_path_factory.mktemp("stub"))


def test_a_slice_is_known_by_its_own_uuid(stub: Path, tmp_path: Path) -> None:
    smi = ScriptedSmi(tmp_path / "bin")
    smi.state("mig", dict(zip(R470, A100_ROW.strip().split(", "), strict=True)))
    smi.go("mig")
    (smi.folder / "list").write_text(A100_LIST)
    asked = "dataclasses.asdict(identify(0, '0000:07:00.0', 'NVIDIA A100-SXM4-40GB MIG 3g.20gb'))"
    found = ask(stub, smi, asked)
    assert (found["uuid"], found["profile"]) == ("MIG-e07a497d-1bb6-5a42-b670-1c33bf55ab6e", "3g.20gb")
    assert found["facts"]["name"] == "NVIDIA A100-SXM4-40GB"
    smi.go("gone")  # CUDA still tells
    found = ask(stub, smi, asked)
    assert (found["uuid"], found["profile"], found["facts"]) == (
        "MIG-e07a497d-1bb6-5a42-b670-1c33bf55ab6e", "3g.20gb", None,
    )  # fmt: skip


def test_without_any_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "device_uuid", lambda _: "")
    smi = ScriptedSmi(tmp_path / "bin")
    assert identify(0, BUS, "NVIDIA H200", Smi(str(smi.program))).uuid == GPU
    assert identify(0, BUS, "NVIDIA H200", Smi(str(tmp_path / "none"))).uuid == ""


# --------------------------------------------------------------------------- judging

WELL = Health(parse_facts(H200_ROW)[0], frozenset({1, 2}))


def changed(processes: frozenset[int] = frozenset({1, 2}), **facts: Any) -> Health:
    return Health(replace(WELL.facts, **facts), processes)


def test_a_device_at_its_power_limit_is_well() -> None:
    assert disturbances(WELL, WELL, {1, 2}) == ()
    limits = ("sw_power_cap", "sync_boost", "applications_clocks_setting", "display_clock_setting")
    after = changed(reasons=limits)
    assert disturbances(WELL, after, {1, 2}) == ()
    assert set(throttle(WELL.facts, after.facts)) == set(limits)
    assert throttle(changed(reasons=("gpu_idle",)).facts, changed(reasons=None).facts) == ()


@pytest.mark.parametrize(
    "name", ["hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"]
)
def test_throttling_makes_a_time_void(name: str) -> None:
    (reason,) = disturbances(WELL, changed(reasons=("sw_power_cap", name)), {1, 2})
    assert reason == f"the clocks were held down ({name})"


def test_clocks_that_wake_up_are_no_slowdown() -> None:
    """NVIDIA: the unspecified slowdown is also reported while a performance state changes."""
    assert disturbances(changed(reasons=("hw_slowdown",)), WELL, {1, 2}) == ()
    assert disturbances(changed(reasons=("hw_thermal_slowdown",)), WELL, {1, 2}) != ()


def test_throttling_between_two_looks_shows_in_the_counters() -> None:
    after = changed(slowed=(("sw_thermal_slowdown", 1500), ("hw_power_brake_slowdown", 250)))
    assert disturbances(WELL, after, {1, 2}) == ("the clocks were held down (hw_power_brake_slowdown)",)
    new = changed(slowed=(("a_later_reason", 5),))
    assert disturbances(WELL, new, {1, 2}) == ()  # not counted before: nothing to compare with


def test_new_memory_errors_make_a_time_void() -> None:
    assert disturbances(WELL, changed(ecc_uncorrected=2), {1, 2}) == ("2 uncorrected memory errors (ECC)",)
    old = changed(ecc_uncorrected=2)
    assert disturbances(old, old, {1, 2}) == ()
    assert disturbances(old, changed(ecc_uncorrected=None), {1, 2}) == ()


def test_another_process_makes_a_time_void() -> None:
    came = changed(processes=frozenset({1, 2, 77}))
    for before, after in ((WELL, came), (came, WELL)):
        assert disturbances(before, after, {1, 2}) == ("1 other process came to compute there: 77",)


def test_what_is_not_told_is_not_held_against_it() -> None:
    little = Health(GpuFacts(GPU, BUS, "NVIDIA GeForce RTX 4090"))
    assert disturbances(little, little) == ()
