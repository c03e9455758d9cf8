"""An ``nvidia-smi`` for tests, and an NVML: both tell, in their own forms, the states that a test writes down.

Every look (``--query-gpu``, or the clock event reasons) takes the next state; the last one stays. Fields that a state
does not name are refused as a driver refuses what it does not know.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.backends.cpu.compiler import find_compiler

GPU = "GPU-5ac9ce7b-1f1c-4d6c-8b5e-6d0a1f2b3c4d"
BUS = "0000:1B:00.0"

H200: Mapping[str, str] = {
    "uuid": GPU,
    "pci.bus_id": "00000000:1B:00.0",
    "name": "NVIDIA H200",
    "driver_version": "570.133.20",
    "memory.total": "143771",
    "power.limit": "700.00",
    "mig.mode.current": "Disabled",
    "persistence_mode": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0",
    "clocks_event_reasons.active": "0x0000000000000004",
    "clocks_event_reasons_counters.sw_thermal_slowdown": "1500",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "0",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "0",
}
"""Field by field: busy, at its power limit, and well."""

_SCRIPT = r"""#!/bin/sh
here=$(dirname "$0")
case "$*" in
  -L) cat "$here/list"; exit 0 ;;
  *--query-compute-apps=pid,gpu_uuid*) cat "$here/$(cat "$here/now").apps"; exit 0 ;;
esac
state=$(head -n 1 "$here/states")
if [ "$(wc -l < "$here/states")" -gt 1 ]; then
  tail -n +2 "$here/states" > "$here/rest" && mv "$here/rest" "$here/states"
fi
echo "$state" > "$here/now"
echo "$*" >> "$here/asked"
if [ "$state" = gone ]; then
  echo "Unable to determine the device handle for GPU0: 0000:1B:00.0: GPU is lost.  Reboot the system to recover this GPU"
  exit 15
fi
for word in "$@"; do
  case "$word" in --query-gpu=*) fields=${word#--query-gpu=} ;; esac
done
awk -F '=' -v fields="$fields" '
  { known[$1] = substr($0, length($1) + 2) }
  END {
    count = split(fields, asked, ",")
    for (i = 1; i <= count; i++) {
      if (!(asked[i] in known)) {
        printf "Field \"%s\" is not a valid field to query.\n\n", asked[i]
        exit 2
      }
      row = row (i > 1 ? ", " : "") known[asked[i]]
    }
    print row
  }' "$here/$state.gpu"
"""


class ScriptedSmi:
    """The program in a folder, and the states that it goes through."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.program = folder / "nvidia-smi"
        self.program.write_text(_SCRIPT)
        self.program.chmod(0o755)
        (folder / "list").write_text(f"GPU 0: NVIDIA H200 (UUID: {GPU})\n")
        (folder / "asked").write_text("")
        self.state("well", H200)
        self.go("well")

    def state(self, name: str, facts: Mapping[str, str], processes: Sequence[int] = (), where: str = GPU) -> None:
        """Write a state down: a GPU's fields, and who computes where."""
        (self.folder / f"{name}.gpu").write_text("".join(f"{k}={v}\n" for k, v in facts.items()))
        (self.folder / f"{name}.apps").write_text("".join(f"{p}, {where}\n" for p in processes))

    def go(self, *states: str) -> None:
        """The states of the looks to come; ``gone`` makes the program fail."""
        (self.folder / "states").write_text("".join(f"{s}\n" for s in states))
        (self.folder / "now").write_text(f"{states[0]}\n")

    @property
    def left(self) -> list[str]:
        """States not yet looked at; the last one stays."""
        return (self.folder / "states").read_text().split()

    @property
    def asked(self) -> list[str]:
        """The command line of every look so far."""
        return (self.folder / "asked").read_text().splitlines()


class ScriptedNvml:
    """The functions of NVML that ``nvml.py`` calls, for the states of a :class:`ScriptedSmi` in a folder.

    They take what :mod:`ctypes` would hand over, and answer through the pointers among it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: bytes, handle: Any) -> int:
        handle._obj.value = 7
        return 0 if bus_id == BUS.encode() else _NOT_FOUND

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, mask: Any) -> int:
        states = (self.folder / "states").read_text().splitlines()
        (self.folder / "states").write_text("".join(f"{s}\n" for s in states[-max(1, len(states) - 1) :]))
        (self.folder / "now").write_text(f"{states[0]}\n")
        with (self.folder / "asked").open("a") as f:
            f.write("nvml\n")
        return self._tell(mask, "clocks_event_reasons.active", 16)

    def nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, counter: Any, count: Any) -> int:
        assert (kind.value, counter.value) == (1, 0)
        return self._tell(count, "ecc.errors.uncorrected.volatile.total", 10)

    def nvmlDeviceGetFieldValues(self, handle: Any, count: int, fields: Any) -> int:
        for field in fields[:count]:
            name = {269: "sw_thermal", 270: "hw_thermal", 271: "hw_power_brake"}[field.field]
            told = self._now().get(f"clocks_event_reasons_counters.{name}_slowdown", "[N/A]")
            field.status = 0 if told.isdecimal() else _NOT_SUPPORTED
            field.value = int(told) * 1000 if told.isdecimal() else 0
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, count: Any, found: Any) -> int:
        state = (self.folder / "now").read_text().strip()
        if state == "gone":
            return _LOST
        pids = [int(line.split(",")[0]) for line in (self.folder / f"{state}.apps").read_text().splitlines()]
        for place, pid in zip(found, pids, strict=False):
            place.pid = pid
        count._obj.value = len(pids)
        return 0

    def _now(self) -> dict[str, str]:
        state = (self.folder / "now").read_text().strip()
        lines = (self.folder / f"{state}.gpu").read_text().splitlines() if state != "gone" else []
        return dict(line.split("=", 1) for line in lines)

    def _tell(self, pointer: Any, field: str, base: int) -> int:
        told = self._now().get(field)
        if told is None:
            return _LOST if not self._now() else _NOT_SUPPORTED
        if told.startswith("["):
            return _NOT_SUPPORTED
        pointer._obj.value = int(told, base)
        return 0


_NOT_SUPPORTED, _NOT_FOUND, _LOST = 3, 6, 15  # nvmlReturn_t


def stub_driver(folder: Path) -> Path:
    """A folder with a driver library that knows one GPU (``tests/backends/stub_cuda.cpp``), and its UUID:
    e07a497d-1bb6-5a42-b670-1c33bf55ab6e."""
    source = folder / "stub.cpp"
    source.write_text(
        f'#include "{Path(__file__).parent / "backends" / "stub_cuda.cpp"}"\n'
        '#include <cstring>\nextern "C" int cuDeviceGetUuid_v2(char *out, int device) {\n'
        r'    memcpy(out, "\xe0\x7a\x49\x7d\x1b\xb6\x5a\x42\xb6\x70\x1c\x33\xbf\x55\xab\x6e", 16);'
        "\n    return device == 100 ? 0 : 1;\n}\n"
    )
    command = [*find_compiler().command, "-shared", "-fPIC", str(source), "-o", str(folder / "libcuda.so.1")]
    subprocess.run(command, check=True)
    return folder


def ask(stub: Path, smi: ScriptedSmi, expression: str, **settings: int) -> Any:
    """An expression's value where the stand-in is the driver (``settings`` of its own) and the script is on the path."""
    code = (
        "import dataclasses, json\n"
        "from tilewright.backends.cuda.health import *\n"
        "from tilewright.measure.devices import *\n"
        f"print(json.dumps({expression}))"
    )
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": str(stub),
        "PATH": f"{smi.folder}:{os.environ['PATH']}",
        **{f"STUB_{k.upper()}": str(v) for k, v in settings.items()},
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
