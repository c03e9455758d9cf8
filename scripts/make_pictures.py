"""The pictures of the README and of the documentation's first page, in docs/pictures.

    python scripts/make_pictures.py run      # a run of the tuner in a terminal: pip install pyte; a quiet machine
    python scripts/make_pictures.py chart    # how kernels compare with other libraries, from benchmarks/results
    python scripts/make_pictures.py pages    # a page of the dashboard and a plot: the system's Chromium

What they show is real. The frames of ``run`` are the terminal's, at the times when they were shown; pauses of more than
a second are cut to one. ``pages`` tunes for about a minute first.
"""

from __future__ import annotations

import argparse
import html
import io
import json
import math
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PICTURES = ROOT / "docs" / "pictures"
COLUMNS, LINES = 104, 17
COMMAND = ("tune", "softmax", "shape=64,1000", "--trials", "48", "--seed", "1")
EVERY = 0.25
"""Seconds between frames, at least."""
LONGEST = 1.0
LAST = 5.0
"""Seconds for which the end is shown."""
CHARACTER, LINE = 7.8, 17.0
COLOURS = {
    "red": "#ff7b72", "green": "#7ee787", "yellow": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff",
    "cyan": "#76e3ea", "brown": "#e3b341", "white": "#f0f6fc", "black": "#8b949e", "default": "#d6dee6",
}  # fmt: skip


# --------------------------------------------------------------------------- the run


def record() -> list[tuple[float, list[list[tuple[str, str, bool]]]]]:
    """Frames: seconds since the start, and lines of runs of characters with colour and weight."""
    import pyte

    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    frames: list[tuple[float, list[list[tuple[str, str, bool]]]]] = []
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = pty.openpty()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {
            **os.environ, "COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color", "PATH": path
        }  # fmt: skip
        command = [str(Path(sys.executable).with_name("tilewright")), *COMMAND, "--db", "t.db"]
        stream.feed(f"$ tilewright {' '.join(COMMAND)} --db t.db\r\n".encode())
        start = time.monotonic()
        waiting = select.poll()
        waiting.register(ours, select.POLLIN)
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=folder):
            os.close(theirs)
            while True:
                if waiting.poll(1000 * EVERY):
                    try:
                        stream.feed(os.read(ours, 1 << 16))
                    except OSError:  # the other end is closed
                        break
                now = time.monotonic() - start
                if not frames or now - frames[-1][0] >= EVERY:
                    frames.append((now, _lines(screen)))
        frames.append((time.monotonic() - start, _lines(screen)))
    return frames


def _lines(screen: Any) -> list[list[tuple[str, str, bool]]]:
    found = []
    for y in range(screen.lines):
        runs: list[tuple[str, str, bool]] = []
        for x in range(screen.columns):
            c = screen.buffer[y][x]
            if runs and runs[-1][1:] == (c.fg, c.bold):
                runs[-1] = (runs[-1][0] + c.data, c.fg, c.bold)
            else:
                runs.append((c.data, c.fg, c.bold))
        found.append(runs)
    return found


def shortened(frames: Sequence[tuple[float, Any]]) -> Iterator[tuple[float, Any]]:
    """Frames that differ from the one before, with how long each is shown."""
    different = [f for n, f in enumerate(frames) if n == 0 or f[1] != frames[n - 1][1]]
    for (start, lines), (end, _) in pairwise(different):
        yield min(LONGEST, end - start), lines
    yield LAST, different[-1][1]


def animated(frames: Sequence[tuple[float, Any]]) -> str:
    """One SVG that shows the frames one after the other, again and again."""
    total = sum(seconds for seconds, _ in frames)
    width, height = COLUMNS * CHARACTER + 24, LINES * LINE + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" '
        f'aria-label="A run of tilewright {html.escape(" ".join(COMMAND))} in a terminal">',
        "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}"
        # It begins with the last frame: who opens the picture sees the result first.
        f".f{{visibility:hidden;animation:{total:.2f}s step-end {frames[-1][0] - total:.2f}s infinite}}",
    ]
    at = 0.0
    bodies = []
    for number, (seconds, lines) in enumerate(frames):
        first, last = 100 * at / total, 100 * (at + seconds) / total
        shown = f"{first:.3f}%{{visibility:visible}}"
        if number:
            shown = f"0%{{visibility:hidden}}{shown}"
        if number + 1 < len(frames):
            shown += f"{last:.3f}%{{visibility:hidden}}"
        parts.append(f"@keyframes k{number}{{{shown}}}.f{number}{{animation-name:k{number}}}")
        bodies.append(f'<g class="f f{number}">{"".join(_text(y, runs) for y, runs in enumerate(lines))}</g>')
        at += seconds
    final = len(frames) - 1
    # The last frame is there without animation too: in viewers that have none, in print, for readers who want none.
    parts.append(f".f{final}{{visibility:visible}}@media(prefers-reduced-motion:reduce){{.f{{animation:none}}}}")
    parts.append(f'</style><rect width="{width:g}" height="{height:g}" rx="8" fill="#10161d"/>')
    return "\n".join([*parts, *bodies, "</svg>"]) + "\n"


def _text(y: int, runs: Sequence[tuple[str, str, bool]]) -> str:
    spans = []
    column = 0
    for text, colour, bold in runs:
        if text.strip():
            fill = COLOURS.get(colour, f"#{colour}" if len(colour) == 6 else COLOURS["default"])
            lead = len(text) - len(text.lstrip())
            x = 12 + (column + lead) * CHARACTER
            weight = ' font-weight="700"' if bold else ""
            body = text.strip()
            spans.append(
                f'<tspan x="{x:g}" textLength="{len(body) * CHARACTER:g}" fill="{fill}"{weight}>'
                f"{html.escape(body)}</tspan>"
            )
        column += len(text)
    return f'<text y="{24 + y * LINE:g}">{"".join(spans)}</text>' if spans else ""


# --------------------------------------------------------------------------- the chart


def _spread(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean, and the quartiles of the cases."""
    ordered = sorted(ratios)

    def at(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return math.exp(sum(map(math.log, ratios)) / len(ratios)), at(0.25), at(0.75)


def _rows(name: str) -> list[Mapping[str, Any]]:
    path = RESULTS / f"{name}.jsonl"
    if path.exists():
        return [r for r in map(json.loads, path.read_text().splitlines()) if "ratios" in r]
    return list(json.loads((RESULTS / f"{name}.json").read_text())["rows"])


def chart() -> None:
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))
    from figures import THEMES, Row, _picture

    def against(rows: Sequence[Mapping[str, Any]], **rivals: str) -> dict[str, tuple[float, float, float]]:
        named = {n.replace("_", "."): key for n, key in rivals.items()}
        found = {n: [r["ratios"][key][0] for r in rows if key in r["ratios"]] for n, key in named.items()}
        return {n: _spread(x) for n, x in found.items() if x}

    operators = _rows("ansor_suite")
    rows = [
        Row("matrix products", against(_rows("gemm_one_thread"), NumPy="numpy", PyTorch="torch")),
        Row("convolutions and norms", against(operators, PyTorch="torch")),
        Row("convolutions and norms, TVM's tuner", {"TVM": _spread([r["ratio"][0] for r in _rows("tvm_suite")])}),
        Row("unusual operators", against(_rows("unusual"), NumPy="numpy", PyTorch="torch")),
        Row("networks", against(_rows("networks"), PyTorch="eager", torch_compile="compiled")),
    ]
    PICTURES.mkdir(exist_ok=True)
    for theme in THEMES:
        _picture(PICTURES / f"against-{theme}.svg", theme, rows, "speed-up over other libraries, one core", 1.0)


# --------------------------------------------------------------------------- pages and plots

SHOWN = ("attention", "b=1", "h=8", "lq=256", "lk=256", "d=64", "--trials", "192", "--seed", "1")
SIZE = {"width": 1180, "height": 1090}
COLOURS_OF_PAGES = 96
DRAWN = (
    "[...document.querySelectorAll('figure.chart')]"
    ".every(f => f.dataset.kind || f.querySelector('.plot .empty, [role=alert]'))"
)


def pages() -> None:
    """The page of a run, and its roofline, for light and dark readers."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    program = (sys.executable, "-m", "tilewright")
    with tempfile.TemporaryDirectory() as folder:

        def tilewright(*words: str) -> None:
            subprocess.run([*program, *words, "--db", "t.db"], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        tilewright("tune", *SHOWN)
        for theme, more in (("light", ()), ("dark", ("--dark",))):
            tilewright("plot", "last", "--chart", "roofline", *more, "-o", str(PICTURES / f"roofline-{theme}.svg"))
        found = subprocess.run(
            [*program, "runs", "--json", "--db", "t.db"], cwd=folder, check=True, capture_output=True, text=True
        )
        run = json.loads(found.stdout)["runs"][0]["run"]
        served = subprocess.Popen(
            [*program, "dashboard", "--port", "0", "--db", "t.db"], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        try:
            assert served.stdout is not None
            address = served.stdout.readline().split()[-1]
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                for theme in ("light", "dark"):
                    page = browser.new_page(viewport=SIZE, color_scheme=theme, reduced_motion="reduce")
                    page.goto(f"{address.rstrip('/')}/runs/{run}")
                    while not page.evaluate(DRAWN):
                        page.wait_for_timeout(50)
                    (PICTURES / f"run-page-{theme}.png").write_bytes(_fewer_colours(page.screenshot()))
                browser.close()
        finally:
            served.terminate()
            served.communicate(timeout=20)


def _fewer_colours(png: bytes) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS_OF_PAGES, dither=Image.Dither.NONE).save(
        out, "png", optimize=True
    )
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "chart", "pages"))
    what = parser.parse_args().what
    PICTURES.mkdir(exist_ok=True)
    if what != "run":
        chart() if what == "chart" else pages()
        return
    (PICTURES / "run.svg").write_text(animated(list(shortened(record()))))


if __name__ == "__main__":
    main()
