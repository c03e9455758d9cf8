"""Live pages: events of a real database that changes, shared by many readers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from serving import dashboard

from harness.examples import DEVICE, example_record, example_task
from tilewright.core import DatabaseError
from tilewright.dashboard import live
from tilewright.dashboard.live import Feed, Hub, Look
from tilewright.database import Database


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PERIOD", 0.05)
    monkeypatch.setattr(live, "SLOW_PERIOD", 0.2)


def events(lines: list[str]) -> list[tuple[str, dict[str, object]]]:
    """Names and data of a stream's text."""
    found = []
    for block in "\n".join(lines).split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if {"event", "data"} <= set(fields):
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_a_run_that_goes_on_is_told_as_it_happens(tmp_path: Path) -> None:
    path = tmp_path / "live.db"
    with Database.open(path) as db:
        run = db.add_run(example_task(), DEVICE, "random", 0, 20, {})
        with dashboard(path) as base, httpx.stream("GET", f"{base}/runs/{run}/live", timeout=60.0) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines: list[str] = []
            stage = 0
            for line in stream.iter_lines():
                lines.append(line)
                told = events(lines)
                if stage == 0 and told:
                    db.add_trials(run, [example_record(n) for n in range(3)])
                    stage = 1
                elif stage == 1 and any(n == "refresh" for n, _ in told):
                    db.finish_run(run, "done")
                    stage = 2
    told = events(lines)
    states = [d for n, d in told if n == "state"]
    assert states[0]["trials"] == "0 of 20"
    assert states[-1]["trials"] == "3 of 20"
    assert (states[0]["state"], states[-1]["state"]) == ("running", "done")
    charts = {c for n, d in told if n == "refresh" for c in d["charts"]}
    assert charts == {"best", "time", "failures", "calibration", "knob", "contour", "parallel", "importance"}
    assert [d["parts"] for n, d in told if n == "refresh"][-1]
    assert told[-1][0] == "end"


def test_readers_of_one_thing_share_one_look() -> None:
    async def scenario() -> tuple[int, list[list[bytes]]]:
        looks = 0

        def look() -> Look:
            nonlocal looks
            looks += 1
            return Look(looks, {"n": str(looks)}, ended=looks == 5)

        hub = Hub()

        async def read() -> list[bytes]:
            return [data async for data in hub.stream(Feed("same", look, ("best",)))]

        told = await asyncio.gather(*(read() for _ in range(20)))
        return looks, list(told)

    looks, told = asyncio.run(scenario())
    assert looks == 5
    assert all(t[-1] == live.encode(("end", {"text": "ended"})) for t in told)
    assert all(t == told[0] for t in told)


def test_a_slow_reader_holds_nobody_up_and_goes_on_with_what_is_true_now() -> None:
    async def scenario() -> tuple[int, list[bytes]]:
        stop = threading.Event()
        count = 0

        def look() -> Look:
            nonlocal count
            count += 1
            return Look(count, {"n": str(count)}, ended=stop.is_set())

        hub = Hub()
        slow = hub.stream(Feed("k", look))
        await anext(slow)
        await anext(slow)  # it has its first state, and reads no more
        quick = 0
        async for data in hub.stream(Feed("k", look)):
            quick += data.startswith(b"event: state")
            if quick == 48:
                stop.set()
        rest = [data async for data in slow]
        return count, rest

    count, rest = asyncio.run(scenario())
    assert count >= 48
    told = events(b"".join(rest).decode().split("\n"))
    assert len(told) <= 5  # nothing has piled up
    assert [d for n, d in told if n == "state"][-1] == {"n": str(count)}
    assert told[-1][0] == "end"


def test_trouble_is_told_and_the_next_reader_begins_anew() -> None:
    async def scenario() -> list[list[bytes]]:
        broken = True

        def look() -> Look:
            nonlocal broken
            if broken:
                broken = False
                raise DatabaseError("the disk is gone", "Mount it")
            return Look(1, {"n": "1"}, ended=True)

        hub = Hub()
        return [[data async for data in hub.stream(Feed("k", look))] for _ in range(2)]

    first, second = asyncio.run(scenario())
    assert b"event: trouble" in first[-1]
    assert b"the disk is gone" in first[-1]
    assert b"event: end" in second[-1]


def test_nobody_looks_when_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def here(look: Callable[[], Look]) -> Look:  # in a thread, a look under way outlives who asked for it
        return look()

    monkeypatch.setattr(live, "run_in_threadpool", here)

    async def scenario() -> tuple[int, int]:
        looks = 0

        def look() -> Look:
            nonlocal looks
            looks += 1
            return Look(looks, {})

        stream = Hub().stream(Feed("k", look))
        await anext(stream)
        await anext(stream)
        await stream.aclose()
        lookers = asyncio.all_tasks() - {asyncio.current_task()}
        if lookers:
            _, still = await asyncio.wait(lookers, timeout=60.0)
            assert not still
        before = looks
        await asyncio.sleep(3 * live.PERIOD)
        return before, looks

    before, after = asyncio.run(scenario())
    assert before == after
