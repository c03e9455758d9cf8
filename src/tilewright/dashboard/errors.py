"""Errors of serving, and plain-text responses to requests that are refused before they reach a page."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from tilewright.core import TilewrightError
from tilewright.database.text import visible_text

Header = tuple[bytes, bytes]


class DashboardError(TilewrightError):
    """The dashboard cannot be served with the given options."""

    kind = "dashboard"


def cannot_listen(host: str, port: int, error: OSError) -> DashboardError:
    """The error for an address that cannot be bound."""
    why = os.strerror(error.errno) if error.errno else str(error)
    return DashboardError(
        f"cannot listen on {host}, port {port}: {why}", "Give another --port, 0 for a free one, or --host"
    )


async def refuse(send: Any, status: int, text: str, headers: Iterable[tuple[str, str]] = ()) -> None:
    """Sends a whole ASGI response of one line of text. ``text`` may contain client input; it is escaped."""
    from starlette.responses import PlainTextResponse  # Optuna's dashboard needs no Starlette

    answer = PlainTextResponse(f"{visible_text(text)}\n", status, dict(headers))
    await answer({"type": "http"}, None, send)  # type: ignore[arg-type]
