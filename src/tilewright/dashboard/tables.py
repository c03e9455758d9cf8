"""Writes tables as CSV and JSON, part by part."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tilewright.insight.chart import Table

_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Characters that begin a formula, with their full-width forms, which some programs read too."""
_CONTROL = ("\t", "\r", "\n")
_ACTS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def to_csv(parts: Iterable[Table]) -> Iterator[str]:
    """CSV by RFC 4180, with a header.

    A text that a spreadsheet would read as a formula gets a quote in front. Control characters other than tabs and line
    ends become escapes, because a terminal would interpret them.
    """
    first = True
    for table in parts:
        out = io.StringIO()
        writer = csv.writer(out)
        if first:
            writer.writerow([_cell(c.name) for c in table.columns])
            first = False
        writer.writerows([_cell(v) for v in row] for row in table.rows)
        yield out.getvalue()


def to_json(parts: Iterable[Table]) -> Iterator[str]:
    """JSON of one object: ``schema``, the table's ``name``, and its ``rows``, each an object."""
    separator = ""
    for number, table in enumerate(parts):
        data = table.to_json()
        if number == 0:
            yield f'{{"schema": 1, "name": {json.dumps(data["name"])}, "rows": ['
        for row in data["rows"]:
            yield separator + json.dumps(row, default=str)
            separator = ", "
    yield "]}"


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        value = _ACTS.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
        return "'" + value if value.startswith(_CONTROL) or value.lstrip().startswith(_FORMULA) else value
    if isinstance(value, dict | list | tuple):
        return json.dumps(value)
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else value
