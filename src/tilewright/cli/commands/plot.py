"""``tilewright plot RUN``: draws charts of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.caching import cached_property
from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import DB, PARAMS, RUN, chosen_run, open_database
from tilewright.cli.output import emit_json, say
from tilewright.core import TrialRecord, UsageError
from tilewright.database.text import visible_text
from tilewright.insight import best, calibration, compare, failures, importance, knobs, roofline

if TYPE_CHECKING:
    from tilewright.database import Database, StoredRun
    from tilewright.database.records import TrialPoint
    from tilewright.insight.chart import Chart

RECORDS = 2000
"""Most whole trials that a chart uses; of a longer run, the fastest trial and an even sample."""


@dataclass(frozen=True)
class Source:
    """The data of charts: a run, and the runs to compare it with. Trials are read when a chart first needs them."""

    database: Database
    run: StoredRun
    others: tuple[StoredRun, ...] = ()
    knob: str = ""

    @cached_property
    def points(self) -> list[TrialPoint]:
        return self.database.points(self.run.id)

    @cached_property
    def records(self) -> list[TrialRecord]:
        return self.database.sample_trials(self.run.id, RECORDS)

    @property
    def label(self) -> str:
        return self.run.task.workload.label


def _roofline(s: Source) -> Chart:
    trials = [(s.run.id, r) for r in s.records]
    tasks = [roofline.TaskTrials(s.run.task, trials)]
    return roofline.roofline(tasks, roofline.ceilings_of(s.run), f"Roofline: {s.label}")


def _failures(s: Source) -> Chart:
    return failures.failure_bars(failures.failure_groups(s.run.failed, s.run.trials, {}), s.run.trials)


def _knob(s: Source) -> Chart:
    if not s.knob:
        names = knobs.knob_values(s.records, knobs.main_template(s.records))
        raise UsageError("no knob is named", f"Add --knob NAME, with one of {', '.join(names)}")
    return knobs.knob_chart(s.run.id, s.records, s.knob)


def _compare(s: Source) -> Chart:
    if not s.others:
        raise UsageError("--chart compare needs another run", "Add --with RUN, a run of the same task")
    return compare.compare_chart((s.run, *s.others), [s.points, *(s.database.points(o.id) for o in s.others)])


CHARTS: dict[str, Callable[[Source], Chart]] = {
    "best": lambda s: best.best_over_trials(s.points, s.label),
    "time": lambda s: best.best_over_time(s.points, s.run.started, s.label),
    "calibration": lambda s: calibration.calibration_chart(s.points, s.label),
    "learning": lambda s: calibration.calibration_over_run(s.points),
    "roofline": _roofline,
    "importance": lambda s: importance.importance_bars(importance.importance(s.records)),
    "failures": _failures,
    "knob": _knob,
    "parallel": lambda s: knobs.parallel_chart(s.run.id, s.records),
    "compare": _compare,
}
ALL = "all"


@declared("plot")
def command(
    run: str = RUN,
    params: tuple[str, ...] = PARAMS,
    output: str | None = option(
        "-o",
        "--output",
        metavar="FILE",
        help="File to write, which ends in .svg, .png or .pdf. With --chart all: a folder.",
    ),
    chart: str | None = option(type=click.Choice([*CHARTS, ALL]), help="Chart to draw. [default: best]"),
    knob: str | None = option(metavar="NAME", help="Draw the times by the values of this knob."),
    others: tuple[str, ...] = option(
        "--with", metavar="RUN", help="Compare with this run of the same task. May be repeated."
    ),
    dark: bool = option(help="Draw on a dark background."),
    suffix: str = option(
        "--format", type=click.Choice(["svg", "png", "pdf"]), default="svg", help="Format of the files of --chart all."
    ),
    db: str | None = DB,
) -> None:
    """Draw charts of one run.

    RUN is a run's identifier, "last", or an operator (a name, or FILE.py:function): its newest run, with the
    parameters KEY=VALUE. The command replaces existing files. With --json it prints the chart's numbers, and
    needs no file.

    \b
    Charts:
      best         best time so far, by trial           roofline    rates, and the device's limits
      time         best time so far, by seconds         importance  which knobs matter
      calibration  predicted and measured times         knob        times by one knob (--knob)
      learning     errors of the cost model, by trial   parallel    all knobs at once
      failures     failures by kind                     compare     several runs (--with)

    \b
    Examples:
      tilewright plot -o run.svg
      tilewright plot last --chart roofline --dark -o roofline.png
      tilewright plot last --chart all -o charts/
      tilewright plot last --chart best --json
    """
    name = chart or ("knob" if knob else "compare" if others else "best")
    _check_use(name, knob, others)
    target = _target(name, output)
    with open_database(db) as database:
        source = Source(database, chosen_run(database, run, params), tuple(database.run(o) for o in others), knob or "")
        charts = _all(source) if name == ALL else {name: CHARTS[name](source)}
    charts = {n: _titled(c, source.label) for n, c in charts.items()}
    files = _write(charts, target, suffix if name == ALL else "", dark) if target else {}
    if wants_json():
        shown = {n: c.to_json() for n, c in charts.items()}
        one = {"chart": name, "data": shown.get(name), "file": files.get(name)}
        emit_json({"run": source.run.id, **({"charts": shown, "files": files} if name == ALL else one)})
    else:
        for n, path in files.items():
            say(f"wrote {path} ({n}). {visible_text(charts[n].alt)}")


def _check_use(name: str, knob: str | None, others: tuple[str, ...]) -> None:
    if knob and name not in ("knob", ALL):
        raise UsageError(f"--knob does not go with --chart {name}", "Remove one of the two")
    if others and name not in ("compare", ALL):
        raise UsageError(f"--with does not go with --chart {name}", "Remove one of the two")


def _target(name: str, output: str | None) -> Path | None:
    """The file or folder to write; errors of its path come before the database is read."""
    from tilewright.plots import check_path

    if output is None:
        if not wants_json():
            raise UsageError("no file is given", "Add -o run.svg, or --json for the numbers")
        return None
    path = Path(output).expanduser()
    if name != ALL:
        return check_path(path)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is not a folder, and --chart all writes several files", "Write -o FOLDER")
    return path


def _all(source: Source) -> dict[str, Chart]:
    """All charts for which the source has data."""
    without = {"knob"} if not source.knob else set()
    without |= {"compare"} if not source.others else set()
    without |= {"knob", "parallel", "importance"} if not source.records else set()
    return {name: make(source) for name, make in CHARTS.items() if name not in without}


def _titled(chart: Chart, label: str) -> Chart:
    """A chart with the workload's label in its title."""
    return chart if label in chart.title else replace(chart, title=f"{chart.title}: {label}")


def _write(charts: dict[str, Chart], target: Path, suffix: str, dark: bool) -> dict[str, str]:
    """Draws charts into ``target``, one file, or with a ``suffix`` a folder of files; returns the files by chart."""
    from tilewright.plots import draw

    if not suffix:
        return {name: str(draw(chart, target, dark)) for name, chart in charts.items()}
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(f"cannot make the folder {target}: {e.strerror}", "Name another one with -o") from None
    return {name: str(draw(chart, target / f"{name}.{suffix}", dark)) for name, chart in charts.items()}
