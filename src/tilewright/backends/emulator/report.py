"""The findings of an emulated run: bugs with kernel line, block and thread, parsed from the runtime's report
and from the sanitizers' output."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tilewright.serialization import Json

Index = tuple[int, int, int]

KINDS = (
    "out_of_bounds_global", "out_of_bounds_shared", "misaligned", "race", "divergence", "deadlock",
    "uninitialized", "exit_with_pending_copies", "undefined", "launch", "timeout", "crash",
)  # fmt: skip
"""Kinds of bug. ``launch``: the device would refuse the launch; ``timeout``: the run did not end in time."""


@dataclass(frozen=True)
class Bug(Json):
    """One bug of a kernel: its kind (of :data:`KINDS`), a message, and its place.

    ``line`` is the line of the kernel's source. ``line``, ``block`` and ``thread`` (x, y, z) are ``None``
    if unknown.
    """

    kind: str
    message: str
    line: int | None = None
    block: Index | None = None
    thread: Index | None = None

    def __str__(self) -> str:
        where = [f"line {self.line}"] if self.line else []
        where += [f"{name} {value}" for name, value in (("block", self.block), ("thread", self.thread)) if value]
        return f"{self.kind} ({', '.join(where)}): {self.message}" if where else f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Report(Json):
    """The outcome of one emulated run. ``ok``: it ran, performed all requested checks, and found no bug.

    ``unchecked``: why it, or its sanitizer, could not run; ``ok`` is false then. ``output``:
    the (first) result of a run that reached its end. ``profile``: see
    ``docs/emulator.md``; empty unless requested. ``seconds``: of the launches alone.
    Its JSON has all fields but the output.
    """

    ok: bool
    bugs: tuple[Bug, ...] = ()
    unchecked: str = ""
    profile: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    output: NDArray[Any] | None = field(default=None, compare=False)


# --------------------------------------------------------------------------- the runtime's own report


@dataclass(frozen=True)
class RuntimeReport:
    """The report file: at most one bug, the profile, and whether the program reached its end."""

    bug: Bug | None
    profile: Mapping[str, Any]
    seconds: float
    done: bool


def parse_runtime(text: str, line_of: Callable[[Sequence[str]], int | None]) -> RuntimeReport:
    """Parse a report file. ``line_of`` looks up code addresses for a bug without a line."""
    kind, line, message, seconds, done = "", 0, "", 0.0, False
    place: list[int] = []
    code: list[str] = []
    rows: list[list[str]] = []
    for row in text.splitlines():
        word, _, rest = row.partition(" ")
        if word == "bug":
            kind, number = rest.split()
            line = int(number)
        elif word == "thread":
            place = [int(x) for x in rest.split()]
        elif word == "code":
            code.append(rest)
        elif word == "message":
            message = rest
        elif word == "seconds":
            seconds = float(rest)
        elif word == "done":
            done = True
        else:
            rows.append(row.split())
    if not kind:
        return RuntimeReport(None, _profile(rows), seconds, done)
    where = line or (line_of(code) if code else None)
    block, thread = _indices(place)
    return RuntimeReport(Bug(kind, message, where, block, thread), {}, seconds, done)


def _indices(numbers: Sequence[int]) -> tuple[Index | None, Index | None]:
    if len(numbers) != 6:
        return None, None
    a, b, c, d, e, f = numbers
    return (a, b, c), (d, e, f)


def line_of_code(program: str, addresses: Sequence[str]) -> int | None:
    """The kernel's line at the first of these program addresses that has a line."""
    tool = shutil.which("addr2line")
    if tool is None:
        return None
    try:
        said = subprocess.run(
            [tool, "-i", "-e", program, *(f"0x{a}" for a in addresses)],
            capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"^(?:\S*/)?kernel:(\d+)", said, re.MULTILINE)
    return int(found.group(1)) if found else None


_ACCESSES = ("global_load", "global_store", "shared_load", "shared_store")


def _profile(rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    totals: dict[str, Any] = {}
    lines: dict[str, dict[str, Any]] = {}
    for word, name, *rest in rows:
        if word == "total":
            totals[name] = int(rest[0])
        elif word == "line":
            entry = lines.setdefault(name, {})
            kind, *numbers = rest
            values = [int(x) for x in numbers]
            if kind in _ACCESSES:
                unit = "sectors" if kind.startswith("global") else "wavefronts"
                entry[kind] = {"requests": values[0], unit: values[1], f"ideal_{unit}": values[2]}
            else:
                names = ("ldmatrix", "mma", "waits", "idle_stages")
                entry.update(
                    {n: v for n, v in zip(names, values, strict=True) if v or (n == "idle_stages" and values[2])}
                )
    if not totals:
        return {}
    for kind in _ACCESSES:
        unit = "sectors" if kind.startswith("global") else "wavefronts"
        found = [entry[kind] for entry in lines.values() if kind in entry]
        totals[kind] = {key: sum(f[key] for f in found) for key in ("requests", unit, f"ideal_{unit}")}
    for name in ("ldmatrix", "mma", "waits", "idle_stages"):
        totals[name] = sum(entry.get(name, 0) for entry in lines.values())
    totals["bank_conflicts"] = sum(
        totals[kind]["wavefronts"] - totals[kind]["ideal_wavefronts"] for kind in _ACCESSES[2:]
    )
    matrix = [entry["shared_load"] for entry in lines.values() if "ldmatrix" in entry and "shared_load" in entry]
    totals["ldmatrix_conflicts"] = sum(m["wavefronts"] - m["ideal_wavefronts"] for m in matrix)
    return {**totals, "lines": lines}


# --------------------------------------------------------------------------- the sanitizers' output

_KERNEL_FRAME = re.compile(r"^\s*#\d+ .*?(?:^|[\s/])kernel:(\d+)", re.MULTILINE)
_THREAD = re.compile(r"^emulator: thread (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", re.MULTILINE)
_PLACE = re.compile(r"^emulator: place (global|shared) (.*)$", re.MULTILINE)
_NAMED = r"'block (\d+),(\d+),(\d+) thread (\d+),(\d+),(\d+)'"


def parse_sanitizers(text: str) -> tuple[Bug, ...]:
    """Parse bugs from the output of the address, undefined-behaviour and thread sanitizers."""
    bugs = [*_undefined(text), *_address(text), *_races(text)]
    seen: dict[tuple[str, int | None], Bug] = {}
    for bug in bugs:
        seen.setdefault((bug.kind, bug.line), bug)
    return tuple(seen.values())


def _first_line(text: str) -> int | None:
    found = _KERNEL_FRAME.search(text)
    return int(found.group(1)) if found else None


def _running(text: str) -> tuple[Index | None, Index | None]:
    found = _THREAD.search(text)
    return _indices([int(x) for x in found.groups()]) if found else (None, None)


def _undefined(text: str) -> list[Bug]:
    out = []
    for found in re.finditer(r"^(\S*?):(\d+):\d+: runtime error: (.*)$", text, re.MULTILINE):
        file, number, said = found.groups()
        # For a helper of the prelude, the stack has the kernel's line.
        in_kernel = file.rpartition("/")[2] == "kernel"
        line = int(number) if in_kernel else _first_line(text[found.end() :])
        kind = "misaligned" if "misaligned address" in said else "undefined"
        block, thread = _running(text)
        out.append(Bug(kind, said, line, block, thread))
    return out


def _address(text: str) -> list[Bug]:
    found = re.search(r"ERROR: AddressSanitizer: (\S+)", text)
    if not found:
        return []
    block, thread = _running(text)
    line = _first_line(text[found.start() :])
    place = _PLACE.search(text)
    access = re.search(r"^(READ|WRITE) of size (\d+)", text, re.MULTILINE)
    signal = re.search(r"caused by a (READ|WRITE) memory access", text)
    verb = (access or signal).group(1).lower() if access or signal else "access"  # type: ignore[union-attr]
    size = f" of {access.group(2)} bytes" if access else ""
    if place:
        space, where = place.groups()
        return [Bug(f"out_of_bounds_{space}", f"{verb}{size} at {where}", line, block, thread)]
    what = found.group(1)
    if what == "stack-overflow":
        return [Bug("crash", "the thread's local memory is too large", line, block, thread)]
    if "overflow" in what or "underflow" in what:
        return [Bug("undefined", f"{verb}{size} outside of a local array ({what})", line, block, thread)]
    if what == "SEGV":
        return [Bug("crash", f"{verb} at an address in no buffer", line, block, thread)]
    return [Bug("crash", f"{what}: {verb}{size}", line, block, thread)]


_RACE = re.compile(r"^WARNING: ThreadSanitizer: data race.*?(?=^={18}|\Z)", re.MULTILINE | re.DOTALL)
_RACE_SIDE = re.compile(
    r"^  (?:(?:Previous|Atomic|Write|Read|previous|atomic|write|read)\s?)+ of size (\d+) at 0x[0-9a-f]+ "
    r"by (?:thread (T\d+)|main thread).*?:\n(.*?)(?=\n\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


def _races(text: str) -> list[Bug]:
    out = []
    for found in _RACE.finditer(text):
        said = found.group(0)
        sides = []
        for side in _RACE_SIDE.finditer(said):
            size, thread_name, stack = side.groups()
            verb = re.match(r"\s*(.*?) of size", side.group(0))
            block, thread = _named(said, thread_name)
            sides.append((verb.group(1).lower() if verb else "access", size, _first_line(stack), block, thread))
        if not sides:
            out.append(Bug("race", "two threads access the same memory in no order"))
            continue
        place = _PLACE.search(text[found.start() :]) or _PLACE.search(text)
        if "emulator: earlier block unknown" in text:
            sides[1:] = [(verb, size, line, None, thread) for verb, size, line, _, thread in sides[1:]]
        words = [
            f"{verb} of {size} bytes by "
            + ", ".join(
                f"{name} {value}" for name, value in (("block", block), ("thread", thread), ("line", line)) if value
            )
            for verb, size, line, block, thread in sides
        ]
        where = f" at {place.group(2)}" if place else ""
        first = sides[0]
        line = first[2] if first[2] is not None else next((s[2] for s in sides if s[2] is not None), None)
        out.append(Bug("race", " and ".join(words) + where, line, first[3], first[4]))
    return out


def _named(text: str, thread: str | None) -> tuple[Index | None, Index | None]:
    if thread is None:
        return None, None
    found = re.search(rf"^  Thread {thread} {_NAMED}", text, re.MULTILINE) or re.search(
        rf"by thread {thread} .*?{_NAMED}", text
    )
    return _indices([int(x) for x in found.groups()]) if found else (None, None)
