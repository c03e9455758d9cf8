"""A page: its address, what it shows, and the tables and charts that belong to it.

The HTML of a page is at its address, each table below it as ``tables/NAME.csv`` and ``tables/NAME.json``, each chart as
``charts/NAME.json``, and what changes while it is open as ``live``, a stream of server-sent events.
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
    """A table too long to show at once. ``rows(site, request, limit, offset)`` gives a part of it."""

    rows: Callable[[Site, Request, int, int], Table]
    count: Callable[[Site, Request], int]


AnyTable = Union[Callable[["Site", Request], Table], Listing]


@dataclass(frozen=True)
class Page:
    """``name`` is its template (``templates/NAME.html``), ``section`` the entry of the site's navigation.

    ``view`` gives what the template shows; all of its functions run in threads and may ask the database.
    """

    path: str
    name: str
    section: str
    view: Callable[[Site, Request], Mapping[str, Any]]
    tables: Mapping[str, AnyTable] = field(default_factory=dict)
    charts: Mapping[str, Callable[[Site, Request], Drawn]] = field(default_factory=dict)
    live: Callable[[Site, Request], Feed] | None = None


def part(request: Request, name: str) -> str:
    """A variable part of the address, as it was given to ``segment``."""
    return unsegment(request.path_params[name])


def number(request: Request, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
    """A whole number from 0 on in the address's path or query. Raises ``UsageError``."""
    text = request.path_params.get(name) or request.query_params.get(name)
    if text is None:
        if default is None:
            raise UsageError(f"the address has no {name}", f"Add {name}=NUMBER")
        return default
    return whole(name, text, most)


def whole(name: str, text: str, most: int = 2**31 - 1) -> int:
    """A whole number from 0 on, as the address has it. Raises ``UsageError``."""
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) <= most):
        raise UsageError(f"{name} is {text[:40]!r}, not a number from 0 to {most}", f"Write {name}=NUMBER")
    return int(text)


def choice(request: Request, name: str, choices: tuple[Text, ...], default: Text) -> Text:
    """One of ``choices`` in the query. Raises ``UsageError`` for another."""
    value = request.query_params.get(name, default)
    for known in choices:
        if known == value:
            return known
    raise UsageError(f"{name} is {value[:40]!r}", f"Use one of {', '.join(c for c in choices if c)}")


def text(request: Request, name: str) -> str | None:
    """A text of the query; ``None`` where it is absent or empty."""
    return request.query_params.get(name) or None


@dataclass(frozen=True)
class Sort:
    """How a table's rows are ordered: by ``order``, one of the names that the page knows."""

    order: str
    descending: bool


def sort_of(request: Request, orders: Collection[str], default: Sort) -> Sort:
    """What the query's ``order`` and ``descending`` say. Raises ``UsageError`` for an order that there is not."""
    if text(request, "order") is None:
        return default
    return Sort(choice(request, "order", tuple(orders), ""), bool(text(request, "descending")))


def sort_links(request: Request, now: Sort, columns: Mapping[str, str], anchor: str) -> dict[str, dict[str, str]]:
    """By column: the address that sorts by it, the other way round where it is sorted by already, and its present
    order. ``columns``: the order that each stands for."""
    found = {}
    for column, order in columns.items():
        turned = order == now.order and not now.descending
        shown = ("descending" if now.descending else "ascending") if order == now.order else ""
        href = link(request, order=order, descending=1 if turned else None, page=None) + f"#{anchor}"
        found[column] = {"href": href, "order": shown}
    return found


def ordered(items: Iterable[T], key: Callable[[T], Any], descending: bool) -> list[T]:
    """Items sorted by a key; those whose key is ``None`` come last."""
    keys = [(key(item), item) for item in items]
    known = sorted((pair for pair in keys if pair[0] is not None), key=itemgetter(0), reverse=descending)
    return [item for _, item in (*known, *(pair for pair in keys if pair[0] is None))]


def in_order(table: Table, by: Sort) -> Table:
    """A table that is held whole, sorted by one of its columns; rows without a value come last."""
    at = [c.name for c in table.columns].index(by.order)
    places = ordered(range(len(table.rows)), lambda i: table.rows[i][at], by.descending)
    links = {name: [its[i] for i in places] for name, its in table.links.items()}
    texts = {name: [its[i] for i in places] for name, its in table.texts.items()}
    return replace(table, rows=tuple(table.rows[i] for i in places), links=links, texts=texts)


def link(request: Request, **changes: object) -> str:
    """The query of this page's address with these changes; ``None`` takes a parameter away."""
    query = [(k, v) for k, v in request.query_params.multi_items() if k not in changes]
    for name, value in changes.items():
        several = value if isinstance(value, list | tuple) else () if value is None else (value,)
        query += [(name, str(v)) for v in several]
    return f"?{urlencode(query)}" if query else ""
