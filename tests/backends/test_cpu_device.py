"""Devices, their locks, and reasons to distrust a measurement."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.waiting import until
from tilewright.backends import cores as cores_module
from tilewright.backends import locks
from tilewright.backends.cores import affinity, available_cores, cpu_quota, format_cores, parse_cores, throttling
from tilewright.backends.cpu import device, noise
from tilewright.backends.cpu.device import describe_machine, device_model, parse_device, parse_model
from tilewright.backends.cpu.noise import governor_warning, load_warnings, noise_warnings, on_battery
from tilewright.backends.locks import DeviceLock, Holder, lock_folder
from tilewright.core import Device, TilewrightError, UsageError

# ---------------------------------------------------------------- names


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that lets this process have cores 0-3 and 8-11."""
    for module in (device, cores_module, noise):
        monkeypatch.setattr(module, "affinity", lambda: (0, 1, 2, 3, 8, 9, 10, 11))


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(
    ("text", "threads", "name", "cores"),
    [
        ("auto", 1, "cpu:0", (0,)),
        ("cpu", 5, "cpu:0-3,8", (0, 1, 2, 3, 8)),
        ("cpu:2", 1, "cpu:2", (2,)),
        ("cpu:8-10", 2, "cpu:8-10", (8, 9, 10)),
        ("cpu:3,1,2", 3, "cpu:1-3", (1, 2, 3)),
        ("cpu:0,0-1", 1, "cpu:0-1", (0, 1)),
    ],
)
def test_names_of_devices_are_read(text: str, threads: int, name: str, cores: tuple[int, ...]) -> None:
    d = parse_device(text, threads)
    assert isinstance(d, Device)
    assert (d.name, d.cores, d.kind, d.model) == (name, cores, "cpu", device_model())
    assert parse_device(d.name, threads) == d


@pytest.mark.usefixtures("eight")
@pytest.mark.parametrize(
    ("text", "threads", "message"),
    [
        ("gpu:0", 1, "unknown device"),
        ("cpu:", 1, "unknown device"),
        ("cpu:0-", 1, "unknown device"),
        ("cpu:-1", 1, "unknown device"),
        ("cpu:0;1", 1, "unknown device"),
        ("", 1, "unknown device"),
        ("cpu:4", 1, "may not use: 4"),
        ("cpu:2-9", 1, "may not use: 4-7"),
        ("cpu:3-1", 1, "may not use"),
        ("cpu:0-4000000000", 1, "may not use"),
        ("cpu:0", 2, "2 threads do not fit on cpu:0"),
        ("auto", 9, "9 threads do not fit on 8"),
        ("auto", 0, "0 threads"),
    ],
)
def test_impossible_devices_are_refused(text: str, threads: int, message: str) -> None:
    with pytest.raises(UsageError, match=message) as e:
        parse_device(text, threads)
    assert e.value.hint


def test_lists_of_cores_are_read() -> None:
    assert format_cores([]) == ""
    assert format_cores([5, 1, 2, 0, 7, 8]) == "0-2,5,7-8"
    assert parse_cores("0-2,5,7-8") == (0, 1, 2, 5, 7, 8)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("model name\t: AMD EPYC\ncpu family\t: 26\nmodel\t\t: 2\n", "AMD EPYC (family 26 model 2)"),
        ("CPU implementer\t: 0x41\nCPU part\t: 0xd40\n", "implementer 0x41 part 0xd40"),
        ("model name : ARMv8\nCPU implementer : 0x41\nCPU part : 0xd40\n", "ARMv8 (implementer 0x41 part 0xd40)"),
        ("processor : 0\n", ""),
    ],
)
def test_models_of_processors_are_read(text: str, model: str) -> None:
    assert parse_model(text) == model


# ---------------------------------------------------------------- quotas


def _files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize(
    ("files", "membership", "quota"),
    [
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),
        ({"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "max 100000\n"}, "0::/a/b\n", 0.5),
        ({"a/cpu.max": "400000 100000\n", "a/b/cpu.max": "200000 100000\n"}, "0::/a/b\n", 2.0),
        ({"cpu.max": "300000 100000\n"}, "0::/../outside\n", 3.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "4:cpu,cpuacct:/\n", None),
        ({"cpu/x/cpu.cfs_quota_us": "250000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, "4:cpu:/x\n", 2.5),
        ({"cpu,cpuacct/cpu.cfs_quota_us": "70000\n", "cpu,cpuacct/cpu.cfs_period_us": "50000\n"}, "4:cpu,cpuacct:/y\n", 1.4),
        ({"cpu.max": "nonsense\n"}, "0::/\n", None),
        ({}, "", None),
    ],
)  # fmt: skip
def test_a_containers_quota_of_processors_is_read(
    tmp_path: Path, files: dict[str, str], membership: str, quota: float | None
) -> None:
    _files(tmp_path, files)
    assert cpu_quota(tmp_path, membership) == quota


def test_quota_bounds_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores_module, "affinity", lambda: tuple(range(8)))
    for quota, cores in ((None, 8), (0.3, 1), (2.0, 2), (2.9, 2), (64.0, 8)):
        monkeypatch.setattr(cores_module, "cpu_quota", lambda quota=quota: quota)
        assert available_cores() == cores


def test_throttling_of_a_container_is_noticed(tmp_path: Path) -> None:
    _files(tmp_path, {"cpu.stat": "usage_usec 5\nnr_throttled 7\nthrottled_usec 2500000\n"})
    assert (throttling(tmp_path, "0::/\n").periods, throttling(tmp_path, "0::/\n").seconds) == (7, 2.5)
    _files(tmp_path, {"cpu.stat": "nr_throttled 3\nthrottled_time 1500000000\n"})
    assert throttling(tmp_path, "0::/\n").seconds == 1.5
    assert throttling(tmp_path / "absent", "").periods == 0


# ---------------------------------------------------------------- noise

IDLE = "cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 100 0 50 1000 10 0 0 0 0 0\ncpu1 100 0 50 1000 10 0 0 0 0 0\n"


def test_busy_and_stolen_cores() -> None:
    later = "cpu0 108 0 50 1012 10 0 0 0 0 0\ncpu1 100 0 50 1018 10 0 0 2 0 0\n"
    assert load_warnings(IDLE, later, (0, 1)) == [
        "core 0 is busy (40% with other work)",
        "the hypervisor takes 10% of core 1",
    ]
    assert load_warnings(IDLE, later, (7,)) == []
    assert load_warnings(IDLE, IDLE, (0, 1)) == []
    assert load_warnings("", "garbage\ncpuX 1 2\n", (0, 1)) == []


def test_a_quota_below_the_threads_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "cpu_quota", lambda: 1.5)
    monkeypatch.setattr(noise, "throttling", lambda: cores_module.Throttling(37, 2.0))
    assert noise.quota_warning(1) == "a quota holds this process to 1.5 cores, and has stopped it 37 times"
    monkeypatch.setattr(noise, "throttling", lambda: cores_module.Throttling(0, 0.0))
    assert noise.quota_warning(1) is None
    assert noise.quota_warning(2) == "a quota holds this process to 1.5 cores"
    monkeypatch.setattr(noise, "cpu_quota", lambda: None)
    assert noise.quota_warning(2) is None


def test_a_governor_that_saves_power_is_warned_of(tmp_path: Path) -> None:
    _files(tmp_path, {"cpu0/cpufreq/scaling_governor": "performance\n", "cpu1/cpufreq/scaling_governor": "powersave\n"})
    assert governor_warning((0,), tmp_path) is None
    assert governor_warning((5,), tmp_path) is None
    assert "core 1 is powersave" in (governor_warning((0, 1), tmp_path) or "")


def test_a_machine_on_battery_is_warned_of(tmp_path: Path) -> None:
    assert not on_battery(tmp_path / "absent")
    _files(
        tmp_path,
        {"AC/type": "Mains\n", "mouse/type": "Battery\n", "mouse/scope": "Device\n", "mouse/status": "Discharging\n"},
    )
    assert not on_battery(tmp_path)
    _files(tmp_path, {"BAT0/type": "Battery\n", "BAT0/status": "Charging\n"})
    assert not on_battery(tmp_path)
    _files(tmp_path, {"BAT0/status": "Discharging\n"})
    assert on_battery(tmp_path)


def test_warnings_of_this_machine() -> None:
    assert all(isinstance(w, str) and w and "\n" not in w for w in noise_warnings(sample=0.02))


def test_description_is_json_and_true() -> None:
    facts = json.loads(json.dumps(describe_machine(measure=False)))
    assert facts["target"] in facts["targets"]
    assert facts["affinity"] == list(affinity())
    assert 1 <= facts["available_cores"] <= facts["cores"]
    assert facts["compiler"]["version"]
    assert facts["peak_gflops"] is None


def test_description_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    facts = describe_machine()
    assert facts["compiler"] is None
    assert "/no/such/compiler" in facts["problems"][0]


def test_the_devices_description_measures_its_peak() -> None:
    facts = device.measure_machine(seconds=0.01)
    assert all(v > 0.1 for v in facts.values())
    assert set(facts) == {"peak_gflops", "read_gbytes", "copy_gbytes"}


# ---------------------------------------------------------------- locks


@dataclass(frozen=True)
class Fake:
    cores: tuple[int, ...]
    name: str = "cpu:fake"
    kind: str = "cpu"


HOLD = """
import sys
from pathlib import Path
from tilewright.backends.locks import DeviceLock
class D: name, cores = "cpu:x", tuple(int(c) for c in sys.argv[2].split(","))
with DeviceLock(D, folder=Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
print("free", flush=True)
"""


def _holder(folder: Path, cores: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", HOLD, str(folder), cores, "--secret\nname"]
    p = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert p.stdout is not None
    assert p.stdout.readline() == "held\n"
    return p


def test_waits_and_says_for_whom(tmp_path: Path) -> None:
    with _holder(tmp_path, "0,1") as p:
        told: list[Holder] = []

        def on_wait(holder: Holder) -> None:
            told.append(holder)
            assert p.stdin is not None
            p.stdin.write("\n")
            p.stdin.flush()

        with DeviceLock(Fake((1, 2)), on_wait, folder=tmp_path) as lock:
            assert lock.held
            assert [h.pid for h in told] == [p.pid]
            assert told[0].what == "core 1"
            assert "-c" in told[0].command
            text = str(told[0])
            assert f"process {p.pid}" in text
            assert "\n" not in text
        assert not lock.held
        assert p.wait() == 0
    assert p.returncode == 0


def test_timeout_names_the_holder(tmp_path: Path) -> None:
    with _holder(tmp_path, "0") as p:
        with pytest.raises(TilewrightError, match=f"in use: core 0 is held by process {p.pid}"):
            DeviceLock(Fake((0,)), timeout=0.05, folder=tmp_path).acquire()
        with DeviceLock(Fake((1,)), timeout=0, folder=tmp_path):
            pass  # another core is free
        p.kill()


def test_lock_goes_with_a_killed_holder(tmp_path: Path) -> None:
    with _holder(tmp_path, "0") as p:
        p.send_signal(signal.SIGKILL)
        p.wait()
    told: list[Holder] = []
    with DeviceLock(Fake((0,)), told.append, timeout=0, folder=tmp_path):
        assert told == []


def test_half_taken_cores_are_given_back(tmp_path: Path) -> None:
    with _holder(tmp_path, "1") as p:
        with pytest.raises(TilewrightError):
            DeviceLock(Fake((0, 1)), timeout=0, folder=tmp_path).acquire()
        with DeviceLock(Fake((0,)), timeout=0, folder=tmp_path):
            pass
        p.kill()


def test_threads_exclude_each_other_and_one_thread_cannot_wait_for_itself(tmp_path: Path) -> None:
    order: list[str] = []

    def other() -> None:
        with DeviceLock(Fake((0,)), lambda h: order.append(f"waits for {h.pid}"), folder=tmp_path):
            order.append("got it")

    with DeviceLock(Fake((0,)), folder=tmp_path):
        with pytest.raises(TilewrightError, match="this thread holds"):
            DeviceLock(Fake((0,)), folder=tmp_path).acquire()
        t = threading.Thread(target=other)
        t.start()
        until(lambda: order, pause=0.001)
        order.append("gives it up")
    t.join()
    assert order == [f"waits for {os.getpid()}", "gives it up", "got it"]


def test_lock_folder_of_someone_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "absent" / "below"):
        with pytest.raises(TilewrightError, match="lock folder"):
            DeviceLock(Fake((0,)), folder=bad).acquire()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(TilewrightError, match="someone else"):
        DeviceLock(Fake((0,)), folder=tmp_path / "link").acquire()
    monkeypatch.setattr(locks.os, "getuid", lambda: 54321)
    with pytest.raises(TilewrightError, match="someone else"):
        DeviceLock(Fake((0,)), folder=tmp_path / "real").acquire()


def test_damaged_holder_note(tmp_path: Path) -> None:
    with _holder(tmp_path, "0") as p:
        (tmp_path / "core-0.lock").write_bytes(b"\xff{not json")
        with pytest.raises(TilewrightError, match="holder unknown"):
            DeviceLock(Fake((0,)), timeout=0, folder=tmp_path).acquire()
        p.kill()


def test_folder_does_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = lock_folder()
    for name in ("TMPDIR", "XDG_RUNTIME_DIR", "HOME"):
        monkeypatch.setenv(name, "/nowhere")
    assert lock_folder() == before
    assert str(os.getuid()) in str(before)
