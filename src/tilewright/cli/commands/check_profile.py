"""The tables of ``tilewright check --profile``: memory traffic by kernel line, compared with the least possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.cli.output import console

if TYPE_CHECKING:
    from tilewright.checking.check import Checked

_ACCESSES = (
    ("global_load", "sectors"), ("global_store", "sectors"), ("shared_load", "wavefronts"),
    ("shared_store", "wavefronts"),
)  # fmt: skip


def print_profile(result: Checked) -> None:
    """Prints a row for each line and kind of access, then totals."""
    from rich.markup import escape
    from rich.table import Table

    p = result.profile
    table = Table(box=None, pad_edge=False, title_justify="left", title="memory traffic by kernel line")
    for column in ("line", "access", "requests", "per request", "ideal", "excess", "source"):
        table.add_column(column, justify="right" if column in ("line", "requests", "per request", "ideal") else "left",
                         overflow="fold", no_wrap=column != "source")  # fmt: skip
    for number, entry in sorted(p.get("lines", {}).items(), key=lambda x: int(x[0])):
        for kind, unit in _ACCESSES:
            if kind in entry:
                e = entry[kind]
                cost, ideal = _a_request(e, unit)
                name = f"ldmatrix {unit}" if kind == "shared_load" and "ldmatrix" in entry else f"{kind} {unit}"
                table.add_row(
                    number, name.replace("_", " "), str(e["requests"]), f"{cost:.2f}", f"{ideal:.2f}",
                    _excess(cost, ideal), escape(result.subject.line(int(number))[:60]),
                )  # fmt: skip
        if entry.get("idle_stages"):
            table.add_row(
                number, "waits", str(entry.get("waits", 0)), "", "", f"{entry['idle_stages']} with idle stages",
                escape(result.subject.line(int(number))[:60]),
            )  # fmt: skip
    out = console()
    out.print(table)
    for text in totals(p):
        out.print(text, markup=False)


def totals(p: Mapping[str, Any]) -> list[str]:
    """The profile in a few lines."""
    lines = []
    for kind, unit in _ACCESSES:
        if p.get(kind, {}).get("requests"):
            cost, ideal = _a_request(p[kind], unit)
            name = kind.replace("_", " ")
            lines.append(f"{name + 's':<14} {p[kind]['requests']} requests, {cost:.2f} {unit} each, ideal {ideal:.2f}")
    lines.append(
        f"bank conflicts {p.get('bank_conflicts', 0)}, of these ldmatrix {p.get('ldmatrix_conflicts', 0)}; "
        f"idle pipeline stages {p.get('idle_stages', 0)} of {p.get('waits', 0)} waits; "
        f"{p.get('shared_bytes', 0)} bytes of shared memory"
    )
    return lines


def _a_request(e: Mapping[str, int], unit: str) -> tuple[float, float]:
    return e[unit] / e["requests"], e[f"ideal_{unit}"] / e["requests"]


def _excess(cost: float, ideal: float) -> str:
    return "" if cost <= ideal * 1.001 else f"{cost / ideal:.2f}x"
