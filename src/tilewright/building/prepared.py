"""A folder of prepared kernels: the output of ``tilewright prepare``, to load or measure elsewhere.

::

    prepared.json          task, schedules, launches, resources and hashes, best first
    kernels/<sha256>.cubin the compiled kernels
    cache/                 the compiler's results by key, to import into the artifact cache
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tilewright.backends.cache import ArtifactCache
from tilewright.core import Artifact, Candidate, IllegalSchedule, LaunchProgram, Schedule, Target, Task, UsageError

FORMAT = 1
FILE = "prepared.json"
KERNELS = "kernels"
CACHE = "cache"
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Loaded:
    """A prepared folder: its task, and the candidates with their artifacts (paths within the folder), best first.

    ``emulated``: whether they are compiled for the emulator.
    """

    task: Task
    items: tuple[tuple[Candidate, Artifact], ...]
    compiler: str
    emulated: bool = False


def folders(root: Path) -> tuple[Path, ...]:
    """``root`` itself if it is a prepared folder, else its prepared subfolders. Raises ``UsageError`` without one."""
    found = (root,) if (root / FILE).is_file() else tuple(sorted(p.parent for p in root.glob(f"*/{FILE}")))
    if not found:
        raise UsageError(
            f"{root} holds no {FILE}", "Name a folder that tilewright prepare wrote, or one with such folders"
        )
    return found


def read(folder: Path) -> Loaded:
    """Read a prepared folder, and check every kernel's bytes against its hash. Raises ``UsageError``."""
    path = folder / FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise UsageError(
                f"{path} has format {data['format']!r}, this version reads {FORMAT}", "Run tilewright prepare again"
            )
        task = Task.from_json(data["task"])
        items = []
        for k in data["kernels"]:
            file = folder / k["file"]
            if sha256(file.read_bytes()).hexdigest() != k["sha256"]:
                raise UsageError(
                    f"{file} is not the kernel that was prepared: its hash differs", "Run tilewright prepare again"
                )
            items.append((Candidate(task, Schedule.from_json(k["schedule"])), _artifact(k, file, data, task.target)))
    except OSError as e:
        raise UsageError(f"cannot read {e.filename or path}: {e.strerror}", "Name a folder that prepare wrote") from e
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        if isinstance(e, UsageError):
            raise
        raise UsageError(f"{path} is damaged: {e}", "Run tilewright prepare again") from e
    return Loaded(task, tuple(items), data["compiler"], bool(data.get("emulated")))


def shortlist(root: Path, task: Task) -> tuple[Schedule, ...]:
    """Return the schedules prepared for a task, best first, and import their kernels into the artifact cache.

    Schedules that the device's limits or a newer template exclude are left out. Raises ``UsageError``
    if nothing was prepared for the task's workload and architecture.
    """
    from tilewright.kernels.templates import task_space

    found = [read(f) for f in folders(root)]
    mine = [x for x in found if x.task.key == task.key]
    if not mine:
        labels = "; ".join(f"{x.task.workload.label} on {x.task.target.name}" for x in found)
        raise UsageError(
            f"{root} was not prepared for {task.workload.label} on {task.target.name}", f"It holds {labels}"
        )
    adopt(root)
    space = task_space(task)
    legal = []
    for candidate, _ in (item for x in mine for item in x.items):
        with contextlib.suppress(IllegalSchedule):
            space.check(candidate.schedule)
            legal.append(candidate.schedule)
    return tuple(legal)


def _artifact(k: dict[str, Any], file: Path, data: dict[str, Any], target: Target) -> Artifact:
    return Artifact(
        str(file), k["sha256"], LaunchProgram.from_json(k["program"]), target, data["compiler"], tuple(data["flags"]),
        k["source_sha256"], 0.0, True, tuple(k["resources"].items()),
    )  # fmt: skip


def adopt(root: Path, cache: ArtifactCache | None = None) -> int:
    """Import the compiler's results of a prepared folder (or of all subfolders of ``root``) into the artifact cache.

    A later build of these kernels with this compiler then finds them; another compiler has other keys and compiles
    again. Returns the number of entries. Files that do not match their hash are skipped. Raises ``UsageError`` if
    nothing was prepared.
    """
    store = cache or ArtifactCache()
    count = 0
    for folder in folders(root):
        base = folder / CACHE / "v1"
        for entry in sorted((base / "keys").glob("*/*")):
            try:
                named = entry.read_text().strip()
                blob = next(iter((base / "blobs").glob(f"*/{named}*")), None) if _KEY.fullmatch(named) else None
                data = blob.read_bytes() if blob else b""
            except (OSError, UnicodeDecodeError):
                continue
            if _KEY.fullmatch(entry.name) and sha256(data).hexdigest() == named:
                store.put(entry.name, data)
                count += 1
    return count
