"""Converts tasks, kernels and outcomes to the plain values that clients and runners send each other, and back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.core import (
    Artifact,
    Candidate,
    Failure,
    FailureKind,
    LaunchProgram,
    Measurement,
    Outcome,
    Schedule,
    Task,
    TilewrightError,
)
from tilewright.farm.errors import NONSENSE, FarmError
from tilewright.serialization import decode

if TYPE_CHECKING:
    from tilewright.measure.measuring import Item

LONGEST = 2000  # characters of a failure's message


@contextlib.contextmanager
def understood(what: str, hint: str) -> Iterator[None]:
    """Context in which a peer's values are read. Malformed values raise ``FarmError`` with ``what`` and the cause."""
    try:
        yield
    except TilewrightError:
        raise
    except NONSENSE as e:
        raise FarmError(f"{what} ({type(e).__name__}: {e})"[:300], hint) from None


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a map to JSON values: NumPy's numbers become floats, tuples become lists."""
    result: dict[str, Any] = json.loads(json.dumps(value, default=float))
    return result


def task_json(task: Task) -> dict[str, Any]:
    """A task as plain values; ``Task.from_json`` reads it."""
    return plain(task.to_json())


def item_json(item: Item) -> dict[str, Any]:
    """A candidate and its artifact as plain values, without the code."""
    candidate, artifact = item
    return plain({
        "schedule": candidate.schedule.to_json(), "sha256": artifact.sha256, "program": artifact.program.to_json(),
        "compiler": artifact.compiler,
    })  # fmt: skip


def item_of(task: Task, data: Mapping[str, Any], paths: Mapping[str, str]) -> Item:
    """Reads the candidate and artifact in a message; ``paths`` has the code's file by its hash. Raises ``KeyError``,
    ``TypeError`` or ``ValueError`` for malformed values."""
    sha256 = str(data["sha256"])
    artifact = Artifact(
        paths[sha256], sha256, LaunchProgram.from_json(data["program"]), task.target, str(data["compiler"]), (), ""
    )
    return Candidate(task, Schedule.from_json(data["schedule"])), artifact


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """A kernel's outcome as plain values; a failure's message is cut to ``LONGEST`` characters."""
    said: dict[str, Any] = outcome.to_json()
    if isinstance(outcome, Failure):
        said["message"] = outcome.message[:LONGEST]
    return said


def outcome_of(data: Mapping[str, Any]) -> Outcome:
    """Reads a kernel's outcome. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for malformed values."""
    if "failure" in data:
        return Failure(FailureKind(data["failure"]), str(data["message"])[:LONGEST])
    found = decode(Measurement, data)
    if not found.seconds:
        raise ValueError("a kernel that takes no time")
    return found
