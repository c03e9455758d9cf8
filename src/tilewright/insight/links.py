"""Addresses of the dashboard's pages, and the encoding of names in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from tilewright.database.records import StoredKernel

_ESCAPES = (("~", "~t"), ("/", "~s"), ("\\", "~b"))


def segment(name: str) -> str:
    """Encodes any name as one segment of an address; ``unsegment`` decodes it after the server's percent-decoding."""
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


def kernel_links(kernels: Iterable[StoredKernel | None]) -> dict[str, list[str | None]]:
    """Links of a table's columns ``run`` and ``trial``: to the run and trial that found each kernel."""
    found = [(k.run_id, k.trial_number) if k else (None, None) for k in kernels]
    return {
        "run": [run_link(run) if run else None for run, _ in found],
        "trial": [trial_link(run, n) if run and n is not None else None for run, n in found],
    }


def operator_link(op: str) -> str:
    return f"/operators/{segment(op)}"
