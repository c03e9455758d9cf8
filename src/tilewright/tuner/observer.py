"""Events of a tuning run, for a terminal, a log or a dashboard."""

from __future__ import annotations

from tilewright.core import Task, TrialRecord


class Observer:
    """Receives the progress of a run. Override the methods you need; the tuning thread calls them."""

    def waiting(self, device: str, holder: str) -> None:
        """Another process holds the device; the run waits for it."""

    def warning(self, message: str) -> None:
        """A message that the user should know, such as a busy core."""

    def started(self, run_id: str, task: Task, done: int, total: int, space_size: int) -> None:
        """The search begins; ``done`` trials of an earlier session are already stored."""

    def trial(self, record: TrialRecord, best: TrialRecord | None) -> None:
        """One trial was stored; ``best`` is the fastest so far."""

    def outlook(self, gain: float | None, seconds: float | None) -> None:
        """After each batch: the expected relative improvement of the best time by the next trials, and an upper bound
        of the remaining search in seconds; ``None`` if unknown."""

    def stage(self, text: str) -> None:
        """The run enters another phase, such as the final."""
