"""An ``ncu`` for tests: an executable that runs the program it is given, then prints counters in ncu's form.

It "sees" the launches that a test writes down, with the values of each counter, and knows no other names. How it treats
those is ``ncu``'s in one release or another: it names them and reads nothing, reads nothing and does not say why, or
prints ``n/a``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

H100: Mapping[str, tuple[str, str]] = {
    "sm__cycles_elapsed.max": ("cycle", "401,234"),
    "gpu__time_duration.sum": ("ns", "233,456"),
    "smsp__inst_executed.sum": ("inst", "21,504,000"),
    "sm__inst_issued.avg.pct_of_peak_sustained_elapsed": ("%", "24.50"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "18.74"),
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "81.25"),
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_elapsed": ("%", "0.52"),
    "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "3.10"),
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_elapsed": ("%", "0"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed": ("%", "1.42"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("", "1,048"),
    "l1tex__m_xbar2l1tex_read_sectors.avg.pct_of_peak_sustained_elapsed": ("%", "40.00"),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "35.20"),
    "l1tex__m_xbar2l1tex_read_bytes.sum": ("byte", "1,073,741,824"),
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "13.37"),
    "dram__bytes.sum": ("byte", "104,857,600"),
    "launch__registers_per_thread": ("register/thread", "168"),
    "launch__grid_size": ("", "132"),
}
"""Names that an H100's ncu knows, with units and values; some are not the first that are asked for."""

_SCRIPT = """\
import csv, json, subprocess, sys
from pathlib import Path

here = Path(__file__).parent
behaviour = json.loads((here / "behaviour.json").read_text())
at = sys.argv.index("--metrics")
asked, command = sys.argv[at + 1].split(","), sys.argv[at + 2 :]
with open(here / "asked", "a") as f:
    f.write(",".join(asked) + "\\n")
print(f"==PROF== Connected to process 4711 ({command[0]})")
known = behaviour["known"]
unknown = [a for a in asked if a not in known]
if behaviour["denied"]:
    print("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
          "the target device 0. For instructions on enabling permissions and to get more information see "
          "https://developer.nvidia.com/ERR_NVGPUCTRPERM")
    sys.exit(1)
done = subprocess.run(command if behaviour["runs"] else ["/bin/true"])
print("==PROF== Disconnected from process 4711")
if unknown and behaviour["unknown"] != "n/a":
    for name in unknown if behaviour["unknown"] == "named" else ():
        print(f"==ERROR== Failed to find metric {name}")
    print("==WARNING== No kernels were profiled.")
    sys.exit(9)
if done.returncode or not behaviour["launches"]:
    print("==WARNING== No kernels were profiled.")
    sys.exit(done.returncode)
out = csv.writer(sys.stdout, quoting=csv.QUOTE_ALL)
head = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC"]
out.writerow([*head, *asked])
out.writerow([""] * len(head) + [known.get(a, ["", ""])[0] for a in asked])
for n, kernel in enumerate(behaviour["launches"]):
    row = [n, "4711", "python3.11", "127.0.0.1", kernel, "1", "7", "(384, 1, 1)", "(132, 1, 1)", "0", "9.0"]
    out.writerow([*row, *(known.get(a, ["", "n/a"])[1] for a in asked)])
"""


class ScriptedNcu:
    """The program in a folder, and what it sees. ``unknown``: ``named``, ``silent`` or ``n/a``; ``runs``: whether it
    runs what it is given."""

    def __init__(
        self, folder: Path, launches: Sequence[str] = (), known: Mapping[str, tuple[str, str]] = H100,
        unknown: str = "named", denied: bool = False, runs: bool = True,
    ) -> None:  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.program = folder / "ncu"
        self.program.write_text(f"#!{sys.executable} -S\n{_SCRIPT}")
        self.program.chmod(0o755)
        behaviour: dict[str, Any] = {
            "launches": launches,
            "known": known,
            "unknown": unknown,
            "denied": denied,
            "runs": runs,
        }
        (folder / "behaviour.json").write_text(json.dumps(behaviour))

    @property
    def asked(self) -> list[list[str]]:
        """The counters that each run was asked for."""
        return [line.split(",") for line in (self.folder / "asked").read_text().splitlines()]
