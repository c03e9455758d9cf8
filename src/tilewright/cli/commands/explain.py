"""``tilewright explain RUN``: what bounds the winner, which knobs mattered, what to try next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.commands.plot import Source
from tilewright.cli.options import chosen_run, db_option, json_option, open_database, run_argument
from tilewright.cli.output import console, emit_json, say
from tilewright.database.text import safe_text

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.insight.explain import Explanation


@click.command("explain")
@run_argument
@click.option("-o", "--output", metavar="FILE", help="Draw it too: a file.svg, .png or .pdf.")
@click.option("--dark", is_flag=True, help="Light on a dark ground.")
@db_option
@json_option
def command(run: str, params: tuple[str, ...], output: str | None, dark: bool, db: str | None, as_json: bool) -> None:
    """Explain one run: the winner and what bounds it, why the search ended, which knobs mattered and how sure that
    is, and what to try next.

    RUN is a run's identifier, "last", or an operator: the newest run of it, with parameters KEY=VALUE. The
    limits are those of the device that the run was on, as the run stored them.

    \b
    Examples:
      tilewright explain
      tilewright explain matmul m=1024 -o run.svg
      tilewright explain 20261120-101500-ab12 --json
    """
    from tilewright.insight.explain import charts, explain
    from tilewright.plots import check_path, draw

    target = check_path(Path(output).expanduser()) if output is not None else None
    with open_database(db) as database:
        source = Source(database, chosen_run(database, run, params))
        found = explain(source.run, source.records, source.points, db)
        drawn = charts(found, source.points)
    if target is not None:
        draw(drawn, target, dark)
    if as_json:
        data = {**found.to_json(), "charts": [c.to_json() for c in drawn], "file": str(target) if target else None}
        emit_json(data)
        return
    _print(found)
    if target is not None:
        say(f"drawn in {target}")


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
            # On one line however long it is, so that it can be copied.
            out.print(safe_text(f"       {step.command}"), style="cyan", soft_wrap=True)


def _head(out: Console, text: str) -> None:
    out.print()
    out.print(text, style="bold")


def _paragraph(out: Console, text: str) -> None:
    from rich.padding import Padding

    out.print(Padding(safe_text(text), (0, 0, 0, 2), expand=False))
