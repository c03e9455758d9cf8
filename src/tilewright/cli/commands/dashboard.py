"""``tilewright dashboard``: what is stored and what the farm does, as web pages and metrics."""

from __future__ import annotations

import importlib.util
import webbrowser
from pathlib import Path

import click

from tilewright.cli.commands.farm.options import certs_for, certs_option
from tilewright.cli.options import db_option
from tilewright.core import UsageError

_NEEDS = ("starlette", "uvicorn", "jinja2", "pygments", "prometheus_client")


@click.command("dashboard")
@db_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen. Others than loopback: see below."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes a free one.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Whose first line one must know to see anything. For its owner's eyes alone (mode 0600).",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Certificate chain (PEM): HTTPS.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its private key (PEM).")
@click.option("--writable", is_flag=True, help="Let those who have the token write notes on runs. Needs --token-file.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front does HTTPS. Its headers are not trusted.")
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Another name under which browsers ask for it. May be repeated.",
)
@click.option(
    "--farm", "address", envvar="TILEWRIGHT_FARM", show_envvar=True, metavar="ADDRESS", help="Show this farm too."
)
@certs_option
@click.option(
    "--max-connections",
    type=click.IntRange(1, 10000),
    default=200,
    show_default=True,
    help="At a time; an open live page takes one. One address may hold a tenth.",
)
@click.option("--optuna", is_flag=True, help="Serve Optuna's own dashboard of the database instead (loopback only).")
@click.option("--optuna-port", type=click.IntRange(0, 65535), default=8766, show_default=True)
@click.option("--open", "opens", is_flag=True, help="Open it in a browser.")
def command(
    db: str | None, host: str, port: int, token_file: Path | None, tls_cert: Path | None, tls_key: Path | None,
    writable: bool, behind_proxy: bool, allow_host: tuple[str, ...], address: str | None, certs: Path | None,
    max_connections: int, optuna: bool, optuna_port: int, opens: bool,
) -> int:  # fmt: skip
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
    from tilewright.database import Database
    from tilewright.paths import default_path

    where = db or default_path()

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

    Database.open(where, create=False, readonly=True).close()  # before anything listens
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
