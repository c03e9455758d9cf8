"""A page of the site: its address, its content, and its tables and charts.

A page's HTML is at its address. Below it, ``tables/NAME.csv`` and ``tables/NAME.json`` have each table, and
``charts/NAME.json`` each chart. ``live`` is a stream of server-sent events that update the open page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, Union
from urllib.parse import urlencode

from starlette.requests import Request

from tilewright.core import UsageError
from tilewright.insight.chart import Drawn, Table
from tilewright.insight.links import unsegment

if TYPE_CHECKING:
    from tilewright.dashboard.live import Feed
    from tilewright.dashboard.site import Site

T = TypeVar("T")
Text = TypeVar("Text", bound=str)


@dataclass(frozen=True)
class Listing:
    """A table that is too long to show at once. ``rows(site, request, limit, offset)`` returns a part of it."""

    rows: Callable[[Site, Request, int, int], Table]
    count: Callable[[Site, Request], int]


AnyTable = Union[Callable[["Site", Request], Table], Listing]


@dataclass(frozen=True)
class Page:
    """A page. ``name``: its template (``templates/NAME.html``). ``section``: its entry in the navigation.

    ``view`` returns the template's variables. A page's functions run in threads and may query the database.
    """

    path: str
    name: str
    section: str
    view: Callable[[Site, Request], Mapping[str, Any]]
    tables: Mapping[str, AnyTable] = field(default_factory=dict)
    charts: Mapping[str, Callable[[Site, Request], Drawn]] = field(default_factory=dict)
    live: Callable[[Site, Request], Feed] | None = None


def part(request: Request, name: str) -> str:
    """A variable part of the address, decoded: the text that was given to ``segment``."""
    return unsegment(request.path_params[name])


def number(request: Request, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
    """An integer from 0 to ``most`` in the address's path or query. Raises ``UsageError``."""
    text = request.path_params.get(name) or request.query_params.get(name)
    if text is None:
        if default is None:
            raise UsageError(f"the address has no {name}", f"Add {name}=NUMBER")
        return default
    return whole(name, text, most)


def whole(name: str, text: str, most: int = 2**31 - 1) -> int:
    """Parses an integer from 0 to ``most``. Raises ``UsageError``."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) <= most):
        raise UsageError(f"{name} is {text[:40]!r}, not a number from 0 to {most}", f"Write {name}=NUMBER")
    return int(text)


def choice(request: Request, name: str, choices: tuple[Text, ...], default: Text) -> Text:
    """The query's value of ``name``. Raises ``UsageError`` unless it is one of ``choices``."""
    value = request.query_params.get(name, default)
    for known in choices:
        if known == value:
            return known
    raise UsageError(f"{name} is {value[:40]!r}", f"Use one of {', '.join(c for c in choices if c)}")


def text(request: Request, name: str) -> str | None:
    """The query's text of ``name``; ``None`` if it is absent or empty."""
    return request.query_params.get(name) or None


@dataclass(frozen=True)
class Sort:
    """The order of a table's rows. ``order``: one of the page's names of orders."""

    order: str
    descending: bool


def sort_of(request: Request, orders: Collection[str], default: Sort) -> Sort:
    """The order by the query's ``order`` and ``descending``. Raises ``UsageError`` for an unknown order."""
    if text(request, "order") is None:
        return default
    return Sort(choice(request, "order", tuple(orders), ""), bool(text(request, "descending")))


def sort_links(request: Request, now: Sort, columns: Mapping[str, str], anchor: str) -> dict[str, dict[str, str]]:
    """By column: the link that sorts by it, and its current order. A link reverses an order that is already ascending.

    ``columns``: name of the order of each column.
    """
    found = {}
    for column, order in columns.items():
        reverse = order == now.order and not now.descending
        shown = ("descending" if now.descending else "ascending") if order == now.order else ""
        href = link(request, order=order, descending=1 if reverse else None, page=None) + f"#{anchor}"
        found[column] = {"href": href, "order": shown}
    return found


def ordered(items: Iterable[T], key: Callable[[T], Any], descending: bool) -> list[T]:
    """Items sorted by a key; items whose key is ``None`` come last."""
    keys = [(key(item), item) for item in items]
    known = sorted((pair for pair in keys if pair[0] is not None), key=itemgetter(0), reverse=descending)
    return [item for _, item in (*known, *(pair for pair in keys if pair[0] is None))]


def in_order(table: Table, by: Sort) -> Table:
    """A table in memory, sorted by one of its columns; rows without a value come last."""
    at = [c.name for c in table.columns].index(by.order)
    places = ordered(range(len(table.rows)), lambda i: table.rows[i][at], by.descending)
    links = {name: [its[i] for i in places] for name, its in table.links.items()}
    texts = {name: [its[i] for i in places] for name, its in table.texts.items()}
    return replace(table, rows=tuple(table.rows[i] for i in places), links=links, texts=texts)


def link(request: Request, **changes: object) -> str:
    """The query of this page's address with changed parameters; ``None`` removes a parameter."""
    query = [(k, v) for k, v in request.query_params.multi_items() if k not in changes]
    for name, value in changes.items():
        several = value if isinstance(value, list | tuple) else () if value is None else (value,)
        query += [(name, str(v)) for v in several]
    return f"?{urlencode(query)}" if query else ""
