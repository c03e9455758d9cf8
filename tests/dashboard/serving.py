"""A dashboard that really serves, in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tilewright.dashboard.app import create_app
from tilewright.dashboard.farm_source import FarmSource
from tilewright.dashboard.serving.serve import bind_address, make_server


@contextmanager
def dashboard(db: str | Path, farm: FarmSource | None = None) -> Iterator[str]:
    """Its address, without a slash at the end."""
    binding = bind_address("127.0.0.1", 0)
    listening = threading.Event()
    server = make_server(create_app(str(db), binding.access, farm), binding, ready=lambda _: listening.set())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert listening.wait(60.0)
        yield binding.url.rstrip("/")
    finally:
        server.stop()
        thread.join(60.0)
        assert not thread.is_alive()


@contextmanager
def asking(db: str | Path, farm: FarmSource | None = None) -> Iterator[httpx.Client]:
    """A client of a dashboard of its own."""
    with dashboard(db, farm) as base, httpx.Client(base_url=base, timeout=60.0) as client:
        yield client
