"""Identity and health of a GPU: facts, causes of slow clocks, other processes, and whether measured times are void
(:class:`Guard`).

Read only. ``nvidia-smi`` reports a GPU's identity, NVIDIA's management library (``nvml.py``) its state. If the library
fails, ``nvidia-smi`` reports the state too, which takes some tens of milliseconds. If both fail, the answer is ``None``
or empty, never an error.

:func:`disturbances` decides when a time is void, after NVIDIA's descriptions of its clock event reasons
("NVML API Reference Guide", group NvmlClocksEventReasons; `nvidia-smi --help-query-gpu`):

- hardware slowdowns (thermal, power brake, or unspecified) cut the clocks to a half or less: void;
- the software's thermal slowdown means that the device is hotter than it may run for long: void, as the time would
  differ on another day or beside cooler devices;
- the software's power cap keeps a device within its power limit, and busy kernels on a healthy device reach it
  all the time. The limit is part of the device's class, so it is recorded, not void. The settings (fixed
  clocks, sync boost, display clocks) are recorded too, as they also hold for the user's own runs.
"""

from __future__ import annotations

import csv
import ctypes
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.backends.cuda import nvml
from tilewright.backends.driver import Context
from tilewright.core import Pairs, Value
from tilewright.units import counted

PATIENCE = 10.0
"""Seconds after which nvidia-smi counts as hanging, as it does when a GPU has fallen off its bus."""

REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
"""Names of the bits of NVIDIA's clock event reasons."""

VOID = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")

_IDLE = "gpu_idle"

# Queried fields. Drivers differ in the fields that they support: a refused field is dropped, and its name before
# release 535 is tried instead.
_COUNTERS = "clocks_event_reasons_counters."
_FIELDS = (
    "uuid", "pci.bus_id", "name", "driver_version", "memory.total", "power.limit", "mig.mode.current",
    "persistence_mode", "ecc.errors.uncorrected.volatile.total",
    "clocks_event_reasons.active", f"{_COUNTERS}sw_thermal_slowdown", f"{_COUNTERS}hw_thermal_slowdown",
    f"{_COUNTERS}hw_power_brake_slowdown",
)  # fmt: skip
_OLDER = {"clocks_event_reasons.active": "clocks_throttle_reasons.active"}

_REFUSED = re.compile(r'Field "([^"]+)" is not a valid field to query')
_LISTED_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[^)]+)\)")
_LISTED_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)")


@dataclass(frozen=True)
class GpuFacts:
    """One GPU as nvidia-smi describes it; ``None`` for facts that it does not report.

    ``memory``: bytes; ``power_limit``: W; ``ecc_uncorrected``: errors since
    the driver was loaded; ``reasons``: names of the active clock event reasons; ``slowed``: microseconds
    so far of each reason that the driver counts.
    """

    uuid: str
    bus_id: str
    name: str
    driver: str = ""
    memory: int | None = None
    power_limit: float | None = None
    mig: bool = False
    persistence: bool | None = None
    ecc_uncorrected: int | None = None
    reasons: tuple[str, ...] | None = None
    slowed: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class MigDevice:
    """A slice of a GPU: ``profile`` is its size (``3g.20gb``), ``gpu`` the UUID of the whole."""

    uuid: str
    profile: str
    gpu: str


@dataclass(frozen=True)
class Health:
    """A device at one moment; ``processes``: ids of all processes that compute on it, this one included."""

    facts: GpuFacts
    processes: frozenset[int] = frozenset()


Probe = Callable[[], "Health | None"]
"""Reads the health of one device; ``None`` if that fails."""


# --------------------------------------------------------------------------- reading


def parse_facts(text: str, fields: Sequence[str] = _FIELDS) -> tuple[GpuFacts, ...]:
    """Parse rows of ``--query-gpu=FIELDS --format=csv,noheader,nounits``; other lines are skipped."""
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        values = {f: v.strip() for f, v in zip(fields, row, strict=False) if _known(v)}
        if len(row) != len(fields) or not {"uuid", "pci.bus_id", "name"} <= values.keys():
            continue
        active = values.get("clocks_event_reasons.active", values.get(_OLDER["clocks_event_reasons.active"]))
        found.append(
            GpuFacts(
                uuid=values["uuid"],
                bus_id=values["pci.bus_id"],
                name=values["name"],
                driver=values.get("driver_version", ""),
                memory=_scaled(values.get("memory.total"), 1 << 20),
                power_limit=_number(values.get("power.limit")),
                mig=values.get("mig.mode.current") == "Enabled",
                persistence=None if "persistence_mode" not in values else values["persistence_mode"] == "Enabled",
                ecc_uncorrected=_scaled(values.get("ecc.errors.uncorrected.volatile.total"), 1),
                reasons=_reasons(active),
                slowed=tuple(
                    (f.removeprefix(_COUNTERS), n)
                    for f, v in values.items()
                    if f.startswith(_COUNTERS) and (n := _scaled(v, 1)) is not None
                ),
            )
        )
    return tuple(found)


def parse_list(text: str) -> tuple[MigDevice, ...]:
    """Parse the MIG devices in the output of ``nvidia-smi -L``."""
    found, gpu = [], ""
    for line in text.splitlines():
        if whole := _LISTED_GPU.match(line):
            gpu = whole[1]
        elif part := _LISTED_MIG.match(line):
            found.append(MigDevice(part[2], part[1], gpu))
    return tuple(found)


def parse_processes(text: str) -> frozenset[tuple[int, str]]:
    """Parse ``--query-compute-apps=pid,gpu_uuid --format=csv,noheader,nounits`` into process ids with UUIDs."""
    rows = [[v.strip() for v in line.split(",")] for line in text.splitlines()]
    return frozenset((int(r[0]), r[1]) for r in rows if len(r) == 2 and r[0].isdecimal() and len(r[0]) < 12)


def _known(value: str) -> bool:
    """Whether a value is not ``[N/A]``, ``[Not Supported]``, ``[Unknown Error]`` or ``[GPU requires reset]``."""
    return bool(value.strip()) and not value.strip().startswith("[") and value.strip() != "N/A"


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"\d{1,18}(\.\d{1,9})?", text) else None


def _scaled(text: str | None, factor: int) -> int | None:
    number = _number(text)
    return None if number is None else round(number * factor)


def _reasons(mask: str | None) -> tuple[str, ...] | None:
    if mask is None or not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", mask):
        return None
    return _named(int(mask, 16))


def _named(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in REASONS.items() if bits & bit)


# --------------------------------------------------------------------------- queries


class Smi:
    """An ``nvidia-smi`` program: by default the one on the path."""

    def __init__(self, program: str = "nvidia-smi") -> None:
        self.program = program
        self._fields = list(_FIELDS)

    def gpus(self, bus_id: str = "") -> tuple[GpuFacts, ...]:
        """All GPUs, or only the GPU at a PCI address (``0000:01:00.0``)."""
        for _ in range(len(_FIELDS) + len(_OLDER)):
            said = self._run(*([f"--id={bus_id}"] if bus_id else []), f"--query-gpu={','.join(self._fields)}")
            refused = _REFUSED.search(said.text)
            if refused is None or refused[1] not in self._fields:
                found = parse_facts(said.text, self._fields) if said.good else ()
                return tuple(g for g in found if not bus_id or _same_bus(g.bus_id, bus_id))
            at = self._fields.index(refused[1])
            older = _OLDER.get(refused[1])
            self._fields[at : at + 1] = [] if older is None else [older]
        return ()

    def mig_devices(self) -> tuple[MigDevice, ...]:
        """The MIG devices of all GPUs."""
        said = self._run("-L")
        return parse_list(said.text) if said.good else ()

    def health(self, bus_id: str, device: str = "") -> Health | None:
        """The state of the GPU at a PCI address. ``device``: the UUID whose processes count (default: the GPU's)."""
        found = self.gpus(bus_id)
        said = self._run("--query-compute-apps=pid,gpu_uuid") if found else None
        if said is None or not said.good:
            return None
        mine = device or found[0].uuid
        return Health(found[0], frozenset(pid for pid, where in parse_processes(said.text) if where == mine))

    def _run(self, *arguments: str) -> _Said:
        program = shutil.which(self.program)
        if program is None:
            return _Said("", False)
        query = [] if arguments == ("-L",) else ["--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(
                [program, *arguments, *query], capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL,
                check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return _Said("", False)
        return _Said((done.stdout + done.stderr).decode(errors="replace"), done.returncode == 0)


@dataclass(frozen=True)
class _Said:
    text: str
    good: bool


@dataclass(frozen=True)
class Identity:
    """Identity of a device: ``uuid`` of the GPU, or of the MIG device with its ``profile``; ``facts`` of the GPU."""

    uuid: str
    profile: str = ""
    facts: GpuFacts | None = None


def identify(index: int, bus_id: str, model: str, smi: Smi | None = None) -> Identity:
    """The identity of this process's device ``index`` at a PCI address. ``model``: its name in CUDA."""
    smi = smi or Smi()
    found = smi.gpus(bus_id)
    facts = found[0] if found else None
    number = device_uuid(index)
    named = re.search(r" MIG (\S+)$", model)  # CUDA's name of a MIG device
    for part in smi.mig_devices() if facts and facts.mig else ():
        if part.uuid == f"MIG-{number}" or (not number and named and part.profile == named[1]):
            return Identity(part.uuid, part.profile, facts)
    if named:
        return Identity(f"MIG-{number}" if number else "", named[1], facts)
    return Identity(f"GPU-{number}" if number else facts.uuid if facts else "", "", facts)


def device_uuid(index: int) -> str:
    """CUDA's UUID of a device (a MIG device has its own), without prefix; empty if CUDA has none."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        device, raw = ctypes.c_int(), ctypes.create_string_buffer(16)
        if library.cuInit(0) or library.cuDeviceGet(ctypes.byref(device), index):
            return ""
        return str(uuid.UUID(bytes=raw.raw)) if library.cuDeviceGetUuid_v2(raw, device) == 0 else ""
    except (OSError, AttributeError):
        return ""


def _same_bus(one: str, other: str) -> bool:
    """Whether two PCI addresses are equal: nvidia-smi's domain has eight digits, CUDA's four."""
    try:
        return [int(x, 16) for x in re.split(r"[:.]", one)] == [int(x, 16) for x in re.split(r"[:.]", other)]
    except ValueError:
        return False


# --------------------------------------------------------------------------- verdict


def throttle(before: GpuFacts, after: GpuFacts) -> tuple[str, ...]:
    """Names of the reasons for slow clocks before, after or between two readings, except idleness."""
    then = dict(before.slowed)
    names = {*(before.reasons or ()), *(after.reasons or ())} | {n for n, us in after.slowed if us > then.get(n, us)}
    return tuple(name for name in REASONS.values() if name in names and name != _IDLE)


def new_ecc_errors(before: GpuFacts, after: GpuFacts) -> int:
    """Number of uncorrected memory errors between two readings."""
    return max(0, (after.ecc_uncorrected or 0) - (before.ecc_uncorrected or 0))


def disturbances(before: Health, after: Health, known: Collection[int] = ()) -> tuple[str, ...]:
    """Why times measured between two readings are void, one line each; empty without a reason.

    ``known``: processes that may be there: this process, and processes that were there from the start.
    """
    out = []
    held = [name for name in throttle(before.facts, after.facts) if name in VOID]
    # This reason also shows while clocks change, as on a device that wakes up: count it only after work.
    if "hw_slowdown" in held and "hw_slowdown" not in (after.facts.reasons or ()):
        held.remove("hw_slowdown")
    if held:
        out.append(f"the clocks were held down ({', '.join(held)})")
    errors = new_ecc_errors(before.facts, after.facts)
    if errors:
        out.append(f"{counted(errors, 'uncorrected memory error')} (ECC)")
    others = sorted((before.processes | after.processes) - set(known))
    if others:
        out.append(f"{counted(len(others), 'other process')} came to compute there: {', '.join(map(str, others[:4]))}")
    return tuple(out)


# --------------------------------------------------------------------------- around a batch

PAUSES = (1.0, 5.0)
"""Seconds to wait before each repetition of a void measurement: heat and short processes disappear."""


class Guard:
    """Decides whether measurements between ``begin`` and ``end`` are void.

    Processes older than this process's parent count as the device's normal state: holding a context takes
    no time, and nvidia-smi does not tell which processes work. ``facts`` and a warning at the start of a run report
    them; a younger process makes a sample void. In a container the listed process ids are the host's and unknown
    inside, this process's own included. Then processes that are present at the start count as old.
    """

    def __init__(self, probe: Probe, pauses: Sequence[float] = PAUSES) -> None:
        self._probe = probe
        self.pauses = tuple(pauses)
        self._family = frozenset((os.getpid(), os.getppid()))
        self._known: frozenset[int] | None = None
        self._after: Health | None = None
        self._before = self._look()

    def begin(self) -> None:
        """Read the state before samples are taken."""
        self._before, self._after = self._look(), None

    def end(self) -> tuple[str, ...]:
        """Read the state again. Returns why the samples in between are void, one line each; empty without a reason,
        or if the state cannot be read."""
        self._after = self._look()
        if self._before is None or self._after is None:
            return ()
        return disturbances(self._before, self._after, self._known or ())

    def _look(self) -> Health | None:
        health = self._probe()
        if health is not None and self._known is None:
            self._known = self._family | {p for p in health.processes if not _came_later(p)}
        return health

    @property
    def memory_failed(self) -> bool:
        """Whether the device's memory had an uncorrected error between the readings."""
        looks = self._before, self._after
        return looks[0] is not None and looks[1] is not None and new_ecc_errors(looks[0].facts, looks[1].facts) > 0

    @property
    def facts(self) -> Pairs:
        """Facts of both readings, stored with the measurements."""
        if self._before is None or self._after is None:
            return ()
        before, after = self._before.facts, self._after.facts
        out: list[tuple[str, Value]] = []
        if before.reasons is not None or after.reasons is not None:
            out.append(("throttle", ",".join(throttle(before, after)) or "none"))
        if after.ecc_uncorrected is not None:
            out.append(("ecc_uncorrected", after.ecc_uncorrected))
        listed = self._after.processes
        # If any process is listed, this one is too, possibly under another number.
        unnamed = 1 if listed and os.getpid() not in listed else 0
        out.append(("other_processes", len(listed - self._family) - unnamed))
        return tuple(out)


def guard_of(context: Context) -> Guard | None:
    """The guard of a context's device; ``None`` for the emulator, and without a working NVML or nvidia-smi."""
    bus_id = str(dict(context.facts).get("pci", ""))
    if not bus_id:
        return None
    smi = Smi()
    identity = identify(context.index, bus_id, context.model, smi)
    facts = identity.facts or GpuFacts(identity.uuid, bus_id, context.model)

    def probe() -> Health | None:
        return health_by_nvml(facts, bus_id, identity.uuid) or smi.health(bus_id, identity.uuid)

    return None if identity.facts is None and probe() is None else Guard(probe)


def health_by_nvml(facts: GpuFacts, bus_id: str, device: str = "") -> Health | None:
    """NVML's state of the GPU at a PCI address, combined with ``facts`` (its identity); ``None`` if NVML fails."""
    seen = nvml.look(bus_id, device)
    if seen is None:
        return None
    now = replace(
        facts, reasons=_named(seen.reasons), slowed=seen.slowed, ecc_uncorrected=seen.ecc_uncorrected
    )  # fmt: skip
    return Health(now, seen.processes)


def _came_later(pid: int) -> bool:
    """Whether a process is younger than this process's parent; ``False`` if the system does not say."""
    started, ours = _started(pid), _started(os.getppid())
    return started is not None and ours is not None and started > ours


def _started(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot (``proc_pid_stat(5)``, field 22)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
