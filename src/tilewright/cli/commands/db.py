"""``tilewright db``: upgrades, exports, imports, merges, shrinks and backs up databases."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tilewright.cli.declare import argument, declared, option, wants_json
from tilewright.cli.options import DB, DEVICE, ONLY_OP, location, open_database
from tilewright.cli.output import Ticker, console, emit_error, emit_json, report, say, seconds, task_json
from tilewright.core import UsageError
from tilewright.database.text import safe_text

if TYPE_CHECKING:
    from tilewright.database import Database
    from tilewright.database.transfer import Imported, Winner

F = TypeVar("F", bound=Callable[..., Any])


@click.group("db")
def command() -> None:
    """Upgrade, export, import, merge, shrink and back up databases.

    \b
    Examples:
      tilewright db stats
      tilewright db export runs.jsonl --op matmul
      tilewright db merge gpu1.db gpu2.db --db all.db --rebuild
      tilewright db export --best serve.db
      tilewright db gc --keep-runs 3 --dry-run
      tilewright db upgrade --db postgresql+psycopg://owner@db.example/tilewright --dry-run
    """


def _stoppable(after: str) -> Callable[[F], F]:
    """Decorator that reports Ctrl-C and SIGTERM in one line; ``after`` says what state they leave."""

    def decorate(function: F) -> F:
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except KeyboardInterrupt:
                emit_error(wants_json(), "interrupted", "Stopped", after)
                return 130

        return wrapped  # type: ignore[return-value]

    return decorate


def _transferred(verb: str) -> Ticker:
    return Ticker(f"{verb} {{:,}} runs, {{:,}} trials")


# --------------------------------------------------------------------------- upgrade, stats, gc


@declared("upgrade", command)
def upgrade(dry_run: bool = option(help="Show the steps, and change nothing."), db: str | None = DB) -> None:
    """Upgrade a database to this version's schema; on PostgreSQL, also make its tables.

    Every command that writes to a SQLite file upgrades it first, and keeps a copy. Only this command upgrades a
    PostgreSQL database; run it as the owner of the tables.

    \b
    Examples:
      tilewright db upgrade --dry-run
      tilewright db upgrade --db postgresql+psycopg://owner@db.example/tilewright
    """
    from tilewright.database.migrate import upgrade_database

    steps = upgrade_database(location(db), dry_run=dry_run)
    lines = [line for step in steps for line in step.splitlines()]
    report({"dry_run": dry_run, "steps": steps}, *lines)


@declared("stats", command)
def stats(db: str | None = DB) -> None:
    """Show rows by table, bytes, and imported winners that are not built yet.

    \b
    Examples:
      tilewright db stats
      tilewright db stats --db all.db --json
    """
    from tilewright.database.transfer import winners

    with open_database(db) as database:
        found = database.stats()
        waiting = winners(database, states=("pending", "failed"))
        location = database.location
    pending = sum(w.state == "pending" for w in waiting)
    failed = len(waiting) - pending
    lines = [f"{location}: {_megabytes(found.bytes)}, {_megabytes(found.artifact_bytes)} of them compiled code"]
    lines += [f"{count:>12,} {table}" for table, count in found.rows.items()]
    if waiting:
        lines.append(
            f"{pending} imported winners are not built yet, {failed} failed to build. List them: tilewright db pending"
        )
    data = {
        "database": location, "rows": dict(found.rows), "bytes": found.bytes,
        "artifact_bytes": found.artifact_bytes, "pending": pending, "failed": failed,
    }  # fmt: skip
    report(data, *lines)


@declared("gc", command)
@_stoppable("Some runs are removed completely; the others are unchanged")
def gc(
    keep_runs: int | None = option(low=0, metavar="N", help="Keep the newest N runs of each task."),
    older_than: float | None = option(low=0, metavar="DAYS", help="Remove runs that started more than DAYS ago."),
    dry_run: bool = option(help="Show what would be removed, and remove nothing."),
    db: str | None = DB,
) -> None:
    """Remove old runs with their trials, and rows that nothing refers to.

    The command never removes kernels, their code, the runs that found them, running runs, and runs whose imported
    winners are not built yet. Without --keep-runs or --older-than it removes no run.

    \b
    Examples:
      tilewright db gc --keep-runs 3 --dry-run
      tilewright db gc --older-than 90
    """
    from tilewright.database.transfer import collect

    if keep_runs is not None and older_than is not None:
        raise UsageError("--keep-runs and --older-than are given together", "Pass one of them")
    with open_database(db, readonly=dry_run) as database:
        freed = collect(
            database, keep_runs=keep_runs, older_than=older_than, dry_run=dry_run,
            progress=Ticker("looked at {:,} of {:,} runs"),
        )  # fmt: skip
        rows = len(freed.runs) + freed.aliases + freed.workloads + freed.targets + freed.artifacts
        shrunk = database.vacuum() if rows and not dry_run else 0
    lines = [
        f"{'would remove' if dry_run else 'removed'} {len(freed.runs)} runs with {freed.trials:,} trials "
        f"({_megabytes(freed.text_bytes)}), {freed.workloads} workloads, {freed.aliases} aliases, "
        f"{freed.targets} targets, {freed.artifacts} pieces of code ({_megabytes(freed.code_bytes)})",
        *(f"kept {count} old runs: {why}" for why, count in freed.kept.items()),
    ]
    if not dry_run:
        lines.append(f"the database is {_megabytes(max(shrunk, 0))} smaller")
    report({"dry_run": dry_run, **vars(freed), "freed_bytes": shrunk}, *lines)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


# --------------------------------------------------------------------------- export, backup


@declared("export", command)
@_stoppable("No file was written or changed")
def export(
    file: str = argument(metavar="FILE|-"),
    best: bool = option(help="Write the fastest kernels with their code: a SQLite file for Library."),
    op: str | None = ONLY_OP,
    runs: tuple[str, ...] = option("--run", metavar="ID", help="Only this run, or last. May be repeated."),
    db: str | None = DB,
) -> None:
    """Write runs, trials and winners as JSON Lines (- for stdout), or with --best a database for serving.

    JSON Lines contain no compiled code. The file of --best does: a program that opens it runs that code.

    \b
    Examples:
      tilewright db export runs.jsonl
      tilewright db export - --op matmul | zstd > matmul.jsonl.zst
      tilewright db export --best serve.db --db postgresql+psycopg://reader@db.example/tilewright
    """
    from tilewright.database.transfer import export_best, export_file, export_lines

    if best and (runs or file == "-"):
        raise UsageError("--best writes a database file of all runs", "Name a file, and remove --run")
    if wants_json() and file == "-":
        raise UsageError("--json and the export would both go to stdout", "Name a file, or remove --json")
    ticker = _transferred("exported")
    with open_database(db) as database:
        if best:
            count = export_best(database, Path(file), op, Ticker("exported {:,} of {:,} kernels"))
            report({"file": file, "kernels": count}, f"{file}: {count} kernels with their code")
            return
        if file == "-":
            _to_stdout(export_lines(database, op, runs, ticker))
            return
        export_file(database, Path(file), op, runs, ticker)
    size = Path(file).stat().st_size
    report({"file": file, "bytes": size}, f"{file}: {_megabytes(size)}")


def _to_stdout(lines: Iterable[str]) -> None:
    """Writes lines past ``sys.stdout``'s buffer: at exit Python would write again what a full disk refused."""
    from tilewright.database.errors import explain

    try:
        with open(sys.stdout.fileno(), "w", encoding="ascii", closefd=False) as out:
            out.writelines(lines)
    except BrokenPipeError:
        raise
    except OSError as e:
        raise explain("stdout", e) from None


@declared("backup", command)
@_stoppable("No file was written or changed")
def backup(
    file: str = argument(metavar="FILE"), force: bool = option(help="Replace an existing file."), db: str | None = DB
) -> None:
    """Copy a SQLite database to one consistent file, also while programs use it.

    To restore the backup: stop all programs that use the database, remove the files -wal and -shm beside it, and copy
    the backup over it. Back a PostgreSQL database up with pg_dump.

    \b
    Examples:
      tilewright db backup tuned-backup.db
      tilewright db backup nightly.db --force --db tuned.db
    """
    from tilewright.database.transfer import backup as copy

    with open_database(db) as database:
        size = copy(database, Path(file), force)
    report({"file": file, "bytes": size}, f"{file}: {_megabytes(size)}")


# --------------------------------------------------------------------------- import, merge, rebuild

_AFTER_IMPORT = "Complete runs are stored; run the same command again for the others"
_REBUILD = option(help="Then build the imported winners for this machine's devices.")
_TRUST = option(help="Also build operators and kernels that others wrote. This runs their code.")


@declared("import", command)
@_stoppable(_AFTER_IMPORT)
def import_(
    file: str = argument(metavar="FILE|-"),
    rebuild: bool = _REBUILD,
    trust: bool = _TRUST,
    device: str = DEVICE,
    db: str | None = DB,
) -> int:
    """Import an export (- for stdin). Each run is imported completely or not at all; a second import adds nothing.

    Winners are served once tilewright db rebuild has built and checked them on this machine. Exit code 1 if a run
    conflicts with a stored one.

    \b
    Examples:
      tilewright db import runs.jsonl
      zstdcat matmul.jsonl.zst | tilewright db import - --rebuild
    """
    from tilewright.database.transfer import import_file, import_stream

    ticker = _transferred("read")
    with open_database(db, create=True, readonly=False) as database:
        if file == "-":
            found = import_stream(database, sys.stdin.buffer, "stdin", ticker)
        else:
            found = import_file(database, Path(file), ticker)
        return _finish(database, [(file, found)], rebuild, trust, device)


@declared("merge", command)
@_stoppable(_AFTER_IMPORT)
def merge(
    sources: tuple[str, ...] = argument(metavar="SOURCE...", required=True),
    rebuild: bool = _REBUILD,
    trust: bool = _TRUST,
    device: str = DEVICE,
    db: str | None = DB,
) -> int:
    """Import the runs, trials and winners of other databases: files, or PostgreSQL URLs.

    Compiled code is not copied. A second merge adds only what is new. Exit code 1 if a run conflicts with a stored
    one.

    \b
    Examples:
      tilewright db merge gpu1.db gpu2.db --db all.db
      tilewright db merge tuned.db --db postgresql+psycopg://writer@db.example/tilewright
    """
    from tilewright.database import Database
    from tilewright.database.transfer import merge as bring

    found = []
    with open_database(db, create=True, readonly=False) as database:
        for source in sources:
            with Database.open(source, create=False, readonly=True) as other:
                found.append((other.location, bring(database, other, _transferred("read"))))
        return _finish(database, found, rebuild, trust, device)


def _finish(database: Database, found: list[tuple[str, Imported]], rebuild: bool, trust: bool, device: str) -> int:
    """Reports the imported rows, builds the winners if ``rebuild``, and returns the exit code."""
    out = console(stderr=wants_json())
    for name, i in found:
        out.print(
            safe_text(
                f"{name}: {i.new_runs} of {i.runs} runs and {i.new_trials:,} of {i.trials:,} trials are new, "
                f"{i.new_winners} winners are not built yet"
            )
        )
        for conflict in i.conflicts:
            out.print(f"[red]refused: {safe_text(conflict)}[/red]")
    conflicts = [c for _, i in found for c in i.conflicts]
    built, failed = _rebuild(database, None, device, False, trust) if rebuild else ([], 0)
    if not rebuild and any(i.new_winners for _, i in found):
        out.print("Build the winners on a machine with their device: tilewright db rebuild")
    sources = [{"source": name} | {k: n for k, n in vars(i).items() if k != "conflicts"} for name, i in found]
    report({"sources": sources, "conflicts": conflicts, "rebuilt": built})
    return 1 if conflicts or failed else 0


@declared("pending", command)
def pending(op: str | None = ONLY_OP, db: str | None = DB) -> None:
    """List imported winners that are not built on this machine: waiting, or failed.

    \b
    Examples:
      tilewright db pending
      tilewright db pending --op matmul --json
    """
    from tilewright.database.transfer import winners

    with open_database(db) as database:
        found = winners(database, op, ("pending", "failed"))
    lines = []
    for w in found:
        state = f"failed: {w.problem}" if w.state == "failed" else "not built yet"
        lines.append(f"{_winner_label(w)}, {seconds(w.seconds)} where it was tuned: {state}")
    rows = [_winner_row(w) | {"state": w.state, "problem": w.problem} for w in found]
    report({"winners": rows}, *(lines or ["every imported winner is built"]))


@declared("rebuild", command)
@_stoppable("Finished winners are stored; run the same command again for the others")
def rebuild(
    op: str | None = ONLY_OP,
    again: bool = option(help="Also build winners that failed before."),
    trust: bool = _TRUST,
    device: str = DEVICE,
    db: str | None = DB,
) -> int:
    """Build imported winners for this machine's devices, check them, and time them against the stored kernels.

    A winner that is right, and faster than the stored kernel, is served from then on. Exit code 1 if one failed.

    \b
    Examples:
      tilewright db rebuild
      tilewright db rebuild --op matmul --device cpu:0 --again
    """
    with open_database(db, readonly=False) as database:
        rows, failed = _rebuild(database, op, device, again, trust)
    report({"rebuilt": rows, "failed": failed})
    return 1 if failed else 0


def _rebuild(
    database: Database, op: str | None, device: str, again: bool, trust: bool
) -> tuple[list[dict[str, Any]], int]:
    """Builds winners and prints a line for each; returns their rows of JSON and the number of failures."""
    from tilewright.database.transfer import winners
    from tilewright.tuner.import_winners import import_winners

    out = console(stderr=wants_json())
    total = 0

    def started(count: int) -> None:
        nonlocal total
        total = count
        others = len(winners(database, op)) - count
        more = f"; {others} are for other devices" if others > 0 else ""
        out.print(f"{count} winners to build on this machine{more}")

    rows: list[dict[str, Any]] = []
    for r in import_winners(
        database, op=op, device=device, again=again, trust=trust, on_start=started,
        on_wait=lambda holder: say(f"waiting for the device: {holder}"),
    ):  # fmt: skip
        rows.append(_winner_row(r.winner) | {"state": r.state, "seconds_here": r.seconds, "problem": r.problem})
        here = f", {seconds(r.seconds)} here" if r.seconds else ""
        why = f": {r.problem}" if r.problem else ""
        shown = safe_text(f"{r.state}{here}{why}")
        shown = f"[red]{shown}[/red]" if r.state == "failed" else shown
        out.print(f"{len(rows)}/{total} {safe_text(_winner_label(r.winner))}: {shown}")
    return rows, sum(r["state"] == "failed" for r in rows)


def _winner_label(w: Winner) -> str:
    task = w.task
    return f"{task.workload.label} x{task.target.threads} on {w.device_model}, run {w.run_id} rank {w.rank}"


def _winner_row(w: Winner) -> dict[str, Any]:
    return {
        **task_json(w.task), "device_model": w.device_model, "run": w.run_id, "rank": w.rank,
        "template": w.schedule.template, "schedule": dict(w.schedule.values), "seconds": w.seconds,
    }  # fmt: skip


# --------------------------------------------------------------------------- roles


@declared("grants", command)
def grants(
    owner: str = option(required=True, metavar="ROLE", help="Role that owns the tables and upgrades them."),
    writer: str = option(required=True, metavar="ROLE", help="Role that tunes: reads and writes rows."),
    reader: str = option(required=True, metavar="ROLE", help="Role that reads rows."),
    schema: str = option(default="public", metavar="NAME", help="Schema of the tables."),
) -> None:
    """Print the SQL that grants three PostgreSQL roles the rights they need, and no more.

    \b
    Examples:
      tilewright db grants --owner tw_owner --writer tw_writer --reader tw_reader | psql tilewright
    """
    from tilewright.database.postgresql.grants import grants as script

    text = script(owner, writer, reader, schema)
    if wants_json():
        emit_json({"sql": text})
    else:
        click.echo(text, nl=False)
