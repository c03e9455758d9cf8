"""``tilewright dashboard``: serves web pages and metrics of the database and the farm."""

from __future__ import annotations

import importlib.util
import sys
import webbrowser
from pathlib import Path

from tilewright.cli.commands.farm.options import CERTS, certs_for
from tilewright.cli.declare import declared, option
from tilewright.cli.options import DB, location, open_database
from tilewright.cli.output import report
from tilewright.core import UsageError

_NEEDS = ("starlette", "uvicorn", "jinja2", "pygments", "prometheus_client")


@declared("dashboard")
def command(
    db: str | None = DB,
    host: str = option(
        default="127.0.0.1",
        help="Address to listen on. Every other address than loopback needs the options named above.",
    ),
    port: int = option(low=0, high=65535, default=8765, help="Port to listen on; 0 for any free port."),
    token_file: Path | None = option(
        metavar="FILE",
        help="File whose first line is the token to log in with. Only its owner may read it (mode 0600).",
    ),
    tls_cert: Path | None = option(metavar="FILE", help="Certificate chain (PEM), to serve HTTPS."),
    tls_key: Path | None = option(metavar="FILE", help="Private key of the certificate (PEM)."),
    writable: bool = option(help="Let users with the token write notes and tags on runs. Needs --token-file."),
    behind_proxy: bool = option(help="A proxy in front serves HTTPS. Its headers are not trusted."),
    allow_host: tuple[str, ...] = option(
        metavar="NAME[:PORT]", help="Another host name that browsers may use. May be repeated."
    ),
    address: str | None = option(
        "--farm",
        envvar="TILEWRIGHT_FARM",
        show_envvar=True,
        metavar="ADDRESS",
        help="Also show this farm: tls://HOST:PORT.",
    ),
    certs: Path | None = CERTS,
    max_connections: int = option(
        low=1,
        high=10000,
        default=200,
        help="Connections at a time. An open live page takes one; one client address may hold a tenth.",
    ),
    optuna: bool = option(help="Serve Optuna's dashboard of the database instead, on loopback only."),
    optuna_port: int = option(low=0, high=65535, default=8766, help="Port of Optuna's dashboard."),
    opens: bool = option("--open", help="Open the pages in a browser."),
) -> int:
    """Serve web pages of runs, kernels and the farm, and metrics for Prometheus.

    The dashboard only reads the database; with --writable it also stores notes. It prints its address once it listens.
    On loopback it needs no login. On every other --host it needs --token-file, and either --tls-cert and --tls-key or
    --behind-proxy.

    \b
    Examples:
      tilewright dashboard
      tilewright dashboard --farm tls://farm.example.org:8786 --certs certs
      tilewright dashboard --host 0.0.0.0 --token-file token --tls-cert cert.pem --tls-key key.pem --allow-host gpu1
      tilewright dashboard --optuna
    """

    where = location(db)

    def ready(url: str) -> None:
        report({"address": url}, url)
        sys.stdout.flush()
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
    from tilewright.dashboard.serving.serve import bind_address, serve

    open_database(db).close()  # errors of the database come before the server listens
    farm = FarmSource(address, certs_for(address, certs)) if address else None
    binding = bind_address(
        host, port, token_file=token_file, tls_cert=tls_cert, tls_key=tls_key, behind_proxy=behind_proxy,
        allow_hosts=allow_host, writable=writable,
    )  # fmt: skip
    serve(create_app(where, binding.access, farm), binding, Limits(max_connections), ready)
    return 0


def _require_extra() -> None:
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the dashboard needs {missing[0]}", "Run: pip install 'tilewright[dashboard]'")
