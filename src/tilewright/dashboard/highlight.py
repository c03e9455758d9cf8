"""Source code with its syntax marked, by Pygments: classes that start with ``tok-``, no inline styles."""

from __future__ import annotations

from functools import lru_cache

from markupsafe import Markup

LONGEST = 200_000
"""Characters beyond which a source is shown plain: marking it would take seconds."""


@lru_cache(maxsize=64)
def highlight(source: str) -> Markup:
    """C++ or CUDA C++ as HTML, escaped."""
    if len(source) > LONGEST:
        return Markup.escape(source)
    import pygments
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    return Markup(pygments.highlight(source, get_lexer_by_name("cpp"), HtmlFormatter(nowrap=True, classprefix="tok-")))
