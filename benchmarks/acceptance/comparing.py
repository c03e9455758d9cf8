"""What became slower or faster since rows of an earlier run: our time by shape on the same device, and ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from acceptance.rows import Row, read
from acceptance.status import best
from tilewright.backends import is_emulated
from tilewright.kernels.templates import TEMPLATES

SAME = 0.02
"""Change of a time that is taken for noise."""


def rows_of(folders: Iterable[Path]) -> list[Row]:
    """The rows of all files of these folders, of GPUs alone."""
    files = [p for folder in folders for p in sorted(folder.glob("*.jsonl"))]
    return [r for p in files for r in read(p) if not is_emulated(r["device"])]


def changed(old: Sequence[Row]) -> set[str]:
    """CUDA templates of another version than those that ran in these rows, or that no row tells a version of."""
    ran = {
        (s["template"], s["version"]) for r in old if isinstance(s := r.get("schedule"), dict) and "version" in s
    }  # fmt: skip
    ours = {n: t.version for n, t in TEMPLATES.items() if "cuda" in t.kinds and n != "own"}
    return {n for n, version in ours.items() if (n, version) not in ran}


def times(rows: Sequence[Row]) -> dict[str, float]:
    """Our microseconds by shape: of the best kernel in turns with a library, else by itself."""
    found: dict[str, float] = {}
    for r in rows:
        parts = str(r["id"]).split("/")
        shape = r.get("shape", parts[1] if len(parts) > 1 else "")
        if "us" in r and r["state"] in ("measured", "found"):
            found[shape] = min(float(r["us"]), found.get(shape, float("inf")))
    return found | {shape: min(float(r["our_us"]) for r in beside) for shape, beside in best(rows).items()}


def ratios(rows: Sequence[Row]) -> dict[str, Row]:
    """By shape the ratio of the best kernel to the fastest rival."""
    return {shape: min(beside, key=lambda r: float(r["ratio"])) for shape, beside in best(rows).items()}


def compared(old: Sequence[Row], new: Sequence[Row], device: str) -> str:
    """A table in Markdown, what became slower first. Times are compared on one device alone."""
    before = [r for r in old if r["device"] == device]
    devices = ", ".join(sorted({r["device"] for r in old})) or "no GPU"
    lines = [f"{device}, beside rows of {devices}."]
    if not before:
        lines.append(f"There are no earlier rows of {device}: ratios alone are compared.")
    was, now = times(before), times(new)
    then, today = ratios(before or old), ratios(new)
    shapes = [s for s in {**now, **today} if s in was or s in then]
    shapes.sort(key=lambda s: was[s] / now[s] if s in was and s in now else 1.0)
    lines += ["", "| shape | before, us | now, us | | theirs / ours before | now |", "|---|---|---|---|---|---|"]
    for shape in shapes:
        both = shape in was and shape in now
        gain = was[shape] / now[shape] - 1 if both else 0.0
        said = "" if not both else "same" if abs(gain) <= SAME else f"{'faster' if gain > 0 else 'slower'} {gain:+.1%}"
        cells = [f"{was[shape]:.1f}" if both else "", f"{now[shape]:.1f}" if both else "", said]
        lines.append(f"| {shape} | {' | '.join([*cells, _ratio(then.get(shape)), _ratio(today.get(shape))])} |")
    return "\n".join(lines)


def _ratio(row: Row | None) -> str:
    return "" if row is None else f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}), {row['rival']}"
