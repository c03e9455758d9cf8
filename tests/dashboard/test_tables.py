"""Tables as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from tilewright.dashboard.tables import to_csv, to_json
from tilewright.insight.chart import Column, Table

COLUMNS = (Column("text", "Text"), Column("n", "N", "s", True))
values = st.tuples(
    st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t\r\n")),
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
)


@given(st.lists(st.lists(values, max_size=4), min_size=1, max_size=4))
def test_parts_read_back_as_one(parts: list[list[tuple[str, float | None]]]) -> None:
    tables = [Table("t", "T", COLUMNS, tuple(p)) for p in parts]
    rows = [row for p in parts for row in p]
    data = json.loads("".join(to_json(tables)))
    assert [(r["text"], r["n"]) for r in data["rows"]] == rows
    read = list(csv.reader(io.StringIO("".join(to_csv(tables)), newline="")))
    assert read[0] == ["text", "n"]
    assert len(read) == 1 + len(rows)
    for (text, n), (shown, number) in zip(rows, read[1:], strict=True):
        assert shown in (text, "'" + text)
        assert not shown.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
        assert number == ("" if n is None else str(n))


def test_control_characters_do_nothing_in_a_terminal() -> None:
    table = Table("t", "T", (Column("text", "Text"), Column("\x1b[2J", "N")), (("\x1b]0;x\x07 \x9b1m", 1),))
    shown = "".join(to_csv([table]))
    assert shown == "text,\\x1b[2J\r\n\\x1b]0;x\\x07 \\x9b1m,1\r\n"
