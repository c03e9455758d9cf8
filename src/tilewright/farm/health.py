"""Finds the problems in a farm's status, the worst first: for the command line, pages and clients."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.farm.budgets import JOBS
from tilewright.farm.pki.revocations import WARNING_DAYS
from tilewright.serialization import Json
from tilewright.units import counted, duration

CLOCK_SECONDS = 30.0  # by which clocks may differ: they decide when certificates and revocation lists begin and end
SOON = WARNING_DAYS * 86400.0  # seconds before a certificate's end
NEARLY_FULL = 0.9  # share of the capacity of a queue or a server's disk
NAMED = 5  # names in a message; further ones are counted
WORKER_STATES = ("quarantined", "draining", "silent", "busy", "idle")


@dataclass(frozen=True)
class Problem(Json):
    """A problem in a farm. ``message``: the fault, with names. ``hint``: what to do. ``kind``: a word for scripts."""

    kind: str
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}"


def worker_state(worker: Mapping[str, Any]) -> str:
    """A worker's state, one of ``WORKER_STATES``. A worker that finished a job between its last two heartbeats is
    busy."""
    if worker["quarantine"]:
        return "quarantined"
    if worker["draining"]:
        return "draining"
    if worker.get("silent"):
        return "silent"
    return "busy" if worker["running"] or worker.get("active") else "idle"


def problems(status: Mapping[str, Any], address: str = "ADDRESS") -> list[Problem]:
    """All problems in a status, the worst first.

    ``status``: from :meth:`~tilewright.farm.client.Farm.status`, also of an earlier version. ``address`` of the farm,
    for the commands in the hints.
    """
    return [p for look in _LOOKS for p in look(status, address)]


def device_classes(status: Mapping[str, Any]) -> list[str]:
    """The device classes for which a runner takes jobs."""
    return sorted({p for w in status["workers"] if w["role"] == "runner" and takes_jobs(w) for p in w["places"]})


def no_worker(status: Mapping[str, Any], place: str, waiting: int, address: str) -> Problem:
    """The problem that ``waiting`` jobs wait for a device class or compiler that no worker serves."""
    worker = "builder for" if place.startswith("build:") else "runner of device class"
    message = f"No {worker} {place} takes jobs, and {counted(waiting, 'job')} wait{'s' * (waiting == 1)}"
    return Problem("no_worker", message, what_helps(status, place, address))


def what_helps(status: Mapping[str, Any], place: str, address: str) -> str:
    """The hint where no worker takes a place's jobs: release or start a worker, and which device classes have one."""
    out = [w["name"] for w in status["workers"] if place in w["places"] and w["quarantine"]]
    if out:
        return f"In quarantine: {_names(out)}. Mend the cause, then: {_release(sorted(out)[0], address)}"
    start = f"Start one: {start_command(place, address)}"
    if place.startswith("build:"):
        return start
    return f"Classes that have runners: {_names(device_classes(status)) or 'none'}. {start}"


def start_command(place: str, address: str) -> str:
    """The command that starts a worker of a device class or compiler."""
    certs = "--certs DIR " if address.startswith("tls:") else ""
    if place.startswith("build:"):
        return f"tilewright farm builder {certs}{address}"
    cores = re.fullmatch(r"cpu-.*-(\d+)c", place)  # a CPU's device class ends in its number of cores
    device = "cuda:0" if cores is None else "cpu:0" if cores[1] == "1" else f"cpu:0-{int(cores[1]) - 1}"
    return f"tilewright farm runner {certs}--device {'opencl:0' if place.startswith('opencl') else device} {address}"


# --------------------------------------------------------------------------- one kind of problem each


def _storage(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    server = status["server"]
    if status["trouble"]:
        yield Problem(
            "storage", f"The server stores nothing, so no job gets on: {status['trouble']}",
            f"Make room on its disk, then look with: tilewright farm doctor {address}",
        )  # fmt: skip
    elif (server.get("storage") or 0) > NEARLY_FULL * (server.get("limit") or math.inf):
        share = server["storage"] / server["limit"]
        yield Problem("storage", f"The server's storage is {share:.0%} full", "Start it with more --storage")


def _waiting(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    served = {p for w in status["workers"] if takes_jobs(w) for p in w["places"]}
    for place, counts in status["places"].items():
        if counts["waiting"] and place not in served:
            yield no_worker(status, place, counts["waiting"], address)


def _quarantined(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    for w in status["workers"]:
        if w["quarantine"]:
            yield Problem(
                "quarantine", f"The {w['role']} {w['name']} is in quarantine: {w['quarantine']}",
                f"Mend the cause, then: {_release(w['name'], address)}",
            )  # fmt: skip
    for name, why in status["quarantined_away"].items():
        yield Problem("quarantine", f"{name} left in quarantine: {why}", "Mend the cause, then start it again")


def _silent(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    quiet = {w["name"]: w["silent"] for w in status["workers"] if w.get("silent")}
    if quiet:
        said = f"No sign of life for {duration(max(quiet.values()))} from {_names(quiet)}"
        yield Problem("silent", said, "See whether the machine and its network are there")
    lost = status.get("lost", {})
    if lost:
        said = f"The connection to {_names(lost)} was lost {duration(min(lost.values()))} ago"
        yield Problem("lost", said, "See the log there, and start it again")


def _queues(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    for place, jobs in status.get("full", {}).items():
        said = f"The queue of {place} holds {jobs:,} jobs of at most {JOBS.most:,}"
        yield Problem("queue", said, f"Start another worker: {start_command(place, address)}")


def _versions(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    own = status["tilewright"]
    by_version: dict[str, list[str]] = {}
    for peer in (*status["workers"], *(c for c in status["clients"] if c["connected"])):
        version = peer.get("version", own)
        if version != own:
            by_version.setdefault(version, []).append(peer["name"])
    for version, names in sorted(by_version.items()):
        theirs = f"Tilewright {version}" if version else "an earlier Tilewright"
        older = "the server" if _number(version) > _number(own) else "them"
        said = f"{_names(names)} {'runs' if len(names) == 1 else 'run'} {theirs}, the server {own}"
        yield Problem("version", said, f"Update {older} to the same version")


def _clocks(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    for w in status["workers"]:
        ahead = w.get("clock") or 0.0
        if abs(ahead) > CLOCK_SECONDS:
            side = "ahead of" if ahead > 0 else "behind"
            said = f"The clock of {w['name']} is {duration(abs(ahead))} {side} the server's"
            yield Problem("clock", said, "Set the clocks by NTP: certificates begin and end by them")


def _certificates(status: Mapping[str, Any], address: str) -> Iterator[Problem]:
    left: dict[str, float] = {}
    for w in status["workers"]:
        if w["certificate"] and w["expires"] - time.time() < SOON:
            left[w["certificate"]] = w["expires"] - time.time()
    for name, seconds in sorted(left.items(), key=lambda x: x[1]):
        said = f"The certificate {name} ends in {duration(max(0.0, seconds))}"
        yield Problem("certificate", said, "Renew it: tilewright farm issue --renew")


_LOOKS = (_storage, _waiting, _quarantined, _silent, _queues, _versions, _clocks, _certificates)


# --------------------------------------------------------------------------- words


def takes_jobs(worker: Mapping[str, Any]) -> bool:
    """Whether a worker of the status takes jobs: it neither drains nor is in quarantine."""
    return not worker["draining"] and not worker["quarantine"]


def _release(name: str, address: str) -> str:
    return f"tilewright farm release {name} --farm {address}"


def _names(names: Collection[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(sorted(names)[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version))
