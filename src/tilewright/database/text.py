"""Makes text from a database safe to print. Standard library only."""

from __future__ import annotations

import re
import unicodedata

# A bracket with the backslashes before it, which rich reads as escapes. Group 2: a complete tag; group 3: the beginning
# of a tag that text printed after it could complete.
_BRACKET = re.compile(r"(\\*)\[(?:(?=([a-z#/@][^\[]*?\]))|(?=([a-z#/@]|\Z)))?")
_TAIL = re.compile(r"\\+\Z")

# Unicode categories: control, invisible and direction-changing characters, lone surrogates, unassigned and private
# characters, and the line and paragraph separators.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})


def visible_text(text: object) -> str:
    """``str(text)`` on one line: characters that a terminal would interpret or hide become escapes (``\\x1b``)."""
    return "".join(c if c.isascii() and c.isprintable() else _visible(c) for c in str(text))


def safe_text(text: object) -> str:
    """``visible_text`` escaped for rich, which then prints it literally, even beside the caller's own markup.

    Backslashes become ``\\x5c`` where they could escape the caller's markup.
    """
    shown = _TAIL.sub(lambda m: r"\x5c" * len(m[0]), visible_text(text))
    return _BRACKET.sub(_escape, shown)


def _escape(match: re.Match[str]) -> str:
    slashes, tag, beginning = match.groups()
    if tag:
        slashes *= 2
    elif beginning is not None:
        slashes = slashes.replace("\\", r"\x5c")
    return slashes + "\\["


def _visible(char: str) -> str:
    if unicodedata.category(char) not in _HIDDEN:
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
