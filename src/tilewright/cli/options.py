"""Options that several commands share, and the parser of ``OP key=value...``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import click

from tilewright.cli import complete
from tilewright.cli.declare import argument, option
from tilewright.core import Target, UsageError, Workload
from tilewright.errors import NotFound, nearest
from tilewright.kernels.operators import get_operator

if TYPE_CHECKING:
    from tilewright.database import Database, StoredRun

OP = argument(metavar="OP", shell_complete=complete.operators)
OP_IF_ANY = argument(metavar="[OP]", required=False, shell_complete=complete.operators)
PARAMS = argument(metavar="[KEY=VALUE]...", shell_complete=complete.parameters)
RUN = argument(default="last", metavar="[RUN]", shell_complete=complete.runs)
DTYPE = option(metavar="NAME", help="Element type, such as float32; the same as dtype=NAME.")
DB = option(
    metavar="PATH", envvar="TILEWRIGHT_DB",
    help="Database: a file, or a PostgreSQL URL. [default: $TILEWRIGHT_DB, else a file in the user's data directory]",
)  # fmt: skip
TARGET = option(
    default="auto", metavar="NAME", envvar="TILEWRIGHT_TARGET", show_envvar=True,
    help="Target of the code: auto, cpu, cpu:avx512, cpu:avx2, cpu:portable, cuda, cuda:sm_80 to cuda:sm_120, opencl, "
    "opencl:0, emulator.",
)  # fmt: skip
ONLY_OP = option(
    "--op", metavar="OP", shell_complete=complete.operators,
    callback=lambda _ctx, _param, op: op and stored_name(op),
    help="Only this operator: a name, or FILE.py:function.",
)  # fmt: skip
THREADS = option(low=1, default=1, envvar="TILEWRIGHT_THREADS", show_envvar=True, help="Threads of the kernel.")
DEVICE = option(
    default="auto", envvar="TILEWRIGHT_DEVICE", show_envvar=True,
    help="Device that measures: cpu:0, cpu:0-1, cuda:0, opencl:0.",
)  # fmt: skip


def location(db: str | None) -> str:
    """Path or URL of the database of ``--db``."""
    from tilewright.paths import default_path

    return db or default_path()


def open_database(db: str | None, *, create: bool = False, readonly: bool = True) -> Database:
    """Opens the database of ``--db``. Raises ``DatabaseError``."""
    from tilewright.database import Database

    return Database.open(location(db), create=create, readonly=readonly)


class Duration(click.ParamType[float]):
    """Parses a duration in seconds, or with the suffix s, m or h."""

    name = "duration"
    _UNITS: ClassVar = {"": 1, "s": 1, "m": 60, "h": 3600}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*([smh]?)", str(value).strip())
        seconds = float(found[1]) * self._UNITS[found[2]] if found else 0.0
        if not seconds:
            self.fail(f"{value!r} is not a time above 0: write seconds, or 90s, 30m, 2h", param, ctx)
        return seconds


def parse_params(params: Sequence[str], dtype: str | None) -> dict[str, str]:
    """Parses ``("m=512", ...)`` into a dictionary of texts; the operator converts the values."""
    out: dict[str, str] = {}
    for p in params:
        name, sep, value = p.partition("=")
        if not sep or not name.isidentifier() or not value:
            example = f"{name}=512" if name.isidentifier() and not value else f"n={p}" if p.isdecimal() else "m=512"
            raise UsageError(f"{p!r} is not KEY=VALUE", f"Write {example}")
        if name in out:
            raise UsageError(f"{name} is given twice", "Write each key once")
        out[name] = value
    if dtype:
        if out.get("dtype", dtype) != dtype:
            raise UsageError("dtype is given twice with different values", "Write --dtype or dtype=, not both")
        out["dtype"] = dtype
    return out


def stored_name(op: str) -> str:
    """The name under which an operator is stored; for ``FILE.py:function``, the operator's own name."""
    return get_operator(op).name if ":" in op or op.endswith(".py") else op


def workload_of(op: str, params: Sequence[str], dtype: str | None) -> Workload:
    return get_operator(op).workload(**parse_params(params, dtype))


def matches(workload: Workload, params: Mapping[str, Any]) -> bool:
    """Whether a workload has parameters, defaults included; values are compared as texts."""
    own = {name: str(value) for name, value in (*workload.defaults, *workload.params)}
    return {name: str(value) for name, value in params.items()}.items() <= own.items()


def runs_of(database: Database, op: str | None, params: Sequence[str], limit: int | None = None) -> list[StoredRun]:
    """Runs of an operator's workloads that match ``params``, the newest first. Raises ``UsageError``."""
    asked = parse_params(params, None)
    found = database.runs(None if asked else limit, op and stored_name(op))
    return [r for r in found if matches(r.task.workload, asked)][:limit]


def chosen_run(database: Database, run: str, params: Sequence[str]) -> StoredRun:
    """A run by its identifier or ``last``, or an operator's newest run that matches ``params``.

    Raises ``UsageError`` without a run.
    """
    if not params:
        try:
            return database.run(run)
        except NotFound:
            if run == "last":
                raise
    found = runs_of(database, None if run == "last" else run, params, 1)
    if found:
        return found[0]
    known = {r.task.workload.op for r in database.runs(complete.NEWEST)} | {"last"}
    near = "" if run in known else nearest(run, sorted(known))
    raise NotFound(
        f"{database.location} holds no run {' '.join((run, *params))!r}", f"{near}List the runs: tilewright runs"
    )


def stored_workload(op: str, params: Sequence[str], dtype: str | None, db: str | None) -> Workload:
    """A workload of a known operator, or of an unknown operator whose kernels the database holds.

    Raises ``UsageError`` without a workload, and if the parameters match several.
    """
    try:
        return workload_of(op, params, dtype)
    except UsageError as unknown:
        if not unknown.message.startswith("unknown operator"):
            raise
        asked = parse_params(params, dtype)
        with open_database(db) as database:
            own = [k.task.workload for k in database.kernels(op) if k.rank == 1 and k.task.workload.op == op]
        found = {w.key: w for w in own if matches(w, asked)}
        if len(found) == 1:
            return next(iter(found.values()))
        if not own:
            raise
        shown = "; ".join(w.label for w in (found or {w.key: w for w in own}).values())
        raise UsageError(
            f"{op} is stored for {'several' if found else 'other'} sizes", f"Write one of: {shown}"
        ) from None


def target_of(name: str, threads: int) -> Target:
    """Parses a target. A CPU's instructions must exist on this machine; CUDA targets need no GPU.

    Raises ``UsageError``, and ``TargetUnavailable`` if the machine lacks the instructions.
    """
    from tilewright.backends import choose_backend

    backend = choose_backend(name)
    return backend.parse_target(name, threads, allow_foreign=not backend.in_process)


def refuse(given: Mapping[str, Any], why: str, hint: str = "Remove it") -> None:
    """Raises ``UsageError`` for the first option that is given; ``why``: the message's text after the option's name."""
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} {why}", hint)


def resumes(resume: str | None, what: str) -> bool:
    """Whether ``--resume last`` is given for a search of several runs. Raises ``UsageError`` if it names one run."""
    if resume not in (None, "last"):
        raise UsageError(f"--resume {resume} names one run, but {what} has several", "Write --resume last")
    return resume is not None
