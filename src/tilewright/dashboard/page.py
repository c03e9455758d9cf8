"""A page: its address, what it shows, and the tables and charts that belong to it.

The HTML of a page is at its address, each table below it as ``tables/NAME.csv`` and ``tables/NAME.json``, each chart as
``charts/NAME.json``, and what changes while it is open as ``live``, a stream of server-sent events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Union
from urllib.parse import urlencode

from starlette.requests import Request

from tilewright.core import UsageError
from tilewright.insight.chart import Chart, Table
from tilewright.insight.links import unsegment

if TYPE_CHECKING:
    from tilewright.dashboard.live import Feed
    from tilewright.dashboard.site import Site

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
    charts: Mapping[str, Callable[[Site, Request], Chart]] = field(default_factory=dict)
    live: Callable[[Site, Request], Feed] | None = None


def part(request: Request, name: str) -> str:
    """A variable part of the address, as it was given to ``segment``."""
    return unsegment(request.path_params[name])


def number(request: Request, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
    """A whole number from 0 on in the address's path or query. Raises ``UsageError``."""
    text = request.path_params.get(name) or request.query_params.get(name)
    if text is None:
        if default is None:
            raise UsageError(f"the address lacks {name}", f"Add {name}=NUMBER")
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) <= most):
        raise UsageError(f"{name} is {text[:40]!r}, which is no number from 0 to {most}", "Mend the address")
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


def link(request: Request, **changes: object) -> str:
    """The query of this page's address with these changes; ``None`` takes a parameter away."""
    query = {k: v for k, v in request.query_params.items() if k not in changes}
    query |= {k: str(v) for k, v in changes.items() if v is not None}
    return f"?{urlencode(query)}" if query else ""
