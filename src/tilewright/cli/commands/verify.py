"""``tilewright verify``: checks and times the stored kernels again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.cli.declare import declared, wants_json
from tilewright.cli.options import DB, DEVICE, ONLY_OP, open_database
from tilewright.cli.output import console, emit_json, seconds, task_json
from tilewright.core import TilewrightError
from tilewright.database.text import safe_text
from tilewright.units import FINAL_TIME

if TYPE_CHECKING:
    from tilewright.tuner.verify import Verified


@declared("verify")
def command(
    db: str | None = DB,
    op: str | None = ONLY_OP,
    device: str = DEVICE,
) -> int:
    """Rebuild stored kernels with the installed compiler and templates, then check and time them.

    A kernel that fails its check, or whose template no longer exists, becomes stale: it is no longer served. Exit code
    1 if a kernel failed.

    \b
    Examples:
      tilewright verify
      tilewright verify --db tuned.db --op matmul --json
    """
    from tilewright.tuner.verify import verify

    out = console(stderr=wants_json())
    rows: list[dict[str, Any]] = []
    failed = 0
    with open_database(db, readonly=False) as database:
        for r in verify(database, op=op, device=device):
            failed += r.problem is not None
            rows.append(_row(r))
            right = f"right, {FINAL_TIME} {seconds(r.seconds)}"
            verdict = f"[red]stale: {safe_text(r.problem)}[/red]" if r.problem else right
            before = f" (stored: {seconds(r.kernel.seconds)})" if r.seconds else ""
            out.print(f"{safe_text(r.kernel.task.workload.label)} x{r.kernel.task.target.threads}: {verdict}{before}")
    if wants_json():
        emit_json({"kernels": rows, "failed": failed})
    elif not rows:
        raise TilewrightError(
            "the database holds no kernels of this machine", "Tune a task first: tilewright tune OP KEY=VALUE..."
        )
    return 1 if failed else 0


def _row(r: Verified) -> dict[str, Any]:
    return {
        **task_json(r.kernel.task), "stored_seconds": r.kernel.seconds, "seconds": r.seconds,
        "state": "stale" if r.problem else "verified", "problem": r.problem,
    }  # fmt: skip
