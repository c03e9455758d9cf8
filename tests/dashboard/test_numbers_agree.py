"""A number that several places show is one number: commands, pages, charts, metrics and the database, over eleven runs."""

from __future__ import annotations

import io
import json
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import asking

from harness.examples import DEVICE, SETTINGS, TARGET, example_artifact, example_kernel
from tilewright.backends.cuda.archs import target as cuda
from tilewright.cli.app import run as command
from tilewright.core import Device, Failure, FailureKind, Measurement, Proposal, Schedule, Target, Task, TrialRecord
from tilewright.dashboard.text import share
from tilewright.database import Database, StoredRun
from tilewright.kernels.operators import get_operator
from tilewright.kernels.speed import is_share
from tilewright.units import duration, with_unit

GPU = Device("cuda:0", "Example GPU")
WRONG = Failure(FailureKind.WRONG_RESULT, "element (0,) is 1.0, expected 2.0")
Said = tuple[str, float | None]
"""A place, and what it says."""


class Runs:
    """Stored runs of every kind: what a search, a final and an earlier run's kernel can make of each other."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add(
        self, op: str, times: list[float | None], *, target: Target = TARGET, device: Device = DEVICE,
        final: tuple[int, float] | None = None, kept: str = "", peak: float | None = 1e11, state: str = "done",
        **sizes: Any,
    ) -> str:  # fmt: skip
        """A run of trials that took so long (``None``: wrong results). ``final``: the trial that won it, -1 for the cost
        model's choice, and its seconds there. ``kept``: the earlier run whose kernel won that final instead."""
        task = Task(get_operator(op).workload(**sizes), target)
        run = self.database.add_run(task, device, "random", 0, len(times), SETTINGS)
        self.database.add_trials(run, [self._trial(n, s) for n, s in enumerate(times)])
        summary: dict[str, Any] = {"kept": bool(kept)}
        if final is not None:
            number, seconds = final
            share_of = task.workload.flops / seconds / peak if peak and task.workload.flops else None
            summary["best"] = {
                "seconds": seconds, "gflops": task.workload.flops / seconds / 1e9, "peak_fraction": share_of,
                "template": "t", "schedule": {}, "run": kept or run, "trial": number,
            }  # fmt: skip
            code = example_artifact(f"{op} {run}".encode())
            kernel = replace(
                example_kernel(task, max(number, 0), code, kept or run), device_model=device.model, seconds=seconds,
                peak_fraction=share_of, trial_number=number if number >= 0 else None,
            )  # fmt: skip
            self.database.set_kernels(task, device.model, run, [kernel], [code])
        if state != "running":
            self.database.finish_run(run, state, summary)
        return run

    @staticmethod
    def _trial(number: int, seconds: float | None) -> TrialRecord:
        schedule = Schedule("t", 1, (("n", number),))
        outcome = WRONG if seconds is None else Measurement(seconds, 0.02, 9)
        origin = "default" if number == 0 else "random"
        return TrialRecord(number, Proposal(schedule, None, origin), outcome, created=1.7e9 + number)


TUNED = "matmul m=32 n=32 k=32"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """A database, and what two real runs said at their end."""
    path = str(tmp_path_factory.mktemp("agree") / "t.db")
    found = []
    for seed in ("1", "2"):  # the second may win its final or leave the first's kernel
        with redirect_stdout(io.StringIO()) as printed:
            words = ["tune", *TUNED.split(), "--trials", "3", "--seed", seed, "--db", path, "--json"]
            assert command(words) == 0
        found.append(json.loads(printed.getvalue()))
    with Database.open(path) as database:
        made = Runs(database)
        # The final's order and times are others than the search's.
        first = made.add("matmul", [9e-4, 4.06e-4, 4.31e-4], final=(2, 4.66e-4), m=256, n=256, k=256)
        made.add("matmul", [8e-4, 4.5e-4, None], final=(2, 4.5e-4), kept=first, m=256, n=256, k=256)
        made.add("matmul", [None, None], final=(2, 4.4e-4), kept=first, m=256, n=256, k=256)
        made.add("softmax", [3e-6, None, 2e-6], state="interrupted", shape="32,64")
        made.add("softmax", [3e-6, 2e-6, 1e-6], state="running", shape="64,64")
        made.add("cat", [5e-6, 4e-6], final=(1, 4.1e-6), a="8,8", b="8,4", dim=1)
        made.add(
            "matmul", [7e-6, 6e-6], target=cuda("sm_90a"), device=GPU, final=(0, 6.5e-6), peak=None, m=64, n=64, k=64
        )
        made.add("matmul", [], final=(-1, 3e-5), m=128, n=128, k=128)
        # As on a busy machine, which measures too low a peak.
        made.add("matmul", [7e-6, 6e-6], final=(1, 6.2e-6), peak=3.4e10, m=48, n=48, k=48)
    return path, found


@pytest.fixture(scope="module")
def db(stored: tuple[str, list[dict[str, Any]]]) -> str:
    return stored[0]


@pytest.fixture
def ask(db: str, capfd: pytest.CaptureFixture[str]) -> Callable[[str], Any]:
    def answer(words: str) -> Any:
        capfd.readouterr()
        assert command([*shlex.split(words), "--db", db, "--json"]) == 0, words
        return json.loads(capfd.readouterr().out)

    return answer


@pytest.fixture(scope="module")
def pages(db: str) -> Iterator[httpx.Client]:
    with asking(db) as client:
        yield client


def test_every_place_shows_the_same_number(
    stored: tuple[str, list[dict[str, Any]]], ask: Callable[[str], Any], pages: httpx.Client
) -> None:  # fmt: skip
    db, tuned = stored
    said: dict[tuple[str, str], list[Said]] = defaultdict(list)

    def says(place: str, about: str, **numbers: float | None) -> None:
        for what, number in numbers.items():
            said[about, what].append((place, number))

    with Database.open(db, readonly=True) as database:
        runs = database.runs()
        gains = {v.kernel.run_id: v for v in database.best_kernels(100) if v.speedup is not None}
    assert len(runs) == 11
    for run in runs:
        of_stored(says, run)
        of_commands(says, ask, run.id, run.id in gains)
        of_pages(says, pages, run)
    for place, rows in (("runs --json", ask("runs")["runs"]), ("page of runs", table(pages, "/runs/tables/runs"))):
        for r in rows:
            page = "best" in r
            says(place, r["run"], final=r["final_seconds"], search=r["search_seconds"])
            failed = r["failed"] if page else sum(r["failed"].values())
            says(place, r["run"], best=r["best" if page else "best_seconds"], trials=r["trials"], failed=failed)
            says(place, r["run"], wanted=r["wanted" if page else "trials_wanted"])
            says(place, r["run"], **({"rate": r["rate"]} if page else {"share": r["peak_fraction"]}))
    of_tune(says, tuned, pages)
    of_kernels(says, ask, pages)
    of_totals(says, ask, pages, runs)

    wrong = [
        f"{what} of {about}: " + "; ".join(f"{place} {number}" for place, number in found)
        for (about, what), found in said.items()
        if not all(same(found[0][1], number) for _, number in found)
    ]
    assert not wrong, "\n".join(wrong)
    least = {
        "best": 5,
        "final": 4,
        "search": 7,
        "share": 3,
        "trials": 7,
        "failed": 6,
        "kernel": 4,
        "runs": 5,
        "trials_in_all": 5,
    }
    few = [key for key, found in said.items() if len(found) < least.get(key[1], 1)]
    assert not few, few
    assert any(len(found) > 1 for (_, what), found in said.items() if what == "gain")


def same(a: float | None, b: float | None) -> bool:
    return a == b if a is None or b is None else math.isclose(a, b, rel_tol=1e-12)


def table(pages: httpx.Client, address: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pages.get(f"{address}.json").json()["rows"]
    return rows


def last(chart: dict[str, Any]) -> float | None:
    """The end of a chart's curve of the best so far."""
    return next((s["y"][-1] for s in chart["series"] if s["mode"] == "step"), None)


def of_stored(says: Callable[..., None], run: StoredRun) -> None:
    flops = run.task.workload.flops
    says(
        "database",
        run.id,
        best=run.best_seconds,
        final=run.final_seconds,
        search=run.search_seconds,
        share=run.peak_fraction,
    )
    says("database", run.id, trials=run.trials, failed=sum(run.failed.values()), wanted=run.trials_wanted)
    says("database", run.id, rate=flops / run.best_seconds if run.best_seconds else None)


def of_commands(says: Callable[..., None], ask: Callable[[str], Any], run: str, gained: bool) -> None:
    shown, why = ask(f"show {run}"), ask(f"explain {run}")
    says(
        "show",
        run,
        best=shown["best_seconds"],
        final=shown["final_seconds"],
        search=shown["search_seconds"],
        share=shown["peak_fraction"],
    )
    says("show", run, trials=shown["trials"], failed=sum(shown["failed"].values()), wanted=shown["trials_wanted"])
    says("curve of show", run, search=shown["curve"][-1]["seconds"] if shown["curve"] else None)
    says("plot", run, search=last(ask(f"plot {run} --chart best")["data"]))
    says("explain", run, trials=why["progress"]["trials"], wanted=why["progress"]["wanted"])
    says("explain", run, failed=why["progress"]["trials"] - why["progress"]["measured"])
    won = why["winner"]
    if won is not None or not shown["trials"]:
        says("explain", run, best=won["final"] or won["seconds"] if won else shown["best_seconds"])
    if won is not None:
        says("explain", run, final=won["final_seconds"])
    if won is not None and won["final"] is None:
        says("explain", run, search=won["search_seconds"])
    if won is not None and gained:
        by_search = won["default_search_seconds"] / won["search_seconds"] if won["default_search_seconds"] else None
        says("explain", run, gain=won["gain"]["ratio"] if won["gain"] else by_search)
    if shown["summary"].get("best", {}).get("run") == run:
        says("summary", run, best=shown["summary"]["best"]["seconds"], share=shown["summary"]["best"]["peak_fraction"])


def in_seconds(number: float) -> str:
    return with_unit(number, "s")


def of_pages(says: Callable[..., None], pages: httpx.Client, run: StoredRun) -> None:
    base = f"/runs/{run.id}"
    trials = table(pages, f"{base}/tables/trials")
    says("page's trials", run.id, trials=len(trials), failed=sum(t["status"] != "ok" for t in trials))
    says("page's trials", run.id, search=min((t["seconds"] for t in trials if t["seconds"]), default=None))
    says("page's chart", run.id, search=last(pages.get(f"{base}/charts/best.json").json()))
    html = pages.get(base).text
    texts = [f"{run.trials} of {run.trials_wanted}"]
    texts += [duration(run.best_seconds)] if run.best_seconds else []
    texts += [duration(run.search_seconds)] if run.search_seconds else []
    # The card's share is of the kernel that is served: of this run's own where that won its final. A share above the
    # peak is not shown.
    texts += [share(run.peak_fraction)] if is_share(run.peak_fraction) and run.winner is not None else []
    for text in texts:
        assert f">{text}<" in html, f"{base}: {text}"
    if run.best_seconds is not None:  # what a terminal shows is the same number, without the zeros at its end
        (ours, unit), (theirs, other) = (x(run.best_seconds).split(" ") for x in (duration, in_seconds))
        assert (float(ours), unit) == (float(theirs), other)
    latest = next(r for r in table(pages, "/tables/latest") if r["run"] == run.id)
    says("overview", run.id, best=latest["best"], rate=latest["rate"], trials=latest["trials"], failed=latest["failed"])
    for other in table(pages, f"{base}/tables/trials")[:1]:
        detail = {r["fact"]: r["value"] for r in table(pages, f"{base}/trials/{other['trial']}/tables/facts")}
        assert other["seconds"] is None or detail["Search time"] == duration(other["seconds"])


def of_tune(says: Callable[..., None], tuned: list[dict[str, Any]], pages: httpx.Client) -> None:
    for t in tuned:
        says("tune", t["run"], trials=t["trials"], failed=sum(t["failed"].values()), search=t["curve"][-1]["seconds"])
        says("tune", t["run"], search=t["search_seconds"])
        if not t["kept"]:
            says(
                "tune",
                t["run"],
                best=t["best"]["seconds"],
                final=t["best"]["final_seconds"],
                share=t["best"]["peak_fraction"],
            )
    best = tuned[-1]["best"]  # the kernel that is stored now, whichever run's
    about = f"{tuned[-1]['workload']} on {tuned[-1]['target']} x{tuned[-1]['threads']}"
    says("tune", about, kernel=best["seconds"], kernel_share=best["peak_fraction"], rate=best["gflops"] * 1e9)
    first, second = (t["run"] for t in tuned)
    both = pages.get(f"/compare/tables/compare.json?run={first}&run={second}").json()["rows"]
    for row in both:
        says("comparison", row["run"], final=row["final_seconds"], search=row["search_seconds"])
        says("comparison", row["run"], best=row["best_seconds"], trials=row["trials"], failed=row["failed"])
    name = "final_seconds" if all(r["final_seconds"] for r in both) else "search_seconds"
    assert same(both[1]["ratio"], both[1][name] / both[0][name])  # of times of one name


def of_kernels(says: Callable[..., None], ask: Callable[[str], Any], pages: httpx.Client) -> None:
    """Of each task's best kernel."""
    gauges = {
        (s.labels["workload"], s.labels["target"]): s.value
        for family in text_string_to_metric_families(pages.get("/metrics").text)
        for s in family.samples
        if s.name == "tilewright_final_seconds"
    }
    stored = ask("kernels")["kernels"]
    assert len(stored) == len(gauges) == 6
    for k in stored:
        target = f"{k['target']} x{k['threads']}"
        about = f"{k['workload']} on {target}"
        says("kernels", about, kernel=k["final_seconds"], kernel_share=k["peak_fraction"], rate=k["gflops"] * 1e9)
        says("metrics", about, kernel=gauges[k["workload"], target])
    for row in table(pages, "/kernels/tables/speedups"):
        about = f"{row['workload']} on {row['target']}"
        says("page of kernels", about, kernel=row["final_seconds"], kernel_share=row["peak_fraction"])
        says("page of kernels", about, rate=row["flops_per_second"])
        if row["speedup"] is not None:
            says("page of kernels", row["run"], gain=row["speedup"])
    for op in ("matmul", "cat"):
        for row in table(pages, f"/operators/{op}/tables/shapes"):
            if row["seconds"] is not None:
                about = f"{row['workload']} on {row['target']}"
                says(
                    "page of the operator",
                    about,
                    kernel=row["final_seconds"],
                    kernel_share=row["peak"],
                    rate=row["rate"],
                )
    best = ask(f"best {TUNED}")
    about = f"{best['workload']} on {best['target']} x{best['threads']}"
    says("best", about, kernel=best["final_seconds"], kernel_share=best["peak_fraction"], rate=best["gflops"] * 1e9)


def of_totals(
    says: Callable[..., None], ask: Callable[[str], Any], pages: httpx.Client, runs: list[StoredRun]
) -> None:  # fmt: skip
    """How many there are of everything."""
    trials, failed = sum(r.trials for r in runs), sum(sum(r.failed.values()) for r in runs)
    says("runs", "all", runs=len(runs), trials_in_all=trials, failed_in_all=failed)
    operators, devices = table(pages, "/operators/tables/operators"), table(pages, "/tables/devices")
    says("operators", "all", runs=sum(o["runs"] for o in operators), trials_in_all=sum(o["trials"] for o in operators))
    says("devices", "all", runs=sum(d["runs"] for d in devices), trials_in_all=sum(d["trials"] for d in devices))
    says("kernels", "all", kernels=len(ask("kernels")["kernels"]))
    says("operators", "all", kernels=sum(o["kernels"] for o in operators))
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(pages.get("/metrics").text):
        for s in family.samples:
            found[s.name] += s.value
            if s.labels.get("outcome", "ok") != "ok":
                found["failed"] += s.value
    says("metrics", "all", runs=found["tilewright_runs"], trials_in_all=found["tilewright_stored_trials"])
    says("metrics", "all", failed_in_all=found["failed"], kernels=found["tilewright_kernels"])
    rows = ask("db stats")["rows"]
    says("db stats", "all", runs=rows["run"], trials_in_all=rows["trial"])
