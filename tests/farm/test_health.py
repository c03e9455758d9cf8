"""What a farm's status says is wrong."""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness.farm_status import FACTS, a_client, a_status, a_worker
from tilewright.farm.budgets import JOBS
from tilewright.farm.health import problems, start_command, worker_state

ADDRESS = "tls://farm.example.org:8786"
COMPILER = "build:cpu:x86_64:1a2b3c4d"


def healthy(*workers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return a_status(list(workers) or [a_worker("w")], **{"quarantined_away": {}, "clients": [], **more})


def wrong(status: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(p.kind, p.message, p.hint) for p in problems(status, ADDRESS)]


def test_a_healthy_farm_has_no_problems() -> None:
    waiting = {"p": {"workers": 1, "waiting": 5, "in_hand": 1}, "idle": {"workers": 0, "waiting": 0, "in_hand": 0}}
    assert wrong(healthy(places=waiting, clients=[a_client("c")])) == []


def test_the_status_of_an_earlier_farm_is_read() -> None:
    workers = [a_worker("w")]
    status = healthy(*workers)
    for name in ("active", "silent", "version", "clock"):
        del workers[0][name]
    del status["lost"], status["full"]
    assert wrong(status) == []


@pytest.mark.parametrize(
    ("place", "workers", "message", "hint"),
    [
        (
            "h200-141g-700w", [],
            "No runner of device class h200-141g-700w takes jobs, and 12 jobs wait",
            "Classes that have runners: cpu-a-1c, p. Start one: "
            f"tilewright farm runner --certs DIR --device cuda:0 {ADDRESS}",
        ),
        (
            "h200-141g-700w", [a_worker("r2", places=["h200-141g-700w"], draining=True)],
            "No runner of device class h200-141g-700w takes jobs, and 12 jobs wait",
            "Classes that have runners: cpu-a-1c, p. Start one: "
            f"tilewright farm runner --certs DIR --device cuda:0 {ADDRESS}",
        ),
        (
            "h200-141g-700w", [a_worker("r2", places=["h200-141g-700w"], quarantine="it rattles")],
            "No runner of device class h200-141g-700w takes jobs, and 12 jobs wait",
            f"In quarantine: r2. Mend the cause, then: tilewright farm release r2 --farm {ADDRESS}",
        ),
        (
            COMPILER, [],
            f"No builder for {COMPILER} takes jobs, and 12 jobs wait",
            f"Start one: tilewright farm builder --certs DIR {ADDRESS}",
        ),
    ],
    ids=["none", "draining", "in quarantine", "no builder"],
)  # fmt: skip
def test_work_that_nobody_takes_names_what_there_is_and_a_command(
    place: str, workers: list[dict[str, Any]], message: str, hint: str
) -> None:
    there = [a_worker("r0"), a_worker("r1", places=["cpu-a-1c"]), a_worker("b", role="builder", places=["build:x"])]
    status = healthy(*there, *workers, places={place: {"workers": len(workers), "waiting": 12, "in_hand": 0}})
    assert wrong(status)[0] == ("no_worker", message, hint)


def test_problems_come_worst_first() -> None:
    workers = [
        a_worker("bad", quarantine="it rattles"), a_worker("quiet", silent=12.0), a_worker("old", version="0.1.0"),
        a_worker("early", clock=-3600.0), a_worker("ends", certificate="c", expires=time.time() + 3.7 * 86400),
    ]  # fmt: skip
    status = healthy(
        *workers, places={"x": {"workers": 0, "waiting": 1, "in_hand": 0}}, quarantined_away={"gone": "no disk"},
        lost={"dead": 300.0}, full={"p": JOBS.most}, trouble="no room", clients=[a_client("new", version="0.10.0")],
    )  # fmt: skip
    assert [f"{kind}: {message}" for kind, message, _ in wrong(status)] == [
        "storage: The server stores nothing, so no job gets on: no room",
        "no_worker: No runner of device class x takes jobs, and 1 job waits",
        "quarantine: The runner bad is in quarantine: it rattles",
        "quarantine: gone left in quarantine: no disk",
        "silent: No sign of life for 12.0 s from quiet",
        "lost: The connection to dead was lost 5 min ago",
        "queue: The queue of p holds 100,000 jobs of at most 100,000",
        "version: old runs Tilewright 0.1.0, the server 0.2.0",
        "version: new runs Tilewright 0.10.0, the server 0.2.0",
        "clock: The clock of early is 1 h behind the server's",
        "certificate: The certificate c ends in 3 d 16 h",
    ]
    hints = {message.split()[0]: hint for kind, message, hint in wrong(status) if kind == "version"}
    assert hints == {"old": "Update them to the same version", "new": "Update the server to the same version"}


def test_a_full_disk_is_told_before_it_stores_nothing() -> None:
    server = {**FACTS, "storage": 95 << 20, "limit": 100 << 20}
    assert wrong(healthy(server=server))[0][:2] == ("storage", "The server's storage is 95% full")
    assert wrong(healthy(server=dict.fromkeys(FACTS))) == []


def test_many_workers_of_one_kind_are_one_problem() -> None:
    workers = [a_worker(f"w{n}", version="") for n in range(8)]
    ((_, message, _),) = wrong(healthy(*workers))
    assert message == "w0, w1, w2, w3, w4 and 3 more run an earlier Tilewright, the server 0.2.0"


@pytest.mark.parametrize(
    ("changed", "state"),
    [
        ({}, "idle"), ({"running": 1}, "busy"), ({"active": True}, "busy"), ({"silent": 11.0, "running": 1}, "silent"),
        ({"draining": True, "running": 1}, "draining"), ({"quarantine": "why", "draining": True}, "quarantined"),
    ],
)  # fmt: skip
def test_a_worker_is_in_one_state(changed: dict[str, Any], state: str) -> None:
    assert worker_state(a_worker("w", **changed)) == state


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("cpu-amd-1c", "tilewright farm runner --device cpu:0 tcp://127.0.0.1:8786"),
        ("cpu-amd-2c", "tilewright farm runner --device cpu:0-1 tcp://127.0.0.1:8786"),
        ("opencl-x", "tilewright farm runner --device opencl:0 tcp://127.0.0.1:8786"),
        ("h200-141g", "tilewright farm runner --device cuda:0 tcp://127.0.0.1:8786"),
        (COMPILER, "tilewright farm builder tcp://127.0.0.1:8786"),
    ],
)
def test_a_worker_is_started_by_a_command_that_can_be_typed(place: str, command: str) -> None:
    assert start_command(place, "tcp://127.0.0.1:8786") == command
