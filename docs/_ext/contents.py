"""The site's navigation: the lists of ``docs/index.md``, so that nothing is listed twice."""

from __future__ import annotations

import re
from pathlib import Path


def markdown(docs: Path) -> str:
    """A hidden table of contents for each list of pages, under the names of its section and of the list."""
    out = []
    sections = re.split(r"^## ", (docs / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        for title, links in re.findall(r"^- \*\*(.+)\*\*: ((?:.+\n)+?)(?=- |\n)", section, re.MULTILINE):
            caption = f"{section.partition(chr(10))[0]}: {title}"
            pages = "\n".join(re.findall(r"\]\(([\w/]+)\.md\)", links))
            out.append("```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + pages + "\n```\n")
    return "\n".join(out)
