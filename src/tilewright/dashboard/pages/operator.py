"""``/operators/OP``: an operator's best kernels by workload and device, its roofline, and a kernel's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from tilewright.core import TrialRecord
from tilewright.dashboard.listings import runs_table
from tilewright.dashboard.page import Page, part, text
from tilewright.dashboard.site import Site
from tilewright.dashboard.sources import stored
from tilewright.database.records import OperatorSummary, RunFilter, TaskSummary
from tilewright.errors import NotFound
from tilewright.insight import roofline
from tilewright.insight.chart import XY, Column, Table
from tilewright.insight.links import kernel_links, operator_link
from tilewright.units import per_second

RUNS = 20
SECONDS = 5.0


def _summary(site: Site, request: Request) -> OperatorSummary:
    op = part(request, "op")
    for found in site.operators():
        if found.op == op:
            return found
    raise NotFound(f"operator {op!r} has no stored runs", "Choose an operator from the list of operators")


def _tasks(site: Site, op: str) -> Sequence[TaskSummary]:
    return site.answers.get(("tasks", op), SECONDS, lambda: site.database.operator_workloads(op))


def _device(site: Site, request: Request) -> tuple[str, list[str]]:
    """The device model whose roofline is shown, and all device models, the one with the most trials first."""
    op = _summary(site, request).op
    trials: dict[str, int] = {}
    for t in _tasks(site, op):
        trials[t.device_model] = trials.get(t.device_model, 0) + t.trials
    names = sorted(trials, key=lambda d: -trials[d])
    wanted = text(request, "device")
    return wanted if wanted in names else (names[0] if names else ""), names


def _roofline(site: Site, request: Request) -> XY:
    op = _summary(site, request).op
    device, _ = _device(site, request)

    return site.answers.get(("roofline", op, device), 30.0, lambda: _drawn(site, op, device))


def _drawn(site: Site, op: str, device: str) -> XY:
    tasks = {(t.task.workload.key, t.task.target.key): t for t in _tasks(site, op) if t.device_model == device}
    groups: dict[tuple[str, str], list[tuple[str, TrialRecord]]] = {}
    for row in site.database.operator_trials(op, device_model=device, unreadable=[]):
        groups.setdefault((row.workload_key, row.target_key), []).append((row.run_id, row.trial))
    shown = [roofline.TaskTrials(tasks[key].task, trials) for key, trials in groups.items() if key in tasks]
    return roofline.roofline(shown, _ceilings(site, op, device), f"Roofline of {op} on {device}")


def _ceilings(site: Site, op: str, device: str) -> roofline.Ceilings:
    """The highest ceilings that the device's latest runs measured: a run on a busy machine measures lower ceilings."""
    runs = site.database.list_runs(RunFilter(op=op, state="done", device_model=device), RUNS, unreadable=[])
    return roofline.most(map(roofline.ceilings_of, runs))


def _shapes(site: Site, request: Request) -> Table:
    tasks = _tasks(site, _summary(site, request).op)
    columns = (
        Column("workload", "Workload"), Column("final_seconds", "Final time", "s", True),
        Column("rate", "Rate", "flop/s", True), Column("peak", "Share of the peak", "share", True),
        Column("device", "Device"), Column("target", "Target"), Column("template", "Template"),
        Column("state", "State"),
        Column("trials", "Trials", numeric=True), Column("trial", "Trial"), Column("run", "Run"),
        Column("seconds", "Final time", "s", True, shown=False),
    )  # fmt: skip
    rows = []
    for t in tasks:
        w, k = t.task.workload, t.best
        rows.append(
            (
                w.label, k.seconds if k else None, per_second(w.flops, k.seconds) if k else None,
                k.peak_fraction if k else None, t.device_model, f"{t.task.target.name} x{t.task.target.threads}",
                k.schedule.template if k else None, k.state if k else None, t.trials,
                k.trial_number if k else None, k.run_id if k else None, k.seconds if k else None,
            )
        )  # fmt: skip
    links = kernel_links(t.best for t in tasks)
    title = "Best kernels by workload and device"
    return Table("shapes", title, columns, tuple(rows), links | {"workload": links["run"]})


def _runs(site: Site, request: Request) -> Table:
    where = RunFilter(op=_summary(site, request).op)
    return runs_table("runs", "Latest runs", site.database.list_runs(where, RUNS, unreadable=[]))


def _view(site: Site, request: Request) -> Mapping[str, Any]:
    summary = _summary(site, request)
    device, devices = _device(site, request)
    best = [t for t in _tasks(site, summary.op) if t.best and t.device_model == device]
    source, note = "", ""
    if best:
        # The source of the shape with the most operations represents the operator best.
        task = max(best, key=lambda t: t.task.workload.flops)
        assert task.best is not None
        found = stored(site, task.best.artifact_sha256)
        source, note = found.text, f"{task.task.workload.label} on {task.device_model}. {found.note}"
    return {
        "title": summary.op, "op": summary.op, "summary": summary, "base": operator_link(summary.op), "device": device,
        "devices": devices, "shapes": _shapes(site, request), "runs": _runs(site, request), "source": source,
        "source_note": note,
    }  # fmt: skip


PAGE = Page(
    "/operators/{op}", "operator", "/operators", _view, tables={"shapes": _shapes, "runs": _runs},
    charts={"roofline": _roofline},
)  # fmt: skip
