"""What every child keeps between requests: the task at hand, its inputs and its references."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.core import Failure, FailureKind, Outcome
from tilewright.kernels.program import Program
from tilewright.measure.references import References
from tilewright.measure.verify import ALL_SETS, Verifier

DRIFT = 0.1  # relative change of the incumbent's own time from which its anchor is taken anew

Tell = Callable[[Mapping[str, Any]], None]


class TaskSession(ABC):
    """State of one child: settings for good, the task until another one comes.

    ``spoilt``: the device cannot be trusted any more, so the child must end after the present reply.
    """

    spoilt = False

    def __init__(self, settings: Mapping[str, Any], tell: Tell) -> None:
        self.cold: bool = settings["cache_state"] == "cold"
        self.folder = Path(settings["references"]) if settings["references"] else None
        self.full: float = settings["full_reference"]
        self.tell = tell
        self._reset("")

    def _reset(self, text: str) -> None:
        self.text = text
        self.program: Program | None = None
        self.verifier: Verifier | None = None
        self.passed: set[str] = set()

    def handle(self, request: Mapping[str, Any]) -> Any:
        """Serve one request; what is returned is sent with ``done``."""
        if request["program"] != self.text:
            self._reset(request["program"])
            self.tell({"at": "prepare"})
            self.program = Program.loads(self.text)
            self.verifier = Verifier(self.program, References(self.program, self.folder), self.full)
        if request["do"] == "measure":
            return self._measure(request)
        if request["do"] == "verify":
            return self._verify_only(request["item"])
        return self._duel(request)

    @property
    def _state(self) -> str:
        return "cold" if self.cold else "warm"

    def _prepare(self, item: Mapping[str, Any]) -> None:
        """Inputs and references, for which no kernel is to blame."""
        assert self.verifier is not None
        for n in ALL_SETS:
            if not self.verifier.has(n, item["program"]["align"]):
                self.tell({"at": "prepare"})
                self.verifier.input_set(n, item["program"]["align"])

    def _verify_only(self, item: Mapping[str, Any]) -> dict[str, Any] | None:
        """Check one kernel on every input set: its failure, or ``None``."""
        self._prepare(item)
        self.tell({"at": "item", "item": 0})

        def check() -> tuple[Outcome, None]:
            problem = self._check(self._load(item), ALL_SETS)
            return Failure(FailureKind.WRONG_RESULT, problem or ""), None

        outcome, _ = self._guarded(check)
        return outcome.to_json() if isinstance(outcome, Failure) and outcome.message else None

    @abstractmethod
    def _measure(self, request: Mapping[str, Any]) -> None:
        """Check and time the request's items, telling each outcome."""

    @abstractmethod
    def _load(self, item: Mapping[str, Any]) -> Any:
        """The request's kernel, loaded."""

    @abstractmethod
    def _check(self, kernel: Any, sets: Sequence[int]) -> str | None:
        """What is wrong with a loaded kernel on these input sets, or ``None``."""

    @abstractmethod
    def _guarded(self, work: Callable[[], tuple[Outcome, Any]]) -> tuple[Outcome, Any]:
        """The result of ``work``, or the failure that its error stands for."""

    @abstractmethod
    def _duel(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Pair the request's two kernels."""
