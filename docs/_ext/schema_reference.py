"""The database's tables as ``tilewright.database.schema`` defines them: columns and their meanings, keys, indexes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from sqlalchemy import Column, ForeignKeyConstraint, Table, UniqueConstraint

from tilewright.database import schema

WIDTH, GAP_X, ROW, HEAD = 190, 60, 15, 24


def markdown(docs: Path) -> str:
    picture = docs / "_generated" / "schema.svg"
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(diagram(), encoding="utf-8")
    out = [
        f"This is schema {schema.SCHEMA}. Tilewright upgrades databases from schema {schema.REVISIONS[0]} on. It reads "
        f"databases from schema {schema.OLDEST_READABLE} on without an upgrade.\n",
        "![The tables with their primary and foreign keys; the lists below say the same](_generated/schema.svg)\n",
    ]
    for table in schema.metadata.sorted_tables:
        out += _table(table)
    return "\n".join(out)


def _table(table: Table) -> Iterator[str]:
    yield f"## `{table.name}`\n"
    yield f"{table.info['holds']}\n"
    for column in table.columns:
        kind = str(column.type).lower()
        kind += ", primary key" if column.primary_key else ", may be null" if column.nullable else ""
        kind += "".join(f", [`{k.target_fullname}`](#{k.column.table.name})" for k in column.foreign_keys)
        yield f"- `{column.name}` ({kind}): {column.doc}"
    yield ""
    constraints = sorted(table.constraints, key=lambda c: str(c.name))
    unique = [f"({_columns(c.columns.keys())})" for c in constraints if isinstance(c, UniqueConstraint)]
    indexes = [f"`{i.name}` ({_columns(i.columns.keys())})" for i in sorted(table.indexes, key=lambda i: str(i.name))]
    deleted = [
        f"Deleting a row of `{c.referred_table.name}` "
        + ("deletes its rows here." if c.ondelete == "CASCADE" else "sets its key here to null.")
        for c in constraints
        if isinstance(c, ForeignKeyConstraint) and c.ondelete
    ]
    listed = [f"{kind}: {', '.join(found)}." for kind, found in (("Unique", unique), ("Indexes", indexes)) if found]
    yield " ".join(listed + deleted) + "\n"


def _keys(table: Table) -> list[Column[Any]]:
    """A table's primary and foreign keys."""
    return [c for c in table.columns if c.primary_key or c.foreign_keys]


def _columns(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def diagram() -> str:
    """Tables that refer to others, with their keys, in columns by how far they are from tables that refer to none; an
    arrow a foreign key."""
    depth: dict[str, int] = {}
    for table in schema.metadata.sorted_tables:
        above = [depth[k.column.table.name] for k in table.foreign_keys]
        depth[table.name] = 1 + max(above, default=-1)
    linked = {k.column.table.name for t in schema.metadata.sorted_tables for k in t.foreign_keys}
    tables = [t for t in schema.metadata.sorted_tables if t.foreign_keys or t.name in linked]
    place: dict[str, tuple[int, int]] = {}
    bottom: dict[int, int] = {}
    for table in tables:
        column = depth[table.name]
        place[table.name] = (10 + column * (WIDTH + GAP_X), bottom.get(column, 10))
        bottom[column] = place[table.name][1] + HEAD + ROW * len(_keys(table)) + 26
    width, height = 10 + (1 + max(bottom)) * (WIDTH + GAP_X), max(bottom.values())
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" rx="6" fill="#f8f9fb"/>',
        '<marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#5b6b82"/></marker>',
    ]
    for table in tables:
        x, y = place[table.name]
        h = HEAD + ROW * len(_keys(table)) + 6
        out.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{h}" rx="4" fill="#fff" stroke="#9aa7b8"/>')
        out.append(f'<text x="{x + 8}" y="{y + 16}" font-weight="bold" fill="#1d2733">{escape(table.name)}</text>')
        for n, column in enumerate(_keys(table)):
            at = y + HEAD + ROW * n
            mark = "● " if column.primary_key else ""
            out.append(f'<text x="{x + 8}" y="{at + 11}" fill="#334155">{mark}{escape(column.name)}</text>')
            for key in column.foreign_keys:
                to_x, to_y = place[key.column.table.name]
                end = f"{to_x + WIDTH} {to_y + 12}"
                bend = (to_x + WIDTH + x) / 2
                out.append(
                    f'<path d="M{x} {at + 8}C{bend} {at + 8} {bend} {to_y + 12} {end}" fill="none" stroke="#5b6b82"'
                    ' marker-end="url(#to)"/>'
                )
    return "\n".join([*out, "</svg>\n"])
