"""Routes ``/login``, which gives a session cookie for the token, and ``/logout``, which revokes the cookie."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tilewright.dashboard.serving.access import SESSION_SECONDS, Access, client_of, local_path, same_site, session_of

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_BODY = 4096
"""Largest number of bytes of a login form."""
_FORM = "application/x-www-form-urlencoded"
_log = logging.getLogger("tilewright.dashboard")


class Refused(Exception):
    """A form that is refused, with the HTTP ``status`` and the ``text`` of the response."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


def login_routes(access: Access, templates: Environment) -> list[Route]:
    """The routes ``/login`` and ``/logout``; ``templates`` has ``login.html``. ``Guard`` has checked the host."""

    def form(next_path: str, error: str = "", status: int = 200, again: bool = False) -> Response:
        page = templates.get_template("login.html").render(next=next_path, error=error, again=again)
        return HTMLResponse(page, status)

    async def show(request: Request) -> Response:
        there = local_path(request.query_params.get("next", "/"))
        if access.token is None or access.sessions.valid(session_of(request.scope, access)):
            return RedirectResponse(there, 303)
        # The cookie is SameSite=strict, so a link on another site comes without it. The page then opens the link again
        # itself, and the browser sends the cookie, if it has one.
        again = request.headers.get("sec-fetch-site") == "cross-site"
        return await run_in_threadpool(form, there, again=again)

    async def log_in(request: Request) -> Response:
        if access.token is None:
            return RedirectResponse("/", 303)
        try:
            fields = await form_fields(request, MOST_BODY)
        except Refused as e:
            return PlainTextResponse(e.text + "\n", e.status, {"Connection": "close"})
        there = local_path(fields.get("next", "/"))
        client = client_of(request.scope)
        wait = access.attempts.wait(client)
        if wait:
            answer = await run_in_threadpool(form, there, f"Too many wrong tokens. Wait {wait} seconds.", 429)
            answer.headers["Retry-After"] = str(wait)
            return answer
        if not access.has_token(fields.get("token", "").strip()):
            access.attempts.failed(client)
            _log.warning("a login was refused: wrong token from %s", client)
            return await run_in_threadpool(form, there, "This token is not valid.", 403)
        answer = RedirectResponse(there, 303)
        answer.set_cookie(
            access.cookie, access.sessions.issue(), max_age=SESSION_SECONDS, path="/", secure=access.secure,
            httponly=True, samesite="strict",
        )  # fmt: skip
        return answer

    async def log_out(request: Request) -> Response:
        if not same_site(request.scope):
            return PlainTextResponse("This form came from another site.\n", 403, {"Connection": "close"})
        access.sessions.end(session_of(request.scope, access))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(access.cookie, path="/", secure=access.secure, httponly=True, samesite="strict")
        return answer

    return [
        Route("/login", show, methods=["GET"]),
        Route("/login", log_in, methods=["POST"]),
        Route("/logout", log_out, methods=["POST"]),
    ]


async def form_fields(request: Request, most: int) -> dict[str, str]:
    """Reads a form of at most ``most`` bytes that a page of this site posts; returns the last value of each field.

    Raises ``Refused`` for another site, another content type, a longer form, and text that is not a form.
    """
    if not same_site(request.scope):
        raise Refused(403, "This form came from another site.")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Refused(415, f"This address takes a form ({_FORM}).")
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise Refused(413, f"This form may have at most {most} bytes.")
    except ClientDisconnect:
        raise Refused(400, "The form ended too early.") from None
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=10, errors="strict")
    except ValueError:
        raise Refused(400, "The request is not a form.") from None
    return {name: values[-1] for name, values in fields.items()}
