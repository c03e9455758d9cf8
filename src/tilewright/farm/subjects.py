"""The names under which a farm's messages travel, and who may use which: the whole of its layout on the server.

``jobs.PLACE.CLIENT.SESSION.JOB``    a client's job; one work-queue stream a place (a device class, or a compiler)
``begun.CLIENT.SESSION.JOB.WORKER``  a worker began it: what a job cost is counted by these, not by deliveries
``result.CLIENT.SESSION.JOB``        what came of it, the first one of a job stored
``art.SHA256``                       an artifact, checked against its name by whoever uses it
``cancel.CLIENT.SESSION``            jobs that nobody waits for any more
``ask.ROLE.NAME``                    questions to the keepers, signs of life among them
``tell.ROLE.NAME``                   commands to one of the keepers
``ctl.ROLE.NAME.WORKER``             a keeper's commands to a worker
``count.begun``                      how many ``begun`` there are, from the server
``revoked``                          the list of revoked certificates, from a keeper that has a newer one

CLIENT and NAME are of the certificate, so the server's permissions hold everyone to their own.
"""

from __future__ import annotations

import re
from typing import Any

RESULTS, BEGUN, ARTIFACTS = "RESULTS", "BEGUN", "ARTIFACTS"
COUNT = "count.begun"
REVOKED = "revoked"
_BUILD = "build:"
WORKER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:,-]{0,127}")
SHA256 = re.compile(r"[0-9a-f]{64}")
PLACE = re.compile(r"[a-z0-9][a-z0-9._:+-]{0,127}")

WORKERS = ("runner", "builder")
LOOKERS = ("reader", "client", "administrator")
"""Roles that may see the farm's status; workers only say what they are."""


def token(name: str) -> str:
    """A name as one part of a subject. Names of the farm have no ``%``."""
    return name.replace(".", "%")


def role_for(place: str) -> str:
    """Who does the jobs of a place."""
    return "builder" if place.startswith(_BUILD) else "runner"


def queue_of(place: str) -> tuple[str, str]:
    """The stream of a place's jobs, and the consumer that its workers share."""
    return f"JOBS-{token(place)}", f"{role_for(place)}s"


def place_of(stream: str) -> str | None:
    """Whose jobs a stream has; ``None`` of another stream."""
    return stream.removeprefix("JOBS-").replace("%", ".") if stream.startswith("JOBS-") else None


def job(place: str, client: str, session: str, job_id: str) -> str:
    return f"jobs.{token(place)}.{token(client)}.{session}.{job_id}"


def result(client: str, session: str, job_id: str) -> str:
    return f"result.{token(client)}.{session}.{job_id}"


def begun(client: str, session: str, job_id: str, worker: str) -> str:
    return f"begun.{token(client)}.{session}.{job_id}.{token(worker) if worker != '*' else worker}"


def cancel(client: str, session: str) -> str:
    return f"cancel.{token(client)}.{session}"


def ask(role: str, name: str) -> str:
    return f"ask.{role}.{token(name)}"


def tell(role: str, name: str) -> str:
    return f"tell.{role}.{token(name)}"


def control(role: str, name: str, worker: str) -> str:
    return f"ctl.{role}.{token(name)}.{token(worker)}"


def inbox(role: str, name: str) -> str:
    return f"_INBOX.{role}.{token(name)}"


def permissions(role: str, name: str) -> dict[str, Any]:
    """What the server lets a user of a role do: nats-server's ``permissions`` of that user."""
    own = token(name)
    publish = [ask(role, name)]
    subscribe = [f"{inbox(role, name)}.>", REVOKED]
    artifact = f"$JS.API.DIRECT.GET.{ARTIFACTS}.art.*"
    if role == "server":
        publish, subscribe = [">"], [">"]
    elif role in WORKERS:
        publish += [
            "result.*.*.*", "begun.*.*.*.*", artifact, COUNT,
            f"$JS.API.CONSUMER.MSG.NEXT.*.{role}s", f"$JS.ACK.*.{role}s.>",
        ]  # fmt: skip
        publish += ["art.*"] if role == "builder" else []
        subscribe += [f"ctl.{role}.{own}.*", "cancel.*.*"]
    elif role == "client":
        publish += [
            f"jobs.*.{own}.*.*", f"cancel.{own}.*", "art.*", artifact, f"$JS.API.DIRECT.GET.{RESULTS}.result.{own}.*.*",
            f"$JS.API.DIRECT.GET.*.jobs.*.{own}.*.*",
        ]  # fmt: skip
        subscribe += [f"result.{own}.*.*"]
    elif role == "administrator":
        publish += [tell(role, name)]
    return {"publish": {"allow": publish}, "subscribe": {"allow": subscribe}}
