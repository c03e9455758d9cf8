"""A runner that answers from recorded trials: for tests of searches, and to study them offline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from types import TracebackType

from tilewright.core import Artifact, Candidate, Failure, FailureKind, Outcome, Task, TrialRecord


class ReplayRunner:
    """Outcomes of ``records`` by schedule; of several for one schedule the last counts.

    The interface is ``LocalRunner``'s. An unknown schedule fails with ``LAUNCH``.
    """

    def __init__(self, records: Iterable[TrialRecord]) -> None:
        self._outcomes = {r.schedule.key: r.outcome for r in records}

    def __len__(self) -> int:
        return len(self._outcomes)

    def submit(
        self,
        task: Task,
        items: Sequence[tuple[Candidate, Artifact]],
        incumbent: tuple[Candidate, Artifact] | None = None,
        pairs: int | None = None,
    ) -> Future[list[Outcome]]:
        """The recorded outcomes of ``items``, at once; ``incumbent`` and ``pairs`` change nothing."""
        future: Future[list[Outcome]] = Future()
        future.set_result(self.run(task, items, incumbent, pairs))
        return future

    def run(
        self,
        task: Task,
        items: Sequence[tuple[Candidate, Artifact]],
        incumbent: tuple[Candidate, Artifact] | None = None,
        pairs: int | None = None,
    ) -> list[Outcome]:
        """As ``submit``, waiting for the result."""
        unknown = Failure(FailureKind.LAUNCH, "not in the recording")
        return [self._outcomes.get(candidate.schedule.key, unknown) for candidate, _ in items]

    def close(self) -> None:
        """Nothing to end."""

    def __enter__(self) -> ReplayRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
