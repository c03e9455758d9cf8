"""``tilewright dashboard``: what is stored and what the farm does, as web pages and metrics."""

from __future__ import annotations

import importlib.util
import webbrowser
from pathlib import Path

import click

from tilewright.cli.commands.farm.options import CERTS, certs_for
from tilewright.cli.declare import declared, option
from tilewright.cli.options import DB, location, open_database
from tilewright.core import UsageError

_NEEDS = ("starlette", "uvicorn", "jinja2", "pygments", "prometheus_client")


@declared("dashboard", json=False)
def command(
    db: str | None = DB,
    host: str = option(default="127.0.0.1", help="Where to listen. Others than loopback: see below."),
    port: int = option(low=0, high=65535, default=8765, help="0 takes a free one."),
    token_file: Path | None = option(
        metavar="FILE", help="Whose first line one must know to see anything. For its owner's eyes alone (mode 0600)."
    ),
    tls_cert: Path | None = option(metavar="FILE", help="Certificate chain (PEM): HTTPS."),
    tls_key: Path | None = option(metavar="FILE", help="Its private key (PEM)."),
    writable: bool = option(help="Let those who have the token write notes on runs. Needs --token-file."),
    behind_proxy: bool = option(help="A proxy in front does HTTPS. Its headers are not trusted."),
    allow_host: tuple[str, ...] = option(
        metavar="NAME[:PORT]", help="Another name under which browsers ask for it. May be repeated."
    ),
    address: str | None = option(
        "--farm", envvar="TILEWRIGHT_FARM", show_envvar=True, metavar="ADDRESS", help="Show this farm too."
    ),
    certs: Path | None = CERTS,
    max_connections: int = option(
        low=1, high=10000, default=200, help="At a time; an open live page takes one. One address may hold a tenth."
    ),
    optuna: bool = option(help="Serve Optuna's own dashboard of the database instead (loopback only)."),
    optuna_port: int = option(low=0, high=65535, default=8766),
    opens: bool = option("--open", help="Open it in a browser."),
) -> int:
    """Show runs, kernels and the farm as web pages, and metrics for Prometheus.

    It only reads, but for notes with --writable, and prints its address once it listens. On loopback it asks for
    no login; everywhere else it needs --token-file, and --tls-cert with --tls-key or --behind-proxy.

    \b
    Examples:
      tilewright dashboard
      tilewright dashboard --farm tls://farm.example.org:8786 --certs certs
      tilewright dashboard --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem --allow-host gpu1
      tilewright dashboard --optuna
    """

    where = location(db)

    def ready(url: str) -> None:
        click.echo(url)
        if opens:
            webbrowser.open(url)

    if optuna:
        from tilewright.dashboard.optuna_server import serve_optuna

        serve_optuna(where, host, optuna_port, ready)
        return 0
    _require_extra()
    from tilewright.dashboard.app import create_app
    from tilewright.dashboard.farm_source import FarmSource
    from tilewright.dashboard.serving.connections import Limits
    from tilewright.dashboard.serving.serve import open_place, serve

    open_database(db).close()  # before anything listens
    farm = FarmSource(address, certs_for(address, certs)) if address else None
    place = open_place(
        host, port, token_file=token_file, tls_cert=tls_cert, tls_key=tls_key, behind_proxy=behind_proxy,
        allow_hosts=allow_host, writable=writable,
    )  # fmt: skip
    serve(create_app(where, place.access, farm), place, Limits(max_connections), ready)
    return 0


def _require_extra() -> None:
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the dashboard needs {missing[0]}", "pip install 'tilewright[dashboard]'")
