"""What rows say of a GPU, written into docs/gpu_status.md: the cells "proven on" and "ratio", the primitives by where
they are proven, and where the page's code ran.

A cell has an entry a device, and a later run on a device replaces its own. What the emulator ran is not written.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from acceptance.rows import RIGHT, Row, read, wrong
from tilewright.backends import is_emulated
from tilewright.kernels.primitives import conformance

FILES = ("correctness", "first-light", "tune", "rent")
NONE = ("not yet", "not measured", "")
RAN = re.compile(r"^(?:No CUDA code of this project has run on a GPU yet|Ran on (?P<where>.*))\.$", re.MULTILINE)
GROUP = re.compile(r"^\| (.*) \| (`.*`) \|$", re.MULTILINE)
"""A row of a table of names: what is so of them, and the names."""
TRITON = "triton"
"""A rival that is no library."""
HEAD = (
    "| shape | kernel | a second | share of the peak | time of theirs / ours (95% interval) |", "|---|---|---|---|---|",
)  # fmt: skip


def written(page: str, folder: Path) -> tuple[str, str]:
    """The page with what a folder's rows say, and a table of them in Markdown."""
    every = [r for c in FILES for r in read(folder / f"{c}.jsonl") if not is_emulated(r["device"])]
    devices = list(dict.fromkeys(r["device"] for r in every))
    if not devices:
        return page, f"{folder} has no row of a GPU: nothing is written"
    said = []
    for device in devices:
        rows = [r for r in every if r["device"] == device]
        date = max(r["date"] for r in rows)
        page = _with(page, device, date, rows)
        said += [f"{device}, {date}.", "", *HEAD, *_shapes(rows), ""]
    return page, "\n".join(said).strip()


def _with(page: str, device: str, date: str, rows: Sequence[Row]) -> str:
    """The page with one device's rows."""
    page = _cells(page, "Templates", 2, lambda name, old: _entry(old, device, date, _template(rows, name)))
    page = _cells(page, "Templates", 3, lambda name, old: _merged(old, device, _ratio(rows, name, device)))
    page = _groups(page, "Primitives", lambda name, old: _entry(old, device, date, _primitive(rows, name)))
    return RAN.sub(lambda m: f"Ran on {_merged(m['where'] or '', device, f'{device} ({date})')}.", page)


def _section(page: str, heading: str) -> tuple[int, int]:
    """Where the text under a heading begins and ends."""
    begin = page.index(f"## {heading}\n")
    end = page.find("\n## ", begin)
    return begin, end if end > 0 else len(page)


def _cells(page: str, heading: str, column: int, cell: Callable[[str, str], str]) -> str:
    """The page with a column of the table under a heading replaced; ``cell`` takes a row's name and its old text."""
    begin, end = _section(page, heading)
    lines = page[begin:end].split("\n")
    for n, line in enumerate(lines):
        if found := re.match(r"\| `(\w+)` \|", line):
            parts = line.strip("|").split("|")
            parts[column] = f" {cell(found[1], parts[column].strip())} "
            lines[n] = f"|{'|'.join(parts)}|"
    return page[:begin] + "\n".join(lines) + page[end:]


def _groups(page: str, heading: str, text: Callable[[str, str], str]) -> str:
    """The page with the table under a heading replaced: a row is a text and its names; ``text`` takes a name and its
    old text."""
    begin, end = _section(page, heading)
    names: dict[str, list[str]] = defaultdict(list)
    for old, listed in GROUP.findall(page, begin, end):
        for name in re.findall(r"\w+", listed):
            names[text(name, old)].append(name)
    rows = [f"| {new} | {', '.join(f'`{n}`' for n in sorted(names[new]))} |\n" for new in sorted(names)]
    first = page.index("|---|---|\n", begin) + len("|---|---|\n")
    return page[:first] + "".join(rows) + page[end:]


def _merged(old: str, device: str, new: str | None) -> str:
    """A cell with a device's entry replaced; as it was where there is nothing new."""
    if new is None:
        return old
    mine = re.compile(rf"{re.escape(device)}(?:, \d| \(|\))")
    return "; ".join([*(x for x in old.split("; ") if x not in NONE and not mine.search(x)), new])


def _entry(old: str, device: str, date: str, found: tuple[int, int] | None) -> str:
    """``found``: how many results are right, and how many are wrong."""
    if found is None:
        return old
    right, bad = found
    text = f"{device}, {date}"
    return _merged(old, device, f"wrong on {text}: {bad} of {right + bad}" if bad else text)


def _counts(rows: Sequence[Row]) -> tuple[int, int]:
    return sum(r["state"] in RIGHT for r in rows), sum(wrong(r) for r in rows)


def _template(rows: Sequence[Row], name: str) -> tuple[int, int] | None:
    """Of a template's kernels: on odd shapes, which alone are proof, under the sanitizer, and where they were timed."""
    mine = [r for r in rows if r.get("template") == name and "rival" not in r]
    right, bad = _counts(mine)
    return (right, bad) if bad or any(r["state"] == "right" for r in mine) else None


def _primitive(rows: Sequence[Row], name: str) -> tuple[int, int] | None:
    """Of a primitive's cases; nothing before all have run, but for those that differ."""
    right, bad = _counts([r for r in rows if r.get("primitive") == name])
    bad += sum(r["id"] == f"conformance/{name}" and wrong(r) for r in rows)
    whole = right == sum(c.primitive.name == name for c in conformance.cases())
    return (right, bad) if bad or whole else None


def best(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """By shape the ratios of the best kernel there is, of those tuned, prepared and the default; libraries first."""
    by: dict[str, list[Row]] = defaultdict(list)
    for r in rows:
        if "ratio" in r:
            by[r["shape"]].append(r)
    chosen = {}
    for shape, every in by.items():
        found = _newest(every)
        libraries = [r for r in found if r["rival"] != TRITON]
        least: dict[str, float] = {}
        for r in libraries or found:
            least[r["choice"]] = min(r["ratio"], least.get(r["choice"], r["ratio"]))
        choice = max(least, key=lambda c: least[c])
        chosen[shape] = [r for r in libraries if r["choice"] == choice] + [r for r in found if r["rival"] == TRITON]
    return chosen


def _newest(found: Sequence[Row]) -> list[Row]:
    """The rows of a shape's last day, from the last change of its default schedule on."""
    last = max(r.get("date", "") for r in found)
    rows = [r for r in found if r.get("date", "") == last]
    defaults = [n for n, r in enumerate(rows) if r["choice"] == "default"]
    changes = [b for a, b in itertools.pairwise(defaults) if rows[a].get("schedule") != rows[b].get("schedule")]
    return rows[changes[-1] :] if changes else rows


def _ratio(rows: Sequence[Row], template: str, device: str) -> str | None:
    """Against the fastest library on each shape; Triton is none."""
    values = []
    for found in best(rows).values():
        mine = [r["ratio"] for r in found if r["template"] == template and r["rival"] != TRITON]
        values += [min(mine)] if mine else []
    if not values:
        return None
    middle = statistics.median(values)
    of = f"{min(values):.2f} to {max(values):.2f}, median {middle:.2f} of {len(values)} shapes" if values[1:] else ""
    return f"{of or f'{middle:.2f} on one shape'} ({device})"


def _shapes(rows: Sequence[Row]) -> list[str]:
    """A line a shape: what was reached, and the ratio to each rival."""
    lines = []
    for shape, found in best(rows).items():
        first = found[0]
        rivals = "; ".join(f"{r['rival']} {r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f})" for r in found)
        unit = {"operations/s": "TFLOP", "bytes/s": "TB"}[first["unit"]]
        share = "" if first["share"] is None else f"{100 * first['share']:.0f}%"
        if clock := first.get("during", {}).get("sm_hz"):
            share += f", {100 * first['share_at_clock']:.0f}% at {clock / 1e6:.0f} MHz"
        lines.append(
            f"| {shape} | `{first['template']}`, {first['choice']} | {first['rate'] / 1e12:.3g} {unit} | {share} | "
            f"{rivals} |"
        )
    return lines
