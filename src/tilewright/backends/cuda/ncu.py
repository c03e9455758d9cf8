"""Hardware counters of kernels, read from a GPU by NVIDIA's profiler ``ncu`` (Nsight Compute).

``ncu`` runs a program and prints a row of counters for each kernel launch. Names of counters differ between
architectures and releases, and an unknown name can make ``ncu`` read no counter. So each quantity has several names,
which are tried in order. A quantity without a known name is left out.
"""

from __future__ import annotations

import csv
import math
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tilewright.backends.confine import kill_group, one_line, scratch
from tilewright.backends.cuda.tools import find_tool
from tilewright.core import TargetUnavailable, TilewrightError

_VARIABLE = "TILEWRIGHT_NCU"
_HINT = f"Install NVIDIA Nsight Compute, or set {_VARIABLE} to the path of ncu"
_TRIES = 4
"""Number of runs in which unknown names are replaced; afterwards each group of quantities runs by itself."""
_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


@dataclass(frozen=True)
class Quantity:
    """A quantity to read: its key in :attr:`Counters.values`, its group, and ``ncu``'s names for it, best first."""

    key: str
    group: str
    names: tuple[str, ...]


def _share(key: str, group: str, *units: str) -> Quantity:
    """Percent of a unit's peak over the kernel's elapsed clocks."""
    return Quantity(key, group, tuple(u + _ELAPSED for u in units))


QUANTITIES = (
    Quantity("cycles", "time", ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max")),
    Quantity("nanoseconds", "time", ("gpu__time_duration.sum",)),
    Quantity("instructions", "issue", ("smsp__inst_executed.sum", "sm__inst_executed.sum")),
    _share("issue", "issue", "sm__inst_issued", "sm__inst_executed", "smsp__issue_active"),
    Quantity("occupancy", "issue", ("sm__warps_active.avg.pct_of_peak_sustained_active",)),
    _share("tensor", "pipes", "sm__pipe_tensor_cycles_active", "sm__inst_executed_pipe_tensor",
           "sm__pipe_tensor_op_hmma_cycles_active", "sm__inst_executed_pipe_tensor_op_hmma"),
    _share("fma", "pipes", "sm__pipe_fma_cycles_active", "sm__inst_executed_pipe_fma"),
    _share("fp64", "pipes", "sm__pipe_fp64_cycles_active", "sm__inst_executed_pipe_fp64"),
    _share("alu", "pipes", "sm__pipe_alu_cycles_active", "sm__inst_executed_pipe_alu"),
    _share("mufu", "pipes", "sm__inst_executed_pipe_xu", "sm__pipe_xu_cycles_active"),
    _share("shared", "shared", "l1tex__data_pipe_lsu_wavefronts_mem_shared"),
    _share("shared_banks", "shared", "l1tex__data_bank_reads"),
    Quantity("bank_conflicts", "shared", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",)),
    _share("l2", "l2", "l1tex__m_xbar2l1tex_read_sectors", "l1tex__m_xbar2l1tex_read_bytes"),
    _share("l2_slices", "l2", "lts__throughput", "lts__t_sectors"),
    Quantity("l2_bytes", "l2", ("l1tex__m_xbar2l1tex_read_bytes.sum", "lts__t_bytes.sum")),
    _share("dram", "dram", "dram__throughput", "gpu__dram_throughput"),
    Quantity("dram_bytes", "dram", ("dram__bytes.sum",)),
    Quantity("registers", "launch", ("launch__registers_per_thread",)),
    Quantity("blocks", "launch", ("launch__grid_size",)),
)  # fmt: skip
"""All quantities. Shares are relative to the kernel's elapsed clocks. ``l2``: traffic from the L2 cache to the
multiprocessors; ``l2_slices``: the L2 cache's own throughput; ``shared``: shared memory accesses by threads'
instructions; ``shared_banks``: all reads of its banks."""


class NoCounters(TargetUnavailable):
    """``ncu`` is missing, or the system does not let it read the GPU's counters."""


@dataclass(frozen=True)
class Counters:
    """One launch: the kernel's symbol, and the values by :attr:`Quantity.key`."""

    kernel: str
    values: Mapping[str, float]


@dataclass
class Profiler:
    """Runs programs under ``ncu`` and remembers the counter names that it does not know.

    ``tool``: path of ``ncu``. ``unknown``: names that are not requested again.
    """

    tool: str
    unknown: set[str] = field(default_factory=set)

    def counters(self, command: Sequence[str], environment: Mapping[str, str], deadline: float,
                 check: Callable[[], None] = lambda: None) -> tuple[Counters, ...]:  # fmt: skip
        """Return the counters of every kernel that a program launches, in order. ``check`` raises if the program itself
        failed, which another name would not repair.

        The program runs again for each unknown name. ``deadline``: seconds per run. Raises ``NoCounters``,
        and ``TilewrightError`` if ``ncu`` reads no counter.
        """
        merged: tuple[Counters, ...] = ()
        said = ""
        for _ in range(_TRIES):
            names = self._names(QUANTITIES, merged)
            if not names:
                break
            said = self._run(command, environment, deadline, names.values())
            found = parse(said)
            if not found:
                check()
            refused = {n for key, n in names.items() if not any(key in x.values for x in found)}
            if not found and not merged:
                refused = {n for n in refused if _named(n, said)}
            self.unknown |= refused
            merged = _merged(merged, found)
            if not refused:
                break
        for _, group in groupby(() if merged else QUANTITIES, lambda q: q.group):
            if names := self._names(list(group), ()):
                said = self._run(command, environment, deadline, names.values())
                found = parse(said)
                self.unknown |= set() if found else set(names.values())
                merged = _merged(merged, found)
        if not merged:
            raise TilewrightError(f"ncu reads no counters: {_complaint(said)}", f"{_VARIABLE} names another ncu")
        return merged

    def _names(self, quantities: Sequence[Quantity], found: Sequence[Counters]) -> dict[str, str]:
        """For each missing quantity, its first name that is not known to be unknown."""
        first = {
            q.key: next((n for n in q.names if n not in self.unknown), "")
            for q in quantities
            if not any(q.key in x.values for x in found)
        }
        return {key: name for key, name in first.items() if name}

    def _run(
        self, command: Sequence[str], environment: Mapping[str, str], deadline: float, metrics: Collection[str]
    ) -> str:
        """Output of ``ncu`` and the program. Raises ``NoCounters`` if the user may not read counters."""
        options = (
            "--csv", "--page", "raw", "--print-units", "base", "--target-processes", "all", "--clock-control", "none",
            "--metrics", ",".join(dict.fromkeys(metrics)),
        )  # fmt: skip
        # ncu's lock file lies in TMPDIR: in the system's folder it may belong to another user.
        with scratch() as folder:
            variables = {**environment, "TMPDIR": folder, "LC_ALL": "C"}
            try:
                process = subprocess.Popen(
                    [self.tool, *options, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, start_new_session=True, env=variables,
                )  # fmt: skip
            except OSError as e:
                raise NoCounters(f"{self.tool} does not start: {one_line(str(e))}", _HINT) from None
            with process:
                try:
                    said = process.communicate(timeout=deadline)[0].decode(errors="replace")
                except subprocess.TimeoutExpired:
                    raise TilewrightError(
                        f"ncu took more than {deadline:g} s and was stopped", "Profile a smaller shape"
                    ) from None
                finally:
                    kill_group(process)
        if "ERR_NVGPUCTRPERM" in said:
            raise NoCounters(
                "the system does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)",
                "Run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0 "
                "(https://developer.nvidia.com/ERR_NVGPUCTRPERM)",
            )
        return said


def find_profiler() -> Profiler:
    """``ncu`` at ``$TILEWRIGHT_NCU``, or found by :func:`~.tools.find_tool`. Raises ``NoCounters``."""
    return Profiler(find_tool("ncu", _VARIABLE, NoCounters, "reads a GPU's counters", _HINT))


def parse(text: str) -> tuple[Counters, ...]:
    """Parse ``ncu --csv --page raw``: a line of names, one of units, then a line per launch; all other lines are
    messages. Unknown values (``n/a``) are left out."""
    table = list(csv.reader(_table(text)))
    if len(table) < 2 or "Kernel Name" not in table[0]:
        return ()
    head = table[0]
    found = []
    for row in table[2:]:
        cells = dict(zip(head, row, strict=False))
        known = {name: number for name in cells if (number := _number(cells[name])) is not None}
        values = {q.key: next(known[n] for n in q.names if n in known)
                  for q in QUANTITIES if any(n in known for n in q.names)}  # fmt: skip
        found.append(Counters(cells["Kernel Name"].partition("(")[0].strip(), values))
    return tuple(found)


def _table(text: str) -> Iterator[str]:
    """The lines of the table, which begins with the column ``ID``."""
    inside = False
    for line in text.splitlines():
        inside = inside or line.startswith('"ID",')
        if inside and line.startswith('"'):
            yield line


def _number(text: str) -> float | None:
    """A cell's value; commas separate thousands."""
    try:
        found = float(text.replace(",", ""))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _messages(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("==ERROR==", "==WARNING=="))]


def _named(metric: str, text: str) -> bool:
    """Whether a message names a metric, with or without its suffix after the first dot."""
    name = re.compile(rf"\b{re.escape(metric.partition('.')[0])}(?![a-z0-9_])")
    return any(name.search(line) for line in _messages(text))


def _complaint(text: str) -> str:
    """The first message, else the last line."""
    lines = [*_messages(text)[:1], *text.strip().splitlines()[-1:], "it says nothing"]
    return one_line(re.sub(r"^==\w+==\s*", "", lines[0]))


def _merged(first: Sequence[Counters], second: Sequence[Counters]) -> tuple[Counters, ...]:
    """The launches with the values of both runs."""
    if not first or not second:
        return tuple(first or second)
    return tuple(Counters(a.kernel, {**a.values, **b.values}) for a, b in zip(first, second, strict=False))
