"""The route ``/runs/RUN/note``, the only one that writes to the database; it needs ``--writable``.

The pages only read. Notes have their own connection to the database, opened when the first note is written. Only a
client that is logged in or sends the token gets this far (``Guard``). A form must come from a page of this site and
carry the CSRF token of its session, which no other site can know.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tilewright.core import TilewrightError
from tilewright.dashboard.serving.access import Access, session_of
from tilewright.dashboard.serving.login import Refused, form_fields
from tilewright.errors import NotFound
from tilewright.insight.links import run_link, unsegment

if TYPE_CHECKING:
    from tilewright.database import Database

MOST_BODY = 65_536
"""Largest number of bytes of a form: the longest note, with each of its characters escaped."""


class Notes:
    """Writes notes on runs. Any thread may write.

    ``database`` opens the database for writing, once. ``written`` is called with the id of each run with a new note.
    """

    def __init__(self, access: Access, database: Callable[[], Database], written: Callable[[str], None]) -> None:
        self._access = access
        self._open = database
        self._written = written
        self._lock = threading.Lock()
        self._database: Database | None = None

    def routes(self) -> list[Route]:
        """The route that takes notes; empty unless the dashboard is writable."""
        return [Route("/runs/{run}/note", self._post, methods=["POST"])] if self._access.writable else []

    def close(self) -> None:
        """Closes the connection to the database, if a note has opened it."""
        if self._database is not None:
            self._database.close()

    async def _post(self, request: Request) -> Response:
        run = unsegment(request.path_params["run"])
        try:
            fields = await form_fields(request, MOST_BODY)
            session = session_of(request.scope, self._access)
            # A program that sends the token itself has no session; another site cannot make a browser send the token.
            if self._access.sessions.valid(session):
                mark = self._access.sessions.mark(session)
                if not hmac.compare_digest(mark.encode(), fields.get("mark", "").encode()):
                    raise Refused(403, "This form is of another session. Reload its page.")
            elif "authorization" not in request.headers:
                raise Refused(403, "Log in first.")
            text = fields.get("text", "").replace("\r\n", "\n").strip()
            await run_in_threadpool(self._write, run, text, fields.get("tags", "").split())
        except Refused as e:
            return PlainTextResponse(e.text + "\n", e.status, {"Connection": "close"})
        except TilewrightError as e:
            status = 404 if isinstance(e, NotFound) else 400 if e.kind == "usage" else 503
            return PlainTextResponse(f"{e.message}. {e.hint}\n", status)
        return RedirectResponse(run_link(run), 303)

    def _write(self, run: str, text: str, tags: list[str]) -> None:
        with self._lock:
            if self._database is None:
                self._database = self._open()
        self._database.set_note(run, text, tags)
        self._written(run)
