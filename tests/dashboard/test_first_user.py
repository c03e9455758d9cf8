"""Ten questions of a first-time user, each answered within two clicks from the landing page, in a real browser."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from serving import dashboard

from harness.browser import Record, findings, sideways, until
from harness.examples import DEVICE, TARGET, example_artifact, example_kernel
from harness.farm_status import Saying, a_status, a_worker
from tilewright.core import Failure, FailureKind, Measurement, Proposal, Task, TrialRecord
from tilewright.database import Database
from tilewright.insight.links import run_link
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import task_space

if TYPE_CHECKING:
    from playwright.sync_api import Page

LABEL = "matmul m=64 n=64 k=64"
TALLEST = 6000
"""Pixels of a page at most, at 1,440 wide."""

QUESTIONS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "How fast is my kernel?": ((), "table", ("Final time", "25.0 us", "1.20x (1.10x to 1.30x)")),
    "Against what is that?": ((LABEL,), "#result", ("1.20x faster than the default schedule", "faster than numpy")),
    "Is that sure?": ((LABEL,), "#result", ("95% interval 1.10x to 1.30x", "no measurable difference")),
    "What bounds it?": ((LABEL,), "#result", ("Bound by arithmetic", "26.2 GFLOP/s (measured by the run)")),
    "What should I do next?": ((LABEL,), "#result ol.steps", ("tilewright tune matmul m=64 n=64 k=64", "Copy")),
    "Which trials failed, and why?": (
        (LABEL,), "#failures", ("overflow", "lost_accuracy", "element (3, 4) is inf", "a wider accumulator"),
    ),
    "How do I call it from Python?": ((LABEL,), "#plan", (".plan('matmul', m=64, n=64, k=64)",)),
    "Which of my operators are untuned?": (("Misses",), "main", ("softmax", "tilewright tune --from-misses")),
    "Is the farm healthy?": (("Farm",), "main", ("bad-runner", "quarantined", "three failures in a row")),
    "Where is the source?": ((LABEL, "View source"), "#code", ("tw::parallel_for(env",)),
}  # fmt: skip
"""By question: the names of the links to click, where the answer is, and what it says."""


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run with failures, a final, gains (one of them within the noise), limits and a kernel; and one miss."""
    path = tmp_path_factory.mktemp("first") / "tuned.db"
    task = Task(get_operator("matmul").workload(m=64, n=64, k=64), TARGET)
    rng, space, seconds = random.Random(0), task_space(task), task.workload.flops / 26.2144e9
    schedules = list({s.key: s for s in (space.sample(rng) for _ in range(200))}.values())[:32]
    records = [
        TrialRecord(
            n, Proposal(schedules[n], float(n), "random" if n else "default"),
            Measurement(seconds * (1.2 + 0.01 * (30 - n)), 0.02, 9), 0.1, 1.7e9 + n,
        )
        for n in range(30)
    ]  # fmt: skip
    bad = {
        FailureKind.OVERFLOW: "element (3, 4) is inf, expected 1e+30 to 1.1e+30; 1 of 4096 wrong (peaked inputs, seed 1)",
        FailureKind.LOST_ACCURACY: "element (0, 1) is 1.25, expected 1.2 to 1.21; 7 of 4096 wrong (normal inputs, seed 0)",
    }
    records += [
        TrialRecord(n, Proposal(schedules[n], None, "random"), Failure(*found), 0.1, 1.7e9 + n)
        for n, found in enumerate(bad.items(), 30)
    ]
    final = seconds / 0.8
    with Database.open(path) as db:
        run = db.add_run(task, DEVICE, "evolutionary", 0, 32, {})
        db.add_trials(run, records)
        best = {
            "seconds": final, "peak_fraction": 0.8, "template": records[28].schedule.template, "trial": 28, "run": run,
            "schedule": dict(records[28].schedule.values), "spread": 0.02,
        }  # fmt: skip
        paired = {
            "default": {"ratio": 1.2, "low": 1.1, "high": 1.3},
            "numpy": {"ratio": 1.05, "low": 0.95, "high": 1.2, "confidence": 0.95},
        }  # fmt: skip
        peaks = {"flops": 26.2144e9, "bandwidth": 1e13}
        db.finish_run(run, "done", {"best": best, "paired": paired, "peaks": peaks, "ended": {"why": "trials"}})
        code = example_artifact(b"code")
        kernel = replace(example_kernel(task, 0, code, run), seconds=final, trial_number=28)
        db.set_kernels(task, DEVICE.model, run, [kernel], [code])
        softmax = get_operator("softmax").workload(shape="64,64")
        db.add_miss("softmax", softmax.params, TARGET.key, 3)
    return path


@pytest.fixture(scope="module")
def base(tuned: Path) -> Iterator[str]:
    bad = a_worker("bad-runner", quarantine="three failures in a row")
    with dashboard(tuned, Saying(a_status([a_worker("good-runner"), bad]))) as address:  # type: ignore[arg-type]
        yield address


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("width", [1440, 390])
def test_a_question_is_answered_within_two_clicks(record: Record, base: str, question: str, width: int) -> None:
    clicks, where, answers = QUESTIONS[question]
    page = record.page
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(base)
    assert len(clicks) <= 2
    for name in clicks:
        page.get_by_role("link", name=name, exact=True).first.click()
        page.wait_for_load_state()
    said = " ".join(text for text in page.locator(where).all_inner_texts())
    for answer in answers:
        assert answer in " ".join(said.split()), f"{question} {answer}"
    record.check()


def test_the_run_page_answers_in_order(page: Page, base: str, tuned: Path) -> None:
    """How fast, against what and is it sure, why, what next; all of it before anything else."""
    with Database.open(tuned, create=False, readonly=True) as db:
        page.goto(base + run_link(db.runs()[0].id))
    titles = page.locator("h2").all_inner_texts()
    assert titles[:4] == ["How fast", "Against what, and is it sure", "Why", "What next"]


def test_a_phone_shows_workload_and_time_first_and_the_run_last(page: Page, base: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    for address in ("/", "/runs", "/kernels", "/operators/matmul"):
        page.goto(base + address)
        for table in page.locator("table.data:has(th:text-is('Run'))").all():
            heads = [h for h in table.locator("th").all_inner_texts() if h != "Chosen"]
            assert [h.strip(" ↕▲▼") for h in heads[:2]] == ["Workload", "Final time"], address
            assert heads[-1] == "Run"
            time = table.locator("tbody td.num").first.bounding_box()
            assert time is not None
            assert time["x"] + time["width"] <= 390, address
        assert not sideways(page)


def test_no_page_is_taller_than_the_limit_and_folded_parts_are_accessible(page: Page, base: str, tuned: Path) -> None:
    with Database.open(tuned, create=False, readonly=True) as db:
        run = run_link(db.runs()[0].id)
    page.set_viewport_size({"width": 1440, "height": 900})
    for address in ("/", "/runs", run, f"{run}/trials/3", "/operators/matmul", "/kernels", "/misses", "/farm"):
        page.goto(base + address)
        until(page, "[...document.querySelectorAll('figure.chart')].every(f => f.dataset.kind)")
        page.evaluate("document.querySelectorAll('details').forEach(d => (d.open = true))")
        assert page.evaluate("document.documentElement.scrollHeight") <= TALLEST, address
        assert findings(page) == [], address
