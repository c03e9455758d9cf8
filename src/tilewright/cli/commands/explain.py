"""``tilewright explain RUN``: shows what bounds the winner, which knobs matter, and what to try next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.commands.plot import Source
from tilewright.cli.counters import print_profile
from tilewright.cli.declare import declared, option, wants_json
from tilewright.cli.options import DB, PARAMS, RUN, chosen_run, open_database
from tilewright.cli.output import console, emit_json, say
from tilewright.core import Candidate, TilewrightError, UsageError
from tilewright.database.text import safe_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from tilewright.core import TrialRecord
    from tilewright.database import StoredRun
    from tilewright.insight.counters import Profile
    from tilewright.insight.explain import Explanation


@declared("explain")
def command(
    run: str = RUN,
    params: tuple[str, ...] = PARAMS,
    output: str | None = option(
        "-o", "--output", metavar="FILE", help="Also draw the charts: a file that ends in .svg, .png or .pdf."
    ),
    dark: bool = option(help="Draw on a dark background."),
    profile: bool = option(
        help="Also run the winner on this machine's GPU under NVIDIA Nsight Compute, and show its hardware counters."
    ),
    db: str | None = DB,
) -> None:
    """Explain one run: its winner and what bounds it, why the search ended, which knobs matter, and what to try next.

    RUN is a run's identifier, "last", or an operator (a name, or FILE.py:function): its newest run, with the
    parameters KEY=VALUE. The limits are those of the device that the run measured on.

    \b
    Examples:
      tilewright explain
      tilewright explain matmul m=1024 -o run.svg
      tilewright explain 20261120-101500-ab12 --json
      tilewright explain last --profile
    """
    from tilewright.insight.explain import charts, explain
    from tilewright.plots import check_path, draw

    target = check_path(Path(output).expanduser()) if output is not None else None
    with open_database(db) as database:
        source = Source(database, chosen_run(database, run, params))
        found = explain(source.run, source.records, source.points, db)
        drawn = charts(found, source.points)
        counted = _profile(source.run, source.records, found) if profile else None
    if target is not None:
        draw(drawn, target, dark)
    if wants_json():
        data = {**found.to_json(), "charts": [c.to_json() for c in drawn], "file": str(target) if target else None}
        if (won := found.winner) is not None:  # keys of version 0.1
            data["winner"] |= {
                "seconds": won.search_seconds, "final": won.final_seconds, "default": won.default_search_seconds,
                "paired": won.gain and won.gain.ratio,
            }  # fmt: skip
        emit_json(data if counted is None else {**data, "profiles": [p.to_json() for p in counted]})
        return
    _print(found)
    for p in counted or ():
        console().print()
        print_profile(console(), p.kernel, p)
    if target is not None:
        say(f"wrote {target}")


def _profile(run: StoredRun, records: Sequence[TrialRecord], found: Explanation) -> tuple[Profile, ...]:
    """The hardware counters of the winner's kernels. Raises ``TilewrightError``."""
    from tilewright.checking.check import subject_of
    from tilewright.insight.counters import Reader, read_subject

    if run.task.target.kind != "cuda" or found.winner is None:
        what = "has no winner" if found.winner is None else f"is for {run.task.target.name}"
        raise UsageError(f"--profile needs the winner of a CUDA run, but run {run.id} {what}", "Remove --profile")
    number = found.winner.trial
    schedule = next(r.schedule for r in records if r.number == number)
    reader = Reader.find(run.task.target)
    [counted] = reader.profiles([read_subject(subject_of(Candidate(run.task, schedule)))])
    if isinstance(counted, TilewrightError):
        raise counted
    return counted


def _print(found: Explanation) -> None:
    out = console()
    out.print(safe_text(f"run {found.run}: {found.label}"), style="bold")
    for heading, paragraphs in found.parts():
        _head(out, heading)
        for paragraph in paragraphs:
            _paragraph(out, paragraph)
    if found.steps:
        _head(out, "Next")
    for n, step in enumerate(found.steps, 1):
        _paragraph(out, f"{n}. {step.do} ({step.why.removesuffix('.')}.)")
        if step.command:
            # Never wrapped, so that it can be copied.
            out.print(safe_text(f"       {step.command}"), style="cyan", soft_wrap=True)


def _head(out: Console, text: str) -> None:
    out.print()
    out.print(text, style="bold")


def _paragraph(out: Console, text: str) -> None:
    from rich.padding import Padding

    out.print(Padding(safe_text(text), (0, 0, 0, 2), expand=False))
