"""The code blocks of README.md and docs/, and what becomes of each.

A comment before a block says what its language does not:

``<!-- run: 4096 -> 64; --live -> --json -->``
    Texts replaced before the block runs: smaller sizes, addresses of this machine. ``{port}`` and ``{port2}`` are free
    ports.
``<!-- not run: needs a GPU -->``
    Only checked: Python compiles, and commands exist with these options. ``not run: line 3 needs a GPU`` (``lines
    2-3``, ``lines 1 and 3``) leaves the other lines to run.
``<!-- file: my_ops.py -->``
    The block is also saved under that name.
``<!-- before: CODE -->``
    Python that makes what the block takes for granted.

``python tests/docs/blocks.py`` lists every block.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]

KINDS = {
    "python": "python", "py": "python", "sh": "shell", "bash": "shell", "console": "shell", "c": "c", "cpp": "c",
    "toml": "data", "yaml": "data", "json": "data", "ini": "data", "": "text", "text": "text", "nginx": "text", "cuda": "text",
}  # fmt: skip
"""By language: how a block of it is run or read. Text is what commands print, and other things that nobody types."""

MARKS = re.compile(r"<!--\s*(run|not run|file|before):\s*(.*?)\s*-->", re.DOTALL)
SOME_LINES = re.compile(r"lines? (\d+)(?:(-| and )(\d+))? ")


@dataclass(frozen=True)
class Block:
    """``page`` relative to the repository, ``line`` of the opening fence, the comments before it by kind."""

    page: str
    line: int
    language: str
    text: str
    marks: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def kind(self) -> str:
        """How it is run or read; empty for a language that nobody has decided on."""
        return KINDS.get(self.language, "")

    def mark(self, kind: str) -> str:
        return next((text for k, text in self.marks if k == kind), "")

    @property
    def fate(self) -> str:
        """``run``, ``parsed`` (data), ``not run`` or ``text``."""
        if self.kind in ("data", "text"):
            return "parsed" if self.kind == "data" else "text"
        why = self.mark("not run")
        return "not run" if why and not SOME_LINES.match(why) else "run"

    def replaced(self, text: str) -> str:
        """``text`` with the replacements that the block asks for. Raises ``ValueError`` for one that replaces nothing."""
        for pair in filter(None, self.mark("run").split("; ")):
            old, arrow, new = pair.partition(" -> ")
            if not arrow or old not in text:
                raise ValueError(f"{self.name}: {pair!r} replaces nothing")
            text = text.replace(old, new)
        return text

    def commands(self) -> list[tuple[str, bool]]:
        """The lines of a shell block, continued ones joined, and whether each is run."""
        if self.kind != "shell":
            return []
        skipped: set[int] = set()
        if found := SOME_LINES.match(self.mark("not run")):
            first, last = int(found[1]), int(found[3] or found[1])
            skipped = {first, last} if found[2] == " and " else set(range(first, last + 1))
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        typed = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        return [(line, self.fate == "run" and n not in skipped) for n, line in enumerate(typed, 1)]


def pages() -> list[Path]:
    found = [p for p in sorted((ROOT / "docs").rglob("*.md")) if p.relative_to(ROOT).parts[1][0] != "_"]
    return [ROOT / "README.md", *found]


@functools.cache
def blocks_of(page: Path) -> list[Block]:
    out = []
    marks: list[tuple[str, str]] = []
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "html_block":
            marks += MARKS.findall(token.content)
        elif token.type in ("fence", "code_block"):
            assert token.map is not None
            language = token.info.strip()
            name = page.relative_to(ROOT).as_posix()
            out.append(Block(name, token.map[0] + 1, language, token.content, tuple(marks)))
            marks = []
        elif token.nesting >= 0 and marks:
            raise ValueError(f"{page}: {marks[0]} stands before no code block")
    if marks:
        raise ValueError(f"{page}: {marks[0]} stands before no code block")
    return out


def all_blocks() -> list[Block]:
    return [b for page in pages() for b in blocks_of(page)]


def spans(page: Path) -> Iterator[str]:
    """Commands between backquotes in running text that can be typed as they stand."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for span in re.findall(r"`tilewright ([^`]+)`", text):
        if not re.search(r"\.\.\.|\[|\||\bOP\b|\bCOMMAND\b", span):
            yield span


def summary(blocks: list[Block]) -> str:
    fates = Counter(b.fate for b in blocks)
    commands = Counter(run for b in blocks for _, run in b.commands())
    return (
        f"{len(blocks)} blocks: {fates['run']} run, {fates['parsed']} parsed, {fates['not run']} not run, "
        f"{fates['text']} text; {commands[True]} of {commands[True] + commands[False]} commands run"
    )


if __name__ == "__main__":
    every = all_blocks()
    for b in every:
        print(f"{b.fate:8} {b.language or '-':8} {b.name}  {b.mark('not run')}")
    print(summary(every))
