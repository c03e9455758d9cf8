"""A process' log that limits the lines about each peer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tilewright.database.text import visible_text
from tilewright.farm.budgets import LINE, LINES

_HOUR = 3600.0
_PEERS = 1024  # peers with a budget of their own; further peers share one budget
_OTHERS = "other peers"


@dataclass
class _Said:
    since: float
    lines: set[str] = field(default_factory=set)


class Log:
    """Passes lines on to ``say``. A line about a peer is passed on once an hour, up to the peer's budget of lines.

    ``now``: a monotonic clock, in seconds.
    """

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._say, self._now = say, now
        self._peers: dict[str, _Said] = {}

    def __call__(self, line: str) -> None:
        """Logs a line that is about no peer, as one line without control characters for the terminal."""
        line = visible_text(line[: LINE.most + 1])
        self._say(line if len(line) <= LINE.most else f"{line[: LINE.most - 3]}...")

    def about(self, peer: str, line: str, once: str = "") -> bool:
        """Logs a line about ``peer``; returns whether it was written. ``once``: key by which repetitions are left out,
        the line itself if empty."""
        said = self._of(peer)
        key = once or line
        if key in said.lines or len(said.lines) > LINES.most:
            return False
        said.lines.add(key)
        if len(said.lines) > LINES.most:
            self(
                f"further lines about {peer} are left out for an hour: over the limit of {LINES.most:,} ({LINES.where})"
            )
            return False
        self(line)
        return True

    def again(self, peer: str, line: str) -> None:
        """Logs a line about ``peer`` even if it is a repetition. It counts towards the peer's budget."""
        self.about(peer, line, f"{len(self._of(peer).lines)}: {line}")

    def _of(self, peer: str) -> _Said:
        now = self._now()
        if peer not in self._peers and len(self._peers) >= _PEERS:
            self._peers = {p: s for p, s in self._peers.items() if now - s.since <= _HOUR}
            if len(self._peers) >= _PEERS:
                peer = _OTHERS
        said = self._peers.get(peer)
        if said is None or now - said.since > _HOUR:
            said = self._peers[peer] = _Said(now)
        return said
