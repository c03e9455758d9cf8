"""Fills in what a page leaves to its build, and takes out what only tests read.

``<!-- generated: NAME -->`` in a page is replaced by the Markdown that ``PARTS[NAME]`` returns, before the page is
parsed: so headings, links and anchors of generated text are ordinary ones. Comments that say how a test runs a code
block (tests/docs/blocks.py) do not reach the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import api_reference
import benchmark_pages
import budgets_reference
import cli_reference
import contents
import operations_reference
import outside
import schema_reference
from docutils import nodes

PART = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
FOR_TESTS = re.compile(r"^<!-- (?:run:|not run:|before:|file:).*?-->\n", re.MULTILINE | re.DOTALL)

PARTS: dict[str, Callable[[Path], str]] = {
    "api": api_reference.markdown,
    **{f"api_{name}": partial(api_reference.theme, name=name) for name in api_reference.THEMES},
    "aten_operators": operations_reference.aten,
    "benchmarks": benchmark_pages.markdown,
    **{f"benchmarks_{name}": partial(benchmark_pages.topic, name=name) for name in benchmark_pages.TOPICS},
    "budgets": budgets_reference.markdown,
    "changelog": outside.changelog,
    "cli": cli_reference.markdown,
    **{f"cli_{name}": partial(cli_reference.topic, name=name) for name in cli_reference.TOPICS},
    "contents": contents.markdown,
    "onnx_operators": operations_reference.onnx,
    "schema": schema_reference.markdown,
    "security_policy": outside.security,
}
"""Each takes the documentation's folder, under whose ``_generated`` it may write figures."""


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", fill)
    app.connect("env-get-outdated", depends_on_code)
    app.connect("autodoc-process-signature", api_reference.plain_signature)
    app.connect("doctree-read", pictures_open)
    app.connect("html-page-context", captions_have_levels, priority=900)  # after the theme, which makes the sidebar
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def fill(app: Any, docname: str, source: list[str]) -> None:
    text = PART.sub(lambda m: PARTS[m[1]](Path(app.srcdir)), source[0])
    source[0] = outside.links(FOR_TESTS.sub("", text), docname)


def pictures_open(_app: Any, doctree: nodes.document) -> None:
    """A click on a picture opens its file: Sphinx links pictures whose width is given."""
    for picture in doctree.findall(nodes.image):
        picture["width"] = "100%"


def captions_have_levels(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Captions of the sidebar are headings, which screen readers expect to have a level."""
    tree = "furo_navigation_tree"
    context[tree] = context[tree].replace('role="heading"', 'role="heading" aria-level="2"')


def depends_on_code(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Pages with generated parts are read in every build: what they are made from is no file that Sphinx knows."""
    return [name for name in env.found_docs if PART.search(Path(env.doc2path(name)).read_text(encoding="utf-8"))]
