"""How many jobs a client may have in a queue at once, so that those who wait get equal parts of its workers' seconds.

The queue itself is first in, first out: what a client gets of it follows from how much it has in it. So a window is
made in inverse proportion to what one of the client's jobs takes, and who is ahead by seconds used gets less of it
until the others have caught up. Pure arithmetic: the keeper feeds it with what clients say, and tells them their
windows.
"""

from __future__ import annotations

from dataclasses import dataclass

DEPTH = 3  # jobs in the queue for each one that can run: at work, one ahead, one on its way
GONE = 15.0  # seconds after which one that says nothing does not wait any more
EVEN = 1.0  # seconds of a queue's workers within which clients are made even: some of their reports
UNKNOWN = 0.5  # seconds that a job is taken to last before one has
SHORTEST = 1e-3  # seconds that any job is taken to last


@dataclass
class Share:
    """A client's part in one queue. ``served``: seconds that it has had, for a weight of 1."""

    weight: float = 1.0
    waiting: int = 0
    used: float = 0.0
    done: int = 0
    mean: float = 0.0
    served: float = 0.0
    heard: float = float("-inf")


class Shares:
    """The clients of one queue. ``now`` is a steady clock's seconds."""

    def __init__(self) -> None:
        self.clients: dict[str, Share] = {}

    def report(self, client: str, weight: float, waiting: int, used: float, done: int, now: float) -> None:
        """What a client says: jobs that it waits for, seconds that its finished jobs took, and how many they are.

        One that comes, or comes back, starts level with those who wait: it has no claim on the past.
        """
        share = self.clients.get(client) or Share(used=used, done=done)
        if not share.waiting or now - share.heard > GONE:
            others = [s.served for c, s in self._waiting(now).items() if c != client]
            share.served = max(share.served, min(others, default=share.served))
        new, seconds = done - share.done, max(0.0, used - share.used)
        if new > 0:
            share.mean = seconds / new if not share.mean else 0.7 * share.mean + 0.3 * seconds / new
        share.served += seconds / weight
        share.weight, share.waiting, share.used, share.done, share.heard = weight, waiting, used, done, now
        self.clients[client] = share

    def window(self, client: str, lanes: int, now: float) -> int:
        """How many jobs of a client may be in the queue; ``lanes``: how many jobs its workers do at once."""
        waiting = self._waiting(now)
        share = waiting.get(client)
        total = DEPTH * max(1, lanes)
        if share is None or len(waiting) == 1:
            return total
        known = [s.mean for s in waiting.values() if s.mean]
        usual = sum(known) / len(known) if known else UNKNOWN
        takes = {c: max(SHORTEST, s.mean or usual) for c, s in waiting.items()}
        rates = {c: s.weight / takes[c] for c, s in waiting.items()}
        least = min(s.served for s in waiting.values())
        # Everyone's part of a full queue takes the same seconds. Who is ahead gets less, smoothly, since clients hear
        # of it one after the other; who is ahead by two parts gets nothing.
        part = max(total / sum(rates.values()), EVEN * lanes / sum(s.weight for s in waiting.values()))
        for c, s in waiting.items():
            rates[c] *= max(0.0, 1.0 - (s.served - least) / (2 * max(part, takes[c] / s.weight)))
        return max(1, round(total * rates[client] / sum(rates.values()))) if rates[client] else 0

    def forget(self, client: str) -> None:
        """A client is gone for good."""
        self.clients.pop(client, None)

    def _waiting(self, now: float) -> dict[str, Share]:
        return {c: s for c, s in self.clients.items() if s.waiting and now - s.heard <= GONE}
