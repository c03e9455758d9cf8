"""Fair sharing of a queue: each client's window, which is the number of jobs that it may have in the queue at once.

Waiting clients get equal shares of the workers' seconds, by weight. The queue is first in, first out, so a client's
share follows from its number of jobs there. A window is inversely proportional to the seconds of the client's jobs. A
client that has used more seconds gets a smaller window until the other clients have caught up. This module only
computes: the keeper passes in the clients' reports, and sends them their windows.
"""

from __future__ import annotations

from dataclasses import dataclass

DEPTH = 3  # jobs in the queue for each lane of a worker: one runs, one waits at the worker, one is on its way
GONE = 15.0  # seconds without a report after which a client no longer counts as waiting
EVEN = 1.0  # seconds of each lane within which clients are evened out: several of their reports
UNKNOWN = 0.5  # assumed seconds of a job before any job has finished
SHORTEST = 1e-3  # least assumed seconds of a job


@dataclass
class Share:
    """A client's use of one queue. ``mean``: average seconds of its jobs. ``served``: seconds used, divided by its
    weight."""

    weight: float = 1.0
    waiting: int = 0
    used: float = 0.0
    done: int = 0
    mean: float = 0.0
    served: float = 0.0
    heard: float = float("-inf")


class Shares:
    """The clients of one queue. ``now``: a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self.clients: dict[str, Share] = {}

    def report(self, client: str, weight: float, waiting: int, used: float, done: int, now: float) -> None:
        """Takes a client's report: its number of waiting jobs, and the seconds and number of its finished jobs.

        A new or returning client starts with the least ``served`` of the waiting clients: the past gives it no claim.
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
        """Number of jobs that a client may have in the queue. ``lanes``: number of jobs that its workers run at
        once."""
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
        # Each client's jobs in a full queue take equal seconds. A client that is ahead by two of these shares gets
        # nothing; in between its window shrinks linearly, since clients learn their windows one after the other.
        part = max(total / sum(rates.values()), EVEN * lanes / sum(s.weight for s in waiting.values()))
        for c, s in waiting.items():
            rates[c] *= max(0.0, 1.0 - (s.served - least) / (2 * max(part, takes[c] / s.weight)))
        return max(1, round(total * rates[client] / sum(rates.values()))) if rates[client] else 0

    def forget(self, client: str) -> None:
        """Removes a client that has left."""
        self.clients.pop(client, None)

    def _waiting(self, now: float) -> dict[str, Share]:
        return {c: s for c, s in self.clients.items() if s.waiting and now - s.heard <= GONE}
