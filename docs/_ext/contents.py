"""The site's navigation: the lists of ``docs/index.md``, so that nothing is listed twice."""

from __future__ import annotations

import re
from pathlib import Path


def markdown(docs: Path) -> str:
    """A hidden table of contents for each section of the start page that lists pages."""
    out = []
    sections = re.split(r"^## ", (docs / "index.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    for section in sections:
        pages = re.findall(r"^- \[[^\]]*\]\(([\w/]+)\.md\)", section, re.MULTILINE)
        caption = section.partition("\n")[0]
        out.append("```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(pages) + "\n```\n")
    return "\n".join(out)
