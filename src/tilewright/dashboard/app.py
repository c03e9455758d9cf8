"""The site as an ASGI application: routes, responses and errors."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tilewright import __version__
from tilewright.core import TilewrightError, UsageError
from tilewright.dashboard import text
from tilewright.dashboard.farm_source import FarmSource
from tilewright.dashboard.live import Hub
from tilewright.dashboard.metrics import CONTENT_TYPE, Metrics
from tilewright.dashboard.page import Listing, Page, link
from tilewright.dashboard.pages import NAVIGATION, PAGES
from tilewright.dashboard.serving.access import Access, Guard, session_of
from tilewright.dashboard.serving.login import login_routes
from tilewright.dashboard.serving.notes import Notes
from tilewright.dashboard.site import Site
from tilewright.dashboard.sources import highlight
from tilewright.dashboard.tables import to_csv, to_json
from tilewright.database import Database
from tilewright.errors import NotFound
from tilewright.insight.chart import Table
from tilewright.insight.links import segment

CHART_SECONDS = 1.0
"""Seconds for which a chart's data is cached for all readers; a live page requests it once for each change."""
PATIENCE = 5.0
"""Seconds that a page waits for a busy database; it waits twice as long for a server that it cannot reach."""
PART = 1000
"""Rows of a long table that are read at a time."""


def create_app(db: str, access: Access, farm: FarmSource | None = None) -> Starlette:
    """Creates the dashboard of the database at ``db`` (a path or URL), which is opened read-only. Where ``access``
    allows notes, the code that writes them opens a second connection.

    Raises ``DatabaseError`` if the database cannot be opened.
    """
    database = Database.open(db, create=False, readonly=True, timeout=PATIENCE)
    site = Site(database, farm)
    templates = _templates(access, site)
    hub = Hub()
    metrics = Metrics(database, farm)
    notes = Notes(access, lambda: Database.open(db, create=False, timeout=PATIENCE), site.changed)

    def mark(request: Request) -> str | None:
        """The CSRF token that a form must carry to write a note; ``None`` if the client may not write."""
        session = session_of(request.scope, access)
        return access.sessions.mark(session) if access.writable and access.sessions.valid(session) else None

    def scrape(_: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    routes: list[BaseRoute] = [
        Route("/metrics", scrape),
        *login_routes(access, templates),
        *notes.routes(),
        Mount("/static", StaticFiles(directory=str(files("tilewright.dashboard") / "static"))),
    ]
    for page in PAGES:
        routes += _routes(page, site, templates, hub, mark)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        notes.close()
        database.close()
        if farm is not None:
            farm.close()

    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, access=access)],
        exception_handlers=_handlers(templates),
        lifespan=lifespan,
    )


def _routes(
    page: Page, site: Site, templates: Environment, hub: Hub, mark: Callable[[Request], str | None]
) -> Iterator[Route]:
    base = page.path.rstrip("/")

    def html(request: Request) -> Response:
        here = partial(link, request)
        shown = templates.get_template(f"{page.name}.html").render(
            section=page.section, query=defaultdict(str, request.query_params), link=here, mark=mark(request),
            link_to_page=lambda n: here(page=n), **page.view(site, request),
        )  # fmt: skip
        return HTMLResponse(shown)

    def table(request: Request) -> Response:
        name, kind = request.path_params["table"], request.path_params["kind"]
        found = page.tables.get(name)
        if found is None or kind not in ("csv", "json"):
            raise NotFound(f"{page.path} has no table {name}.{kind}", f"It has {', '.join(page.tables) or 'none'}")
        parts = _parts(found, site, request)
        headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
        if kind == "csv":
            return StreamingResponse(to_csv(parts), media_type="text/csv", headers=headers)
        return StreamingResponse(to_json(parts), media_type="application/json")

    def chart(request: Request) -> Response:
        name = request.path_params["chart"]
        make = page.charts.get(name)
        if make is None:
            raise NotFound(f"{page.path} has no chart {name}", f"It has {', '.join(page.charts) or 'none'}")
        key = (request.url.path, tuple(sorted(request.query_params.items())))
        body = site.answers.get(key, CHART_SECONDS, lambda: json.dumps(make(site, request).to_json(), default=str))
        return Response(body, media_type="application/json")

    async def live(request: Request) -> Response:
        assert page.live is not None
        feed = await run_in_threadpool(page.live, site, request)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(hub.stream(feed), media_type="text/event-stream", headers=headers)

    if page.tables:
        yield Route(base + "/tables/{table}.{kind}", table)
    if page.charts:
        yield Route(base + "/charts/{chart}.json", chart)
    if page.live is not None:
        yield Route(base + "/live", live)
    yield Route(page.path, html)


def _parts(found: Listing | Callable[[Site, Request], Table], site: Site, request: Request) -> Iterator[Table]:
    """A table in parts of ``PART`` rows. The first part is read at once, so that an unreadable table gives an error
    response, not a truncated one."""
    if not isinstance(found, Listing):
        return iter((found(site, request),))
    first = found.rows(site, request, PART, 0)

    def parts() -> Iterator[Table]:
        table, offset = first, PART
        yield table
        while len(table.rows) == PART:
            table = found.rows(site, request, PART, offset)
            offset += PART
            yield table

    return parts()


def _templates(access: Access, site: Site) -> Environment:
    env = Environment(
        loader=PackageLoader("tilewright.dashboard"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("duration", "rate", "share", "moment", "count", "cell", "tone", "times", "lines"):
        env.filters[name] = getattr(text, name)
    env.filters["segment"] = segment
    env.filters["visible"] = text.shown
    env.filters["highlight"] = highlight
    env.globals |= {
        "version": __version__,
        "navigation": [(title, at) for title, at in NAVIGATION if at != "/farm" or site.farm is not None],
        "location": site.database.location,
        "login": access.token is not None,
    }
    return env


def _handlers(templates: Environment) -> dict[Any, Any]:
    def answer(request: Request, status: int, message: str, hint: str) -> Response:
        if "/tables/" in request.url.path or "/charts/" in request.url.path or request.url.path.endswith("/live"):
            return JSONResponse({"schema": 1, "error": {"message": message, "mend": hint}}, status)
        shown = templates.get_template("error.html").render(section="", status=status, message=message, hint=hint)
        return HTMLResponse(shown, status)

    def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, TilewrightError)
        status = 404 if isinstance(error, NotFound) else 400 if isinstance(error, UsageError) else 503
        return answer(request, status, error.message, error.hint)

    def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        hint = "See the overview for what there is" if error.status_code == 404 else ""
        return answer(request, error.status_code, error.detail, hint)

    return {TilewrightError: known, HTTPException: http}
