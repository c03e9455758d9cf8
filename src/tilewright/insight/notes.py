"""Notes on runs: a text and tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.serialization import Json

if TYPE_CHECKING:
    from tilewright.database import StoredRun


@dataclass(frozen=True)
class Note(Json):
    """A run's note; text and tags are empty without a note."""

    text: str = ""
    tags: tuple[str, ...] = ()


def note_of(run: StoredRun) -> Note:
    stored = run.summary.get("note")
    if not isinstance(stored, Mapping):
        return Note()
    text, tags = stored.get("text"), stored.get("tags")
    known = tags if isinstance(tags, list) else []
    return Note(text if isinstance(text, str) else "", tuple(t for t in known if isinstance(t, str)))
