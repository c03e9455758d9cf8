"""The NATS subjects of a farm's messages, and the permissions of each role.

``jobs.PLACE.CLIENT.SESSION.JOB``    a client's job; one work-queue stream a place (a device class, or a compiler)
``begun.CLIENT.SESSION.JOB.WORKER``  a mark that a worker began a job: attempts are counted by marks, not by deliveries
``result.CLIENT.SESSION.JOB``        a job's result; only the first result of a job is stored
``art.SHA256``                       an artifact; its readers check it against its name
``cancel.CLIENT.SESSION``            cancelled jobs
``ask.ROLE.NAME``                    questions to the keepers, heartbeats among them
``tell.ROLE.NAME``                   commands to one of the keepers
``ctl.ROLE.NAME.WORKER``             a keeper's commands to a worker
``count.begun``                      asks the server for the number of ``begun`` messages
``revoked``                          the list of revoked certificates, from a keeper that has a newer list

CLIENT and NAME are the names in certificates, so the server's permissions keep each peer to its own subjects.
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
"""Roles that may see the farm's status; workers may only report their own."""


def token(name: str) -> str:
    """A name as one token of a subject: ``.`` becomes ``%``, which no name in a farm has."""
    return name.replace(".", "%")


def role_for(place: str) -> str:
    """The role whose workers do a place's jobs."""
    return "builder" if place.startswith(_BUILD) else "runner"


def queue_of(place: str) -> tuple[str, str]:
    """The stream of a place's jobs, and the consumer that its workers share."""
    return f"JOBS-{token(place)}", f"{role_for(place)}s"


def place_of(stream: str) -> str | None:
    """The place whose jobs a stream holds; ``None`` for any other stream."""
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
    """nats-server's ``permissions`` of a user: the subjects that the user may publish and subscribe to."""
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
