"""A farm's budgets, as ``tilewright.farm.budgets`` has them."""

from __future__ import annotations

from pathlib import Path

from tilewright.farm.budgets import BUDGETS, Budget

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def markdown(_docs: Path) -> str:
    rows = [f"| `{b.name}` | {b.of} | {_most(b)} | {b.then} |" for b in BUDGETS]
    return "\n".join(["| budget | of what | limit | beyond the limit |", "|---|---|---|---|", *rows, ""])


def _most(budget: Budget) -> str:
    size, unit = next(((s, u) for s, u in UNITS if "bytes" in budget.of and budget.most >= s), (1, ""))
    text = f"{budget.most / size:,.6g} {unit}".strip()
    return text if not budget.values else f"{text}, {budget.values:,} values"
