"""Indented C++ text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Collects lines; ``block`` opens braces and indents the lines written inside."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth

    def line(self, text: str = "") -> None:
        """Writes lines at the current indentation (one space a level: sources are parsed often)."""
        pad = " " * self.depth
        self.lines += [pad + t if t else "" for t in text.split("\n")]

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """``head {`` ... ``}``; a bare block without a head."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"
