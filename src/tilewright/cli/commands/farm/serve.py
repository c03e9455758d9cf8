"""``tilewright farm server|keeper|runner|builder``: processes that run until they are told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import platform
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.commands.farm.options import F, address_argument, address_of, certs_for, certs_option
from tilewright.cli.options import device_option, target_option
from tilewright.core import UsageError

if TYPE_CHECKING:
    from tilewright.farm.workers.service import Service

STOPPED = 143  # exit code after SIGTERM with work left, 128 + SIGTERM
SAME_SECONDS = 0.5  # systemd and Slurm tell every process of a service, and so does the one that started it
drain_option = click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="After SIGTERM or Ctrl-C, how long running work may take to finish.",
)
_NAME = click.option("--name", metavar="NAME", help="What to be called in the farm. [default: host and device]")


def say(line: str) -> None:
    relay(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}")


def relay(line: str) -> None:
    """Write a line of the log. A service goes on where nobody reads that any more, or where a disk is full."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


_KEEPING = (
    click.option(
        "--storage", type=click.FloatRange(min=0.1), default=4.0, show_default=True, metavar="GIB",
        help="How much of a server's disk jobs, results and artifacts may take.",
    ),
    click.option("--heartbeat", type=click.FloatRange(min=0.05), default=5.0, show_default=True, metavar="S"),
    click.option(
        "--patience", type=click.FloatRange(min=0.1), default=600.0, show_default=True, metavar="S",
        help="How long a job waits for a worker that can do it.",
    ),
    click.option(
        "--replicas", type=click.IntRange(1, 5), metavar="N",
        help="Servers that hold each job. [default: 3, or 1 alone]",
    ),
)  # fmt: skip


def _keeping(command: F) -> F:
    """What a server and a keeper by itself have in common."""
    return functools.reduce(lambda done, option: option(done), reversed(_KEEPING), command)


@click.command("server")
@certs_option
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; 0.0.0.0 for every address (needs --certs).",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8786, show_default=True, help="0 takes a free one.")
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where jobs, results and artifacts are kept. [default: farm in the artifact cache's folder]",
)
@click.option(
    "--let-in", type=click.Path(path_type=Path), metavar="FILE",
    help="Whom to let in. [default: users.json beside the certificate]",
)  # fmt: skip
@_keeping
@click.option(
    "--cluster", envvar="TILEWRIGHT_CLUSTER", metavar="NAME", help="Be one of several servers that hold the same jobs."
)
@click.option(
    "--listen",
    envvar="TILEWRIGHT_LISTEN",
    metavar="NAME:PORT",
    help="Where the cluster's other servers reach this one.",
)
@click.option(
    "--route", "routes", multiple=True, envvar="TILEWRIGHT_ROUTES", metavar="NAME:PORT",
    help="A server of the cluster, by a name that its certificate has; once for each.",
)  # fmt: skip
def server(
    certs: Path | None, host: str, port: int, state: Path | None, let_in: Path | None, storage: float, heartbeat: float,
    patience: float, replicas: int | None, cluster: str | None, listen: str | None, routes: tuple[str, ...],
) -> int:  # fmt: skip
    """Run the farm's server, nats-server, and what belongs to it. Prints its address on stdout once it listens.

    \b
    Examples:
      tilewright farm server --certs certs --host 0.0.0.0
      tilewright farm server --port 0          (this machine only, no certificates)
      tilewright farm server --certs certs/a --host 0.0.0.0 --cluster farm --listen a.example.org:8787 \\
          --route a.example.org:8787 --route b.example.org:8787 --route c.example.org:8787
    """
    from tilewright.farm.hub import Hub
    from tilewright.farm.server import Cluster
    from tilewright.paths import cache_root

    if bool(cluster) != bool(listen) or bool(cluster) != bool(routes):
        raise UsageError("a cluster has a name, routes, and an address of this server", CLUSTER_HINT)
    several = Cluster(cluster, listen, routes) if cluster and listen else None
    hub = Hub(
        None if certs is None else certs.expanduser(), host, port, cache_root() / "farm" if state is None else state,
        cluster=several, let_in=let_in, storage=int(storage * (1 << 30)), say=say, heartbeat=heartbeat,
        patience=patience, replicas=replicas or min(3, max(1, len(routes))),
    )  # fmt: skip

    async def serve() -> None:
        stop = asyncio.Event()
        on_signals(stop.set)
        click.echo(await hub.start(wait=several is None))
        sys.stdout.flush()
        await stop.wait()
        say("stopping; runners and clients connect again when a server is back")
        await hub.stop()

    asyncio.run(serve())
    return 0


scheduler = server
"""Its name of version 0.1, until 0.3."""

CLUSTER_HINT = "Give --cluster NAME, --listen HOST:PORT and a --route for each server"


@click.command("keeper")
@certs_option
@click.option(
    "--users", type=click.Path(path_type=Path), metavar="FILE",
    help="Write nats-server's accounts there (`tilewright farm users`) whenever they change.",
)  # fmt: skip
@_keeping
@address_argument
def keeper(
    certs: Path | None, users: Path | None, storage: float, heartbeat: float, patience: float, replicas: int | None,
    address: str | None,
) -> int:  # fmt: skip
    """Keep a farm whose nats-servers somebody else runs; `tilewright farm server` has a keeper of its own.

    \b
    Examples:
      tilewright farm keeper --certs certs --users /etc/nats/accounts.conf --replicas 3 tls://localhost:8786
    """
    from tilewright.farm.keeper import Keeper
    from tilewright.farm.link import Endpoint
    from tilewright.farm.pki.identity import USERS
    from tilewright.farm.server import follow_users, orders_of

    where = address_of(address)
    endpoint = Endpoint(where, certs_for(where, certs), "server")
    if endpoint.credentials is None:
        raise UsageError(
            "a keeper by itself needs a server's certificate", "Write tls://HOST:PORT and pass --certs DIR"
        )
    credentials, endpoint.orders = endpoint.credentials, orders_of(endpoint.credentials)

    async def keep() -> None:
        stop = asyncio.Event()
        on_signals(stop.set)
        keeping = Keeper(
            endpoint, heartbeat=heartbeat, patience=patience, replicas=replicas or min(3, len(endpoint.servers)),
            storage=int(storage * (1 << 30)), users=credentials.cert.with_name(USERS), say=say,
        )  # fmt: skip
        tasks = [asyncio.create_task(keeping.run())]
        tasks += [asyncio.create_task(follow_users(credentials, users, say))] if users else []
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(keep())
    return 0


@click.command("users")
@certs_option
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write them there, and not to stdout.")
def users(certs: Path | None, out: Path | None) -> None:
    """Print the accounts for a nats-server that `tilewright farm server` does not run: who is let in now, and what each
    may do. Keep them to yourself: they have the name under which the keeper gives orders.

    \b
    Examples:
      tilewright farm users --certs farm/server --out accounts.conf
    """
    from tilewright.farm.pki.private_files import explained
    from tilewright.farm.pki.tls import find_credentials
    from tilewright.farm.server import accounts_of
    from tilewright.files import replace_files

    if certs is None:
        raise UsageError("no certificates are named", "Pass --certs DIR, with a server's")
    text = accounts_of(find_credentials(certs.expanduser(), "server"))
    if out is None:
        click.echo(text, nl=False)
    else:
        with explained(out):
            replace_files(out.absolute().parent, {out.name: text.encode()})


@click.command("runner")
@certs_option
@device_option
@target_option
@_NAME
@drain_option
@address_argument
def runner(
    certs: Path | None, device: str, target: str, name: str | None, drain_seconds: float, address: str | None
) -> int:
    """Offer one device of this machine to a farm, until SIGTERM or `tilewright farm drain`.

    \b
    Examples:
      tilewright farm runner --certs certs --device cuda:0 tls://farm.example.org:8786
      tilewright farm runner --certs certs --device cpu:0-1 tls://farm.example.org:8786
    """
    from tilewright.backends.cache import ArtifactCache
    from tilewright.farm.link import Endpoint
    from tilewright.farm.workers.runner import Runner, local_bench
    from tilewright.measure.devices import describe_place, find

    where = address_of(address)
    endpoint = Endpoint(where, certs_for(where, certs), "runner")
    place = find(device, target)
    for warning in place.warnings():
        say(f"warning: {warning}")
    described = describe_place(place)
    called = name or f"{platform.node()}-{described.device}"
    say(f"offering {described.device} as {described.device_class}")
    return asyncio.run(
        _work(lambda: Runner(endpoint, called, local_bench(place, described), ArtifactCache(), say), drain_seconds)
    )


@click.command("builder")
@certs_option
@click.option("--workers", type=click.IntRange(1, 256), help="Compilers at once. [default: one a core]")
@_NAME
@drain_option
@address_argument
def builder(
    certs: Path | None, workers: int | None, name: str | None, drain_seconds: float, address: str | None
) -> int:
    """Offer this machine's compilers to a farm: C++ for processors, NVRTC for any CUDA architecture.

    \b
    Examples:
      tilewright farm builder --certs certs --workers 8 tls://farm.example.org:8786
    """
    from tilewright.backends.cache import ArtifactCache
    from tilewright.farm.link import Endpoint
    from tilewright.farm.workers.builder import Builder, default_lanes

    where = address_of(address)
    endpoint = Endpoint(where, certs_for(where, certs), "builder")
    called = name or f"{platform.node()}-builder"
    lanes = workers or default_lanes()
    return asyncio.run(_work(lambda: Builder(endpoint, called, ArtifactCache(), lanes, say), drain_seconds))


async def _work(make: Callable[[], Service], drain_seconds: float) -> int:
    """Serve until drained or told to stop: the first signal drains, the second ends at once."""
    code = 0
    tasks: list[asyncio.Task[None]] = []

    async def leave() -> None:
        nonlocal code
        say(f"draining, at most {drain_seconds:.0f} s (again to stop at once)")
        if not await service.drain(drain_seconds):
            say("stopped before the running work was done; it is given to others")
            code = STOPPED

    def stop() -> None:
        service.stop()

    # First: what looks for devices and compilers would swallow a signal's exception, or fall over it.
    on_signals(lambda: tasks.append(asyncio.get_running_loop().create_task(leave())), stop)
    service = make()
    try:
        await service.run()
        await _all(tasks)
    finally:
        await service.close()
    return code


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    waiting: list[Awaitable[None]] = list(tasks)
    await asyncio.gather(*waiting, return_exceptions=True)


def on_signals(first: Callable[[], object], again: Callable[[], object] = lambda: None) -> None:
    """Have SIGTERM and Ctrl-C call ``first``, and later ones ``again``."""
    loop = asyncio.get_running_loop()
    heard: list[float] = []

    def told() -> None:
        heard.append(time.monotonic())
        if len(heard) == 1:
            first()
        elif heard[-1] - heard[0] > SAME_SECONDS:
            again()

    for s in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(s, told)
