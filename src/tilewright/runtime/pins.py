"""Pinned kernels: a lock file states the kernel of each task, so that every process makes the same choice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core import DatabaseError
from tilewright.errors import explained_writing
from tilewright.files import SHARED, replace_file
from tilewright.units import counted

if TYPE_CHECKING:
    from tilewright.runtime.entry import Entry

FORMAT = 1
_NAMES = ("operator", "label", "workload", "target", "device_model", "code", "schedule")
Slot = tuple[str, str, str]


@dataclass(frozen=True)
class Pins:
    """The content of a lock file.

    ``kernels``: code hash and schedule key, for each workload, target and device model. ``labels``: their names in
    messages.
    """

    path: str
    kernels: Mapping[Slot, tuple[str, str]]
    labels: Mapping[Slot, str]

    def holds(self, e: Entry) -> bool:
        """Whether a kernel is its task's pinned kernel."""
        return self.kernels.get(slot_of(e)) == (e.sha256, e.schedule.key)

    def require(self, entries: Iterable[Entry], where: object) -> None:
        """Raises ``DatabaseError`` if a pinned kernel is not among the database's."""
        gone = set(self.kernels) - {slot_of(e) for e in entries if self.holds(e)}
        if gone:
            shown = "; ".join(sorted({self.labels[s] for s in gone})[:3])
            more = f" and {len(gone) - 3} more" if len(gone) > 3 else ""
            raise DatabaseError(
                f"{self.path} pins {counted(len(gone), 'kernel')} that {where} lacks: {shown}{more}",
                "Restore the database that it was made of, or make the file again: tilewright lock",
            )


def slot_of(e: Entry) -> Slot:
    return e.workload_key, e.target.key, e.device_model


def write_pins(path: str | os.PathLike[str], entries: Iterable[Entry]) -> int:
    """Writes the lock file of these kernels, the best of each task, atomically, and returns their number."""
    rows = sorted(
        (e.op, e.label, *slot_of(e), e.sha256, e.schedule.key) for e in entries if e.state == "verified"
    )  # fmt: skip
    kernels = [dict(zip(_NAMES, row, strict=True)) for row in rows]
    text = json.dumps({"tilewright_lock": FORMAT, "kernels": kernels}, indent=1) + "\n"
    with explained_writing(os.fspath(path), "Name another file", DatabaseError):
        replace_file(Path(path), text.encode(), SHARED)
    return len(kernels)


def read_pins(path: str | os.PathLike[str]) -> Pins:
    """Reads a lock file. Raises ``DatabaseError``."""
    name = os.fspath(path)
    try:
        with open(name, encoding="utf-8") as file:
            data: Any = json.load(file)
        if data["tilewright_lock"] != FORMAT:
            raise DatabaseError(
                f"{name} is a lock file of format {data['tilewright_lock']}, and this version reads {FORMAT}",
                "Make it again: tilewright lock",
            )
        rows = [[str(k[n]) for n in _NAMES] for k in data["kernels"]]
    except OSError as e:
        raise DatabaseError(f"cannot read {name}: {e.strerror}", "Make it: tilewright lock") from e
    except (ValueError, KeyError, TypeError) as e:
        raise DatabaseError(f"{name} is damaged, or no lock file", "Make it again: tilewright lock") from e
    slots: dict[Slot, tuple[str, str]] = {}
    labels: dict[Slot, str] = {}
    for op, label, workload, target, model, code, schedule in rows:
        slots[workload, target, model] = (code, schedule)
        labels[workload, target, model] = f"{op} {label}".strip()
    return Pins(name, slots, labels)
