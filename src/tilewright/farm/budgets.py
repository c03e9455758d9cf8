"""Budgets: the limits on what a peer can make the farm hold. The code, nats-server's configuration and
docs/farm_reference.md take each number from here.

The farm refuses a peer over a budget (:class:`OverBudget`), with one line that names the limit and this file.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.farm.errors import Refused

WHERE = "tilewright/farm/budgets.py"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_HINT = "docs/farm_reference.md lists the limits; a farm's owner may raise this one on every machine of the farm"


@dataclass(frozen=True)
class Budget:
    """A limit of ``most`` units. ``of``: the counted unit, as "places of a worker"; ``then``: what the farm does above
    the limit.

    ``values``: largest number of values (numbers, texts, lists and maps) in a message, beside its limit in bytes.
    """

    name: str
    most: int
    of: str
    then: str
    values: int = 0

    def check(self, amount: int) -> None:
        """Raises ``OverBudget`` if ``amount`` exceeds the limit."""
        if amount > self.most:
            raise OverBudget(self, amount)

    @property
    def where(self) -> str:
        return f"{self.name} in {WHERE}"


class OverBudget(Refused):
    """A peer asked the farm to hold more than ``budget`` allows."""

    def __init__(self, budget: Budget, amount: int) -> None:
        said = f"{amount:,} {budget.of} are over the limit of {budget.most:,} ({budget.where})"
        super().__init__(said, _HINT)
        self.budget = budget


_REFUSED, _UNREAD = "refused", "refused before it is read"

MESSAGE = Budget(
    "MESSAGE", 8 * MIB - 64 * KIB, "bytes of a message, an artifact or the status among them", _UNREAD, 2 * MIB
)
JOB = Budget("JOB", 5 * MIB, "bytes of a job", _UNREAD, 256 * KIB)
RESULT = Budget("RESULT", MIB, "bytes of a result", _UNREAD, 128 * KIB)
ASK = Budget("ASK", 64 * KIB, "bytes of a question, a sign of life or a command", _UNREAD, 16 * KIB)
CANCEL = Budget("CANCEL", 64 * KIB, "bytes of a cancellation", _UNREAD, 16 * KIB)
WRAPPING = Budget("WRAPPING", 16 * KIB, "bytes of certificate and signature around a message", _UNREAD, 16)
DEPTH = Budget("DEPTH", 64, "levels of maps and lists in a message", _UNREAD)

PLACES = Budget("PLACES", 64, "places of a worker or a client", _REFUSED)
QUEUES_EACH = Budget("QUEUES_EACH", 64, "queues that workers of one certificate brought about", _REFUSED)
QUEUES = Budget("QUEUES", 256, "queues of the farm", "an idle one gives way, or the new one is refused")
TEXT = Budget("TEXT", 500, "bytes of a reason, a note, a name or a version", _REFUSED)
STATUS_EACH = Budget(
    "STATUS_EACH", 4 * MIB, "bytes that workers and clients of one certificate take of the status", _REFUSED
)
STATUS = Budget("STATUS", 7 * MIB, "bytes that workers and clients take of the status", _REFUSED)
SESSIONS_EACH = Budget("SESSIONS_EACH", 1024, "clients with one certificate", _REFUSED)
QUARANTINED = Budget(
    "QUARANTINED", 256, "workers remembered that left in quarantine, and others that fell silent",
    "who has the most of them loses the oldest",
)  # fmt: skip
WAITING_EACH = Budget("WAITING_EACH", 8 * MIB, "bytes of one certificate's messages that wait for the keeper", _REFUSED)
WAITING = Budget(
    "WAITING", 16 * MIB, "bytes of messages that wait for the keeper", "who has over 64 KiB there is refused"
)
CANCELLED = Budget("CANCELLED", 256, "jobs in a cancellation", _REFUSED)
REVOKED = Budget(
    "REVOKED", 50_000, "revoked certificates and keys of bundles that have not ended", "`farm revoke` refuses one more"
)
LINES = Budget("LINES", 1000, "lines an hour in a process' log about one peer", "left out, which the last line says")
LINE = Budget("LINE", 500, "characters of a line in a log", "cut")

AHEAD = Budget("AHEAD", 1, "jobs of a place that wait at a worker, beside its running jobs", "given back to the queue")
NEEDS = Budget("NEEDS", 4096, "artifacts of a job", _REFUSED)
UNSTORED = Budget("UNSTORED", 64, "results that a worker keeps until the server has stored them", "it takes no job")

QUEUED = Budget(
    "QUEUED", GIB, "bytes of jobs in all queues of a full server, or a quarter of --storage",
    "the largest queue is made again; clients send their jobs again",
)  # fmt: skip
JOBS = Budget("JOBS", 100_000, "jobs in a queue", "refused by nats-server")
MARK = Budget("MARK", 1 * KIB, "bytes of the mark that a worker began a job", "refused by nats-server")
MARKS = Budget("MARKS", 32 * MIB, "bytes of these marks, in memory", "the oldest go")
STREAMS = Budget("STREAMS", QUEUES.most + 3, "streams: max_streams", "refused by nats-server")
CONSUMERS = Budget("CONSUMERS", QUEUES.most, "consumers: max_consumers", "refused by nats-server")
CONNECTIONS = Budget("CONNECTIONS", 16_384, "connections: max_connections", "refused by nats-server")
SUBSCRIPTIONS = Budget(
    "SUBSCRIPTIONS", 64, "subscriptions of a connection: max_subscriptions", "refused by nats-server"
)
PAYLOAD = Budget(
    "PAYLOAD", 8 * MIB, "bytes that anything sent may have: max_payload", "nats-server ends the connection"
)
PENDING = Budget(
    "PENDING", 32 * MIB, "bytes kept for a peer that reads too slowly: max_pending", "nats-server ends the connection"
)
MEMORY = Budget("MEMORY", 256 * MIB, "bytes of streams in memory: max_mem", "refused by nats-server")
STORAGE = Budget("STORAGE", 4 * GIB, "bytes on a server's disk, or --storage: max_file", "refused by nats-server")

BUDGETS: tuple[Budget, ...] = tuple(v for v in list(vars().values()) if isinstance(v, Budget))

BY_SUBJECT = {"jobs": JOB, "result": RESULT, "ask": ASK, "tell": ASK, "ctl": ASK, "cancel": CANCEL}
"""Budget of a message, by the first part of its subject. An answer has the budget ``MESSAGE``."""


def of_subject(subject: str) -> Budget:
    return BY_SUBJECT.get(subject.partition(".")[0], MESSAGE)


def cut(text: str) -> str:
    """Truncates a text to the ``TEXT`` budget, in bytes of UTF-8."""
    return text.encode(errors="replace")[: TEXT.most].decode(errors="ignore")
