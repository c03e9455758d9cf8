"""Addresses of the dashboard's pages, and names as parts of them."""

from __future__ import annotations

from urllib.parse import quote

_ESCAPES = (("~", "~t"), ("/", "~s"), ("\\", "~b"))


def segment(name: str) -> str:
    """A name as one segment of an address, whatever it holds; ``unsegment`` takes what a server has decoded."""
    for character, escape in _ESCAPES:
        name = name.replace(character, escape)
    if name in (".", ".."):
        name = name.replace(".", "~d")
    return quote(name, safe="~") or "~e"


def unsegment(text: str) -> str:
    if text == "~e":
        return ""
    text = text.replace("~d", ".")
    for character, escape in reversed(_ESCAPES):
        text = text.replace(escape, character)
    return text


def run_link(run_id: str) -> str:
    return f"/runs/{segment(run_id)}"


def trial_link(run_id: str, number: int) -> str:
    return f"/runs/{segment(run_id)}/trials/{number}"


def operator_link(op: str) -> str:
    return f"/operators/{segment(op)}"
