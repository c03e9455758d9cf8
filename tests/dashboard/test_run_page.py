"""A run's page: its result card, its table of trials, how it goes or why it ended."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import asking

from harness.examples import DEVICE, example_artifact, example_kernel, example_schedule
from tilewright.backends import parse_target
from tilewright.core import Failure, FailureKind, Measurement, Proposal, Task, TrialRecord
from tilewright.dashboard.pages.run import SHORT
from tilewright.database import Database
from tilewright.kernels.operators import get_operator

TASK = Task(get_operator("matmul").workload(m=8, n=16, k=32), parse_target("cpu:portable"))
BEST: dict[str, Any] = {
    "seconds": 4.66e-4, "gflops": 1.0, "peak_fraction": 0.732, "template": "contraction",
    "schedule": {"MR": 6, "pack": "a"}, "trial": 2, "spread": 0.02,
}  # fmt: skip


def trials(count: int, failing: bool = False) -> list[TrialRecord]:
    return [
        TrialRecord(
            n, Proposal(example_schedule(n), None, "default" if n == 0 else "mutation"),
            Failure(FailureKind.COMPILE, f"error {n}") if failing else Measurement(4.06e-4 + 1e-6 * n, 0.02, 15),
            0.1, 1.7e9 + n,
        )
        for n in range(count)
    ]  # fmt: skip


class Runs:
    """Runs of one database, each of another kind, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ids: dict[str, str] = {}

    def add(self, name: str, records: list[TrialRecord], state: str = "", wanted: int = 12, **summary: Any) -> None:
        with Database.open(self.path) as db:
            run = self.ids[name] = db.add_run(TASK, DEVICE, name, 0, wanted, {})
            db.add_trials(run, records)
            if state:
                best = summary.get("best")
                summary |= {"best": {"run": run, **best}} if best else {}
                db.finish_run(run, state, summary)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    made = Runs(tmp_path_factory.mktemp("runs") / "r.db")
    numpy = {"ratio": 1.15, "low": 1.1, "high": 1.2, "confidence": 0.95}
    ratios = {"default": {"ratio": 1.3, "low": 1.2, "high": 1.4}, "numpy": numpy}
    made.add("won", trials(12), "done", best=BEST, paired=ratios, ended={"why": "trials"})
    lost = {"earlier": {"ratio": 0.95, "low": 0.9, "high": 0.97}}
    best = BEST | {"run": made.ids["won"]}
    made.add("kept", trials(3), "done", 96, ended={"why": "space"}, kept=True, best=best, paired=lost)
    made.add("failed", trials(4, failing=True), "done", 4, best=None, ended={"why": "trials"})
    made.add("stopped", trials(3), "interrupted", 12, error="KeyboardInterrupt: ", ended={"why": "stopped"})
    made.add("broken", trials(3), "failed", 12, error="OSError: no room", ended={"why": "failed"})
    made.add("live", trials(3))
    return made


@pytest.fixture(scope="module")
def client(runs: Runs) -> Iterator[httpx.Client]:
    with asking(runs.path) as c:
        yield c


def page(client: httpx.Client, runs: Runs, name: str, query: str = "") -> str:
    found = client.get(f"/runs/{runs.ids[name]}{query}")
    assert found.status_code == 200
    return unescape(found.text)


def card(text: str) -> str:
    found = re.search(r'<section class="card result"[^>]*>.*?</section>', text, re.DOTALL)
    return found[0] if found else ""


def test_the_card_shows_the_final_and_what_belongs_to_it(client: httpx.Client, runs: Runs) -> None:
    text = page(client, runs, "won")
    shown = card(text)
    for part in ("466 us", "461 us to 471 us", "Final time", "73.2%", "measured peak",
                 "1.15x faster than numpy (95% interval 1.10x to 1.20x)</strong>, by call time", "1.30x faster than the default",
                 "MR=6 pack=a", f"/runs/{runs.ids['won']}/trials/2#code"):  # fmt: skip
        assert part in shown, part
    assert ".plan('matmul', m=8, n=16, k=32)" in shown
    # The least search time has its name, and why the winner is another trial is said.
    assert "Trial 0 has the least search time, 406 us (trial 2: 408 us): the final timed the fastest trials" in shown
    assert 'Least search time</dt><dd data-live-text="best">406 us' in text.replace(shown, "")
    assert "73.2%" not in text.replace(shown, "")


def test_a_kernel_of_an_earlier_run_is_said_to_be_one(client: httpx.Client, runs: Runs) -> None:
    shown = card(page(client, runs, "kept"))
    assert "an earlier run" in shown
    assert "This run's best is <strong>1.05x slower than the kernel of an earlier run (95% interval 1.03x to" in shown
    assert f"/runs/{runs.ids['won']}" in shown


def test_where_the_default_schedule_is_best_that_is_said(tmp_path: Path) -> None:
    made = Runs(tmp_path / "r.db")
    ratios = {
        "default": {"ratio": 1.0, "low": 1.0, "high": 1.0},
        "challenger": {"ratio": 1.01, "low": 0.98, "high": 1.05},
    }
    made.add("default", trials(3), "done", best=BEST | {"default": True}, paired=ratios)
    with asking(made.path) as c:
        shown = card(page(c, made, "default"))
    assert "The default schedule is the best found" in shown
    assert "The default schedule is <strong>1.01x faster than the fastest other schedule" in shown
    assert "no measurable difference" in shown
    assert "faster than the default schedule" not in shown.replace("was measured to be faster than the default", "")


def test_quartiles_of_version_0_1_are_not_called_an_interval(tmp_path: Path) -> None:
    made = Runs(tmp_path / "r.db")
    numpy = {"ratio": 1.02, "low": 0.98, "high": 1.07}  # without the confidence that later versions store
    made.add("old", trials(3), "done", best=BEST, paired={"numpy": numpy})
    with asking(made.path) as c:
        shown = card(page(c, made, "old"))
    assert "1.02x faster than numpy (stored without a 95% interval, which tilewright bench measures)" in shown
    assert not [text for text in ("0.98x", "1.07x", "no measurable difference.</strong>") if text in shown]


def test_a_run_without_a_kernel_says_so(client: httpx.Client, runs: Runs) -> None:
    text = page(client, runs, "failed")
    assert "No kernel: all 4 trials failed." in card(text)
    assert "Look at the failures of kind compile." in card(text)
    assert '<span class="state state-bad" data-live-text="state" data-live-class="tone">no kernel' in text
    assert "% of" not in re.sub(r"<section class=.card. id=.failures.*", "", text, flags=re.DOTALL)
    rows = client.get("/runs/tables/runs.json").json()["rows"]
    assert next(r["state"] for r in rows if r["run"] == runs.ids["failed"]) == "done"
    assert "no kernel" in client.get("/runs").text


def test_why_it_ended_and_how_to_go_on(client: httpx.Client, runs: Runs) -> None:
    kept = page(client, runs, "kept")
    assert "done: whole search space" in kept
    assert "Every legal schedule was tried." in kept
    stopped = page(client, runs, "stopped")
    assert "KeyboardInterrupt" not in stopped
    assert "Least search time" in card(stopped)
    assert "no final time" in card(stopped)
    assert "The run was stopped." in stopped
    assert f"--resume {runs.ids['stopped']} --trials 12" in stopped
    broken = page(client, runs, "broken")
    assert "OSError: no room" in broken
    assert f"--resume {runs.ids['broken']}" in broken
    assert "Resume it:" not in page(client, runs, "won")


def test_what_a_run_is_at(client: httpx.Client, runs: Runs) -> None:
    text = page(client, runs, "live")
    for part in ("searching", "at most 9.00 s", '<progress max="1" value="0.25"'):
        assert part in text, part
    with Database.open(runs.path) as db:
        db.update_summary(runs.ids["live"], {"phase": "final"})
    with client.stream("GET", f"/runs/{runs.ids['live']}/live") as stream:
        first = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert "final between the fastest kernels" in first


def test_knobs_are_columns_and_constants_are_named_once(client: httpx.Client, runs: Runs) -> None:
    rows = client.get(f"/runs/{runs.ids['won']}/tables/trials.json").json()["rows"]
    assert [r["knob.MR"] for r in rows[:3]] == ["6", "7", "6"]
    assert "knob.pack" not in rows[0]
    assert rows[0]["schedule"] == "MR=6 pack=a unroll=True KC=64"
    text = page(client, runs, "won")
    assert "The same in all trials: <code>pack=a</code>, <code>unroll=true</code>." in text
    assert ">MR</a>" in text
    assert "MR=6 pack=a unroll=True" not in text


def test_trials_are_sorted_by_knobs_and_searched(client: httpx.Client, runs: Runs) -> None:
    at = f"/runs/{runs.ids['won']}/tables/trials.json"

    def numbers(query: str) -> list[int]:
        return [r["trial"] for r in client.get(f"{at}?{query}").json()["rows"]]

    assert numbers("order=knob.KC&descending=1") == list(range(12))[::-1]
    assert numbers("order=knob.MR") == [*range(0, 12, 2), *range(1, 12, 2)]
    assert numbers("q=MR=7+mutation") == list(range(1, 12, 2))
    assert numbers("q=MR=7&order=knob.KC&descending=1") == list(range(1, 12, 2))[::-1]
    assert client.get(f"/runs/{runs.ids['won']}?order=knob.pack").status_code == 400
    text = page(client, runs, "won", "?order=knob.KC&q=MR=7")
    assert 'aria-sort="ascending"' in text
    assert 'href="?q=MR%3D7&order=knob.KC&descending=1#trials"' in text


def test_a_long_run_is_not_sorted_by_knobs(tmp_path: Path) -> None:
    made = Runs(tmp_path / "long.db")
    made.add("long", trials(SHORT + 1), "done")
    with asking(made.path) as client:
        at = f"/runs/{made.ids['long']}"
        text = client.get(at).text
        assert '<th scope="col" class="num">KC</th>' in text
        assert client.get(f"{at}?order=knob.KC").status_code == 400
        assert client.get(f"{at}/tables/trials.json?q=KC=77").json()["rows"][0]["trial"] == 13


def test_chosen_trials_are_compared_one_with_the_winner(client: httpx.Client, runs: Runs) -> None:
    at = f"/runs/{runs.ids['won']}"
    assert 'name="trial" value="3"' in page(client, runs, "won")
    assert "Trials 3 and 5 compared" in client.get(f"{at}/diff?trial=3&trial=5").text
    assert "Trials 3 and 2 compared" in client.get(f"{at}/diff?trial=3").text  # the one that won the final


def test_runs_are_searched_sorted_and_chosen(client: httpx.Client, runs: Runs) -> None:
    text = client.get("/runs?q=EXAMPLE+m=8&order=failed&descending=1").text
    assert text.index(runs.ids["failed"]) < text.index(runs.ids["won"])
    assert 'aria-sort="descending"' in text
    assert f'name="run" value="{runs.ids["won"]}"' in text
    assert client.get("/runs/tables/runs.json?q=elsewhere").json()["rows"] == []
    both = client.get(f"/compare?run={runs.ids['won']}&run={runs.ids['kept']}")
    assert both.status_code == 200
    assert runs.ids["kept"] in both.text


def test_times_are_marked_as_utc_and_machine_readable(client: httpx.Client) -> None:
    found = re.findall(r'<time datetime="(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)Z">([^<]*)</time>', client.get("/runs").text)
    assert found
    assert all(shown == f"{day} {clock} UTC" for day, clock, shown in found)


@pytest.mark.parametrize(
    "sql", ["update run set summary = '[' where id = ?", "update run set settings = '3' where id = ?"]
)
def test_an_unreadable_run_is_named_and_the_others_are_shown(tmp_path: Path, sql: str) -> None:
    made = Runs(tmp_path / "r.db")
    made.add("good", trials(3), "done")
    made.add("bad", trials(3), "done")
    with closing(sqlite3.connect(made.path)) as raw, raw:
        raw.execute(sql, (made.ids["bad"],))
    with asking(made.path) as client:
        for address in ("/", "/runs"):
            found = client.get(address)
            assert found.status_code == 200
            assert f"<code>{made.ids['bad']}</code>" in found.text
            assert f'href="/runs/{made.ids["good"]}"' in found.text
        assert made.ids["good"] in client.get("/runs/tables/runs.csv").text
        assert client.get("/operators/matmul").status_code == 200
        broken = client.get(f"/runs/{made.ids['bad']}")
        assert broken.status_code == 503
        assert f"the row {made.ids['bad']} of its table run" in broken.text


def test_gains_are_the_paired_ones_where_they_are_stored(tmp_path: Path) -> None:
    made = Runs(tmp_path / "k.db")
    made.add("run", trials(3), "done", best=BEST, paired={"default": {"ratio": 1.25, "low": 1.2, "high": 1.3}})
    with Database.open(made.path) as db:
        code = example_artifact(b"code")
        db.set_kernels(TASK, DEVICE.model, made.ids["run"], [example_kernel(TASK, 0, code, made.ids["run"])], [code])
    with asking(made.path) as client:
        [row] = client.get("/tables/speedups.json").json()["rows"]
        assert (row["speedup"], row["gain"], row["paired"]) == (1.25, "1.25x (1.20x to 1.30x)", "yes")
        assert row["seconds"] == row["final_seconds"]
        bars = client.get("/charts/speedups.json").json()
        assert (bars["values"], bars["axis"]["unit"], bars["reference"]) == ([1.25], "times", 1.0)
        assert "1.25x" in client.get("/kernels?order=seconds").text
        assert client.get("/kernels/tables/speedups.json?q=MATMUL+example").json()["rows"] == [row]
        assert client.get("/kernels/tables/speedups.json?q=conv").json()["rows"] == []
