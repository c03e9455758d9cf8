"""The checker of a farm's history notices each way in which trials can be lost, doubled or attributed wrongly."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import preloaded
from harness.history import Row, check

History = list[dict[str, Any]]
Rows = list[Row]
RUNS = {"one": ("alice", "1c", "matmul"), "two": ("bob", "2c", "softmax")}
"""User, device class and task of each run, which one session works at."""
JOBS, ITEMS = 3, 2


def key(run: str, number: int) -> str:
    return f"schedule {run} {number}"


def honest() -> tuple[History, Rows]:
    """Two runs of six trials each, whose jobs two runners did, and what the database then holds."""
    history: History = []
    rows: Rows = []

    def say(event: str, who: str, **more: Any) -> None:
        history.append({"at": float(len(history)), "event": event, "who": who, **more})

    for run, (user, place, task) in RUNS.items():
        about = {"run": run, "database": "a.db"}
        session, client = f"session {run}", f"client {user}"
        say("run", client, session=session, task=task, device=place, user=user, done=0, wanted=JOBS * ITEMS, **about)
        for n in range(JOBS):
            job, numbers = f"job {run} {n}", range(ITEMS * n, ITEMS * (n + 1))
            keys = [key(run, i) for i in numbers]
            outcomes = [{"seconds": 1e-6 * (1 + i) + (run == "two")} for i in numbers]
            say("requested", client, job=job, session=session, place=place, do="measure", keys=keys)
            say("sent", client, job=job, session=session, attempt=0)
            say(
                "done", f"runner {place}", role="runner", job=job, session=session, user=user, place=[place],
                do="measure", task=task, keys=keys, result={"outcomes": outcomes}, delivered=1, dropped=False,
            )  # fmt: skip
            say("received", client, job=job, session=session, taken=True, result={"outcomes": outcomes})
            trials = [[i, k, o] for i, k, o in zip(numbers, keys, outcomes, strict=True)]
            for event in ("storing", "stored"):
                say(event, client, batch=n, trials=trials, **about)
            rows += [Row("trial", "a.db", run, i, k, o) for i, k, o in trials]
        say("ended", client, state="done", **about)
        rows.append(Row("run", "a.db", run, 0, task, {"state": "done", "wanted": JOBS * ITEMS, "device": place}))
        rows.append(Row("kernel", "a.db", run, 1, key(run, 1)))
    return history, rows


def the(history: History, event: str, index: int = 0) -> dict[str, Any]:
    return [e for e in history if e["event"] == event][index]


def trial(rows: Rows, run: str, number: int) -> int:
    return next(n for n, r in enumerate(rows) if (r.table, r.run, r.number) == ("trial", run, number))


def changed(run: str, number: int, **to: Any) -> Callable[[History, Rows], None]:
    def change(_history: History, rows: Rows) -> None:
        n = trial(rows, run, number)
        rows[n] = replace(rows[n], **to)

    return change


def everywhere(event: str, **to: Any) -> Callable[[History, Rows], None]:
    """Of run one: as if what its first job's ``event`` says had been so."""
    return lambda history, _rows: the(history, event).update(to)


def lost(history: History, rows: Rows) -> None:
    del rows[trial(rows, "one", 5)]


def lost_in_the_middle(history: History, rows: Rows) -> None:
    del rows[trial(rows, "one", 2)]


def lost_run(history: History, rows: Rows) -> None:
    rows[:] = [r for r in rows if r.run != "one"]
    history[:] = [e for e in history if e["event"] not in ("storing", "stored") or e["run"] != "one"]


def twice(history: History, rows: Rows) -> None:
    rows.append(replace(rows[trial(rows, "one", 2)], number=6))


def by_nobody(history: History, rows: Rows) -> None:
    rows.append(Row("trial", "a.db", "one", 6, key("one", 6), {"seconds": 9e-6}))


def taken_twice(history: History, rows: Rows) -> None:
    history.append(copy.deepcopy(the(history, "received")))


def of_another_run(history: History, rows: Rows) -> None:
    """The second run stores what a runner told the first one, of the same schedule."""
    n, one = trial(rows, "two", 0), rows[trial(rows, "one", 0)]
    rows[n] = replace(rows[n], key=one.key, outcome=one.outcome)
    for event in ("storing", "stored"):
        e = the(history, event, JOBS)
        e["trials"][0][1:] = [one.key, one.outcome]


def swapped(history: History, rows: Rows) -> None:
    """Two outcomes of one job change places, wherever the client tells of them."""
    a, b = trial(rows, "one", 0), trial(rows, "one", 1)
    rows[a], rows[b] = replace(rows[a], outcome=rows[b].outcome), replace(rows[b], outcome=rows[a].outcome)
    for event in ("storing", "stored"):
        (_, _, x), (_, _, y) = the(history, event)["trials"]
        the(history, event)["trials"][0][2], the(history, event)["trials"][1][2] = y, x


def not_taken(history: History, rows: Rows) -> None:
    the(history, "received")["taken"] = False


def undone(history: History, rows: Rows) -> None:
    rows[:] = [replace(r, outcome={**r.outcome, "state": "running"}) if r.table == "run" else r for r in rows]


def too_few(history: History, rows: Rows) -> None:
    del rows[trial(rows, "two", 5)]
    for event in ("storing", "stored"):
        the(history, event, 2 * JOBS - 1)["trials"].pop()


def wrong_best(history: History, rows: Rows) -> None:
    rows[:] = [replace(r, number=2) if r.table == "kernel" else r for r in rows]


def crash(history: History, rows: Rows) -> None:
    history.append({"at": 1e9, "event": "crashed", "who": "client", "error": "Traceback\n  ...\nKeyError: 'x'"})


def no_mend(history: History, rows: Rows) -> None:
    history.append({"at": 1e9, "event": "failed", "who": "client", "run": "one", "error": "it failed", "hint": ""})


def death(history: History, rows: Rows) -> None:
    history.append({"at": 1e9, "event": "died", "who": "world", "whom": "server", "error": "code 1"})


PLANTED: dict[str, tuple[Callable[[History, Rows], None], str]] = {
    "a trial lost": (lost, "trial 5 was acknowledged and is lost"),
    "a trial lost in the middle": (lost_in_the_middle, "trials are numbered"),
    "a run lost": (lost_run, "one was acknowledged and is lost"),
    "a schedule twice": (twice, "has 2 trials"),
    "a trial of nobody's": (by_nobody, "was stored by nobody"),
    "a result taken twice": (taken_twice, "2 results were taken"),
    "another value": (changed("one", 3, outcome={"seconds": 5e-6}), "no runner told that outcome"),
    "another schedule": (changed("one", 3, key="schedule"), "is another now: its schedule"),
    "another value acknowledged": (changed("one", 3, outcome={"seconds": 5e-6}), "is another now: its outcome"),
    "outcomes swapped": (swapped, "no runner told that outcome"),
    "another run": (of_another_run, "which another run requested"),
    "another task": (everywhere("done", task="softmax"), "of another task"),
    "another user": (everywhere("done", user="bob"), "of another user"),
    "another device class": (everywhere("done", place=["2c"]), "of another device class"),
    "a place that does not do it": (everywhere("done", place=["2c"]), "of ['2c'] did job job one 0 of 1c"),
    "another session's job": (everywhere("done", session="session two"), "for another session"),
    "other kernels": (everywhere("done", keys=["schedule one 1", "schedule one 0"]), "did something else as job"),
    "a job of nobody's": (everywhere("done", job="job x"), "which nobody requested"),
    "a result on its way": (everywhere("received", result={"outcomes": []}), "received what no worker gave"),
    "a result that was refused": (not_taken, "whose result was not taken"),
    "a run's task": (everywhere("run", task="other"), "stored as of another task or device class"),
    "a run's end": (undone, "is running, and was done"),
    "a run that is done too early": (too_few, "is done with 5 of 6 trials"),
    "another best kernel": (wrong_best, "a best kernel is stored as trial 2"),
    "an untyped error": (crash, "client had an untyped error: KeyError: 'x'"),
    "an error without a mend": (no_mend, "client had an error without a mend: 'it failed'"),
    "a death": (death, "server died by itself: code 1"),
}


def test_an_honest_history_has_no_violation() -> None:
    assert check(*honest()) == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_noticed(name: str) -> None:
    history, rows = honest()
    plant, said = PLANTED[name]
    plant(history, rows)
    assert [v for v in check(history, rows) if said in v], check(history, rows)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(preloaded.reason()), reason=preloaded.reason())
def test_nothing_is_lost_by_a_farm_that_is_disturbed_for_a_minute(tmp_path: Path) -> None:
    from harness.history_farm import Faults, World
    from harness.recorded import read

    with World(tmp_path / "farm", seed=1) as world:
        Faults(world).run(1.0)
        world.finish()
        rows = world.rows()
    assert check(read(world.events), rows) == []
    assert sum(r.table == "trial" for r in rows) > 0
