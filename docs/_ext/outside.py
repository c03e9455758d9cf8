"""Pages whose text stands outside of ``docs/``, and links to such files."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

PAGES = {"CHANGELOG.md": "changelog", "SECURITY.md": "security_policy", "README.md": "index"}
"""Files of the repository's root that have a page of the site."""


RESULT = re.compile(r"benchmarks/results/(\w+)\.\w+")
"""A result's file, which has a heading on the page of its topic."""


def changelog(docs: Path) -> str:
    """The newest version as it stands; earlier ones are opened by a click."""
    head, *versions = re.split(r"^## ", _body(docs.parent / "CHANGELOG.md"), flags=re.MULTILINE)
    return head + "\n".join([f"## {versions[0]}", *map(_folded, versions[1:])])


def _folded(version: str) -> str:
    title, _, text = version.partition("\n")
    bold = re.sub(r"^#+ (.*)$", r"**\1**", text, flags=re.MULTILINE)
    return f"<details><summary>{title}</summary>\n\n{bold}\n\n</details>\n"


def security(docs: Path) -> str:
    return _body(docs.parent / "SECURITY.md")


def _body(path: Path) -> str:
    """A file's text without its title, with links as seen from ``docs/``."""
    text = path.read_text(encoding="utf-8").partition("\n")[2]
    return re.sub(r"\]\(docs/", "](", text)


def links(text: str, docname: str) -> str:
    """Links to files outside of ``docs/`` lead to their page, and become plain text where there is none."""
    folder = posixpath.dirname(docname)

    def one(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if result := RESULT.fullmatch(path):
            return f"[{match[1]}](#result-{result[1]})"
        if not target or path.startswith("docs/"):
            return match[0]
        if path not in PAGES:
            return match[1]
        page = posixpath.relpath(PAGES[path] + ".md", folder or ".")
        # The start page has other headings than the README.
        return f"[{match[1]}]({page}{'#' + anchor if anchor and path != 'README.md' else ''})"

    return re.sub(r"(?<!!)\[([^\[\]]*)\]\((?![a-z]+:)([^()\s]+)\)", one, text)
