"""Messages between the tuning process and a measuring child: requests one way, steps and results the other way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.backends.channel import Channel, ChannelClosed
from tilewright.core import Failure, LaunchProgram, Outcome, outcome_from_json
from tilewright.measure.sandbox import Limits
from tilewright.measure.timing import PAIRS, PairedComparison
from tilewright.serialization import Json

if TYPE_CHECKING:
    from tilewright.measure.measuring import Item


@dataclass(frozen=True)
class KernelFile(Json):
    """A compiled kernel to load: ``path`` and hash of its code, its launch program and its launch arguments.

    ``key`` identifies a candidate, ``binary`` candidates with equal binaries. ``seconds``: reference time of a call of
    an incumbent; ``None``: use the measured time.
    """

    key: str
    binary: str
    path: str
    sha256: str
    program: LaunchProgram
    launch: Mapping[str, int]
    seconds: float | None = None

    @staticmethod
    def of(item: Item, seconds: float | None = None) -> KernelFile:
        candidate, artifact = item
        launch = {k: int(v) for k, v in candidate.schedule.launch}
        return KernelFile(
            candidate.key, candidate.binary_key, artifact.path, artifact.sha256, artifact.program, launch, seconds
        )


@dataclass(frozen=True, kw_only=True)
class Request(Json):
    """Work on one task: the text of its program, and its ``constants_passed`` in bytes (:class:`tilewright.core.Task`).

    A child answers with :class:`At` and :class:`Told` during the work, and with one :class:`Done` or :class:`Error`.
    """

    program: str
    constants_passed: int = 0


@dataclass(frozen=True, kw_only=True)
class Measure(Request):
    """Check and time numbered kernels against the ``incumbent``, with at most ``pairs`` samples of each."""

    items: tuple[tuple[int, KernelFile], ...]
    incumbent: KernelFile | None = None
    pairs: int = PAIRS


@dataclass(frozen=True, kw_only=True)
class Verify(Request):
    """Check one kernel on every input set, or on set number ``turn`` (modulo the number of sets)."""

    item: KernelFile
    turn: int | None = None


@dataclass(frozen=True, kw_only=True)
class Compare(Request):
    """Time two kernels against each other, interleaved, in ``sessions`` sessions."""

    challenger: KernelFile
    champion: KernelFile
    sessions: int


@dataclass(frozen=True)
class Ready(Json):
    """The child is ready for requests, under these limits."""

    limits: Limits


@dataclass(frozen=True)
class At(Json):
    """The next step of the child: kernel number ``item``, the incumbent, or no kernel (inputs and references)."""

    item: int | None = None
    incumbent: bool = False


@dataclass(frozen=True)
class Told(Json):
    """The outcome of kernel number ``item``."""

    item: int
    outcome: Outcome

    def to_json(self) -> dict[str, Any]:
        return {"item": self.item, "outcome": self.outcome.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Told:
        return cls(data["item"], outcome_from_json(data["outcome"]))


@dataclass(frozen=True)
class Done(Json):
    """The end of a request: the failure of a verified kernel, or the comparison of two kernels. ``leaving``: the child
    ends because its device is in a bad state."""

    failure: Failure | None = None
    comparison: PairedComparison | None = None
    leaving: bool = False


@dataclass(frozen=True)
class Error(Json):
    """The end of a request that failed without a kernel's fault."""

    message: str


_KINDS: dict[str, type[Json]] = {k.__name__: k for k in (Measure, Verify, Compare, Ready, At, Told, Done, Error)}


def send(channel: Channel, message: Json) -> None:
    """Send a message. Raises ``ChannelClosed`` if the peer is gone."""
    channel.send({type(message).__name__: message.to_json()})


def receive(channel: Channel, timeout: float | None = None) -> Json:
    """Receive the next message. Raises ``TimeoutError`` after ``timeout`` seconds, ``ChannelClosed`` at the end or for
    an invalid message."""
    found = channel.receive(timeout)
    try:
        ((name, data),) = found.items()
        return _KINDS[name].from_json(data)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ChannelClosed("not a message") from e
