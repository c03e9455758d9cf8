"""``tilewright farm server|keeper|runner|builder``: processes that run until a signal or a drain ends them."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.commands.farm.options import CERTS, Reached
from tilewright.cli.declare import declared, option, options, wants_json
from tilewright.cli.options import DEVICE, TARGET
from tilewright.cli.output import emit_json, report
from tilewright.core import UsageError

if TYPE_CHECKING:
    from tilewright.farm.workers.service import Service

STOPPED = 143  # exit code after SIGTERM with work left, 128 + SIGTERM
SAME_SECONDS = 0.5  # systemd and Slurm signal every process of a service, and the parent process signals its children
DRAIN_SECONDS = option(
    low=0, default=60.0, metavar="S", help="Seconds that running work may take to finish after SIGTERM or Ctrl-C."
)
NAME = option(metavar="NAME", help="Name of this runner or builder in the farm. [default: host and device]")


def show(data: dict[str, Any], *lines: str) -> None:
    """Reports a result and flushes stdout, because a script may wait for it at a pipe."""
    report(data, *lines)
    sys.stdout.flush()


def say(line: str) -> None:
    relay(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}")


def relay(line: str) -> None:
    """Writes a line of the log. Errors are ignored: a service goes on if the log's reader is gone or its disk is
    full."""
    with contextlib.suppress(OSError):
        click.echo(line, err=True)


@dataclass(frozen=True)
class Keeping:
    """Options that the server and the separate keeper share."""

    storage: float = option(
        low=0.1,
        default=4.0,
        metavar="GIB",
        help="Disk space of a server for jobs, results and compiled kernels, in GiB.",
    )
    heartbeat: float = option(low=0.05, default=5.0, metavar="S", help="Seconds between two signs of life of a worker.")
    patience: float = option(
        low=0.1, default=600.0, metavar="S", help="Seconds that a job waits for a worker that can do it."
    )
    replicas: int | None = option(
        low=1, high=5, metavar="N", help="Number of servers that store each job. [default: 3; 1 without --cluster]"
    )

    def settings(self, servers: int) -> dict[str, Any]:
        """The keeper's arguments, for a number of servers."""
        return {
            "storage": int(self.storage * (1 << 30)), "heartbeat": self.heartbeat, "patience": self.patience,
            "replicas": self.replicas or min(3, max(1, servers)),
        }  # fmt: skip


@declared("server")
def server(
    certs: Path | None = CERTS,
    host: str = option(default="127.0.0.1", help="Address to listen on; 0.0.0.0 for every address (needs --certs)."),
    port: int = option(low=0, high=65535, default=8786, help="Port to listen on; 0 for any free port."),
    state: Path | None = option(
        metavar="DIR", help="Folder for jobs, results and compiled kernels. [default: farm in the artifact cache]"
    ),
    let_in: Path | None = option(
        metavar="FILE", help="List of the users that may connect. [default: users.json beside the certificate]"
    ),
    keeping: Keeping = options(Keeping),
    cluster: str | None = option(
        envvar="TILEWRIGHT_CLUSTER",
        metavar="NAME",
        help="Name of the cluster, for one of several servers that store the same jobs.",
    ),
    listen: str | None = option(
        envvar="TILEWRIGHT_LISTEN",
        metavar="NAME:PORT",
        help="Where the other servers of the cluster reach this server.",
    ),
    routes: tuple[str, ...] = option(
        "--route",
        envvar="TILEWRIGHT_ROUTES",
        metavar="NAME:PORT",
        help="Where a server of the cluster is reached, by a name in its certificate. Repeat it for every server.",
    ),
) -> int:
    """Run the farm's server (nats-server and its keeper); print its address once it listens.

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
        raise UsageError("a cluster needs --cluster, --listen and --route together", CLUSTER_HINT)
    several = Cluster(cluster, listen, routes) if cluster and listen else None
    hub = Hub(
        None if certs is None else certs.expanduser(), host, port, cache_root() / "farm" if state is None else state,
        cluster=several, let_in=let_in, say=say, **keeping.settings(len(routes)),
    )  # fmt: skip

    async def serve() -> None:
        stop = asyncio.Event()
        on_signals(stop.set)
        address = await hub.start(wait=several is None)
        show({"address": address}, address)
        await stop.wait()
        say("stopping; runners and clients reconnect when the server is back")
        await hub.stop()

    asyncio.run(serve())
    return 0


scheduler = server
"""The command's name in version 0.1; it will be removed in 0.3."""

CLUSTER_HINT = "Pass --cluster NAME, --listen HOST:PORT and a --route for each server"


@declared("keeper")
def keeper(
    users: Path | None = option(
        metavar="FILE", help="Write the accounts of nats-server to FILE whenever they change (see farm users)."
    ),
    keeping: Keeping = options(Keeping),
    reached: Reached = options(Reached),
) -> int:
    """Run the keeper alone, for a farm whose nats-servers somebody else runs.

    The keeper gives the orders of the farm. farm server runs one itself. With --json it prints the farm's
    address once the farm takes jobs.

    \b
    Examples:
      tilewright farm keeper --certs certs --users /etc/nats/accounts.conf --replicas 3 tls://localhost:8786
    """
    from tilewright.farm.keeper import Keeper
    from tilewright.farm.link import Endpoint
    from tilewright.farm.pki.identity import USERS
    from tilewright.farm.server import follow_users, orders_of

    endpoint = Endpoint(reached.where, reached.credentials, "server")
    if endpoint.credentials is None:
        raise UsageError(
            "a keeper that runs alone needs a server's certificate", "Write tls://HOST:PORT and pass --certs DIR"
        )
    credentials, endpoint.orders = endpoint.credentials, orders_of(endpoint.credentials)

    async def keep() -> None:
        stop = asyncio.Event()
        on_signals(stop.set)
        keeper = Keeper(
            endpoint, users=credentials.cert.with_name(USERS), say=say, **keeping.settings(len(endpoint.servers))
        )
        tasks = [asyncio.create_task(keeper.run())]
        tasks += [asyncio.create_task(follow_users(credentials, users, say))] if users else []
        tasks.append(asyncio.create_task(_show_when(keeper.ready, lambda: {"address": endpoint.address})))
        await stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(keep())
    return 0


@declared("users")
def users(
    certs: Path | None = CERTS,
    out: Path | None = option(metavar="FILE", help="Write the accounts to FILE, not to stdout."),
) -> None:
    """Print the accounts for a nats-server that farm server does not run: who may connect, and what each may do.

    Keep the accounts secret: they contain the name under which the keeper gives orders. With --json the command prints
    the accounts under the key accounts, or FILE under the key out.

    \b
    Examples:
      tilewright farm users --certs farm/server --out accounts.conf
    """
    from tilewright.farm.pki.private_files import explained
    from tilewright.farm.pki.tls import find_credentials
    from tilewright.farm.server import accounts_of
    from tilewright.files import replace_files

    if certs is None:
        raise UsageError("no certificates are given", "Pass --certs DIR, a folder with a server's certificate")
    text = accounts_of(find_credentials(certs.expanduser(), "server"))
    if out is not None:
        with explained(out):
            replace_files(out.absolute().parent, {out.name: text.encode()})
        report({"out": str(out)})
    elif wants_json():
        emit_json({"accounts": text})
    else:
        click.echo(text, nl=False)


@declared("runner")
def runner(
    device: str = DEVICE,
    target: str = TARGET,
    name: str | None = NAME,
    drain_seconds: float = DRAIN_SECONDS,
    reached: Reached = options(Reached),
) -> int:
    """Measure kernels for a farm on one device of this machine, until SIGTERM or farm drain.

    With --json it prints its name and device once it is connected.

    \b
    Examples:
      tilewright farm runner --certs certs --device cuda:0 tls://farm.example.org:8786
      tilewright farm runner --certs certs --device cpu:0-1 tls://farm.example.org:8786
    """
    from tilewright.backends.cache import ArtifactCache
    from tilewright.farm.link import Endpoint
    from tilewright.farm.workers.runner import Runner, local_bench
    from tilewright.measure.devices import describe_device, find

    endpoint = Endpoint(reached.where, reached.credentials, "runner")
    place = find(device, target)
    for warning in place.warnings():
        say(f"warning: {warning}")
    described = describe_device(place)
    called = name or f"{platform.node()}-{described.device}"
    say(f"offering {described.device} to device class {described.device_class}")
    return asyncio.run(
        _work(lambda: Runner(endpoint, called, local_bench(place, described), ArtifactCache(), say), drain_seconds)
    )


@declared("builder")
def builder(
    workers: int | None = option(
        low=1, high=256, help="Number of compilers that run at a time. [default: one per core]"
    ),
    name: str | None = NAME,
    drain_seconds: float = DRAIN_SECONDS,
    reached: Reached = options(Reached),
) -> int:
    """Compile kernels for a farm on this machine: C++ for processors, NVRTC for every CUDA architecture.

    With --json it prints its name and compilers once it is connected.

    \b
    Examples:
      tilewright farm builder --certs certs --workers 8 tls://farm.example.org:8786
    """
    from tilewright.backends.cache import ArtifactCache
    from tilewright.farm.link import Endpoint
    from tilewright.farm.workers.builder import Builder, default_lanes

    endpoint = Endpoint(reached.where, reached.credentials, "builder")
    called = name or f"{platform.node()}-builder"
    lanes = workers or default_lanes()
    return asyncio.run(_work(lambda: Builder(endpoint, called, ArtifactCache(), lanes, say), drain_seconds))


async def _work(make: Callable[[], Service], drain_seconds: float) -> int:
    """Serves until drained or stopped; returns the exit code. The first signal drains, the second stops at once."""
    code = 0
    tasks: list[asyncio.Task[None]] = []

    async def leave() -> None:
        nonlocal code
        say(f"draining for at most {drain_seconds:.0f} s; a second signal stops at once")
        if not await service.drain(drain_seconds):
            say("stopped before the running work was done; the farm gives it to others")
            code = STOPPED

    def stop() -> None:
        service.stop()

    # Handlers come first: the search for devices and compilers would swallow a signal's exception, or break at it.
    on_signals(lambda: tasks.append(asyncio.get_running_loop().create_task(leave())), stop)
    service = make()
    shown = asyncio.create_task(_show_when(service.connected, lambda: _described(service)))
    try:
        await service.run()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        shown.cancel()
        await service.close()
    return code


def _described(service: Service) -> dict[str, Any]:
    return {"name": service.name, "role": service.role, "address": service.endpoint.address, **service.greeting()}


async def _show_when(ready: asyncio.Event, data: Callable[[], dict[str, Any]]) -> None:
    """Prints an object for a script once ``ready`` is set; people read the log."""
    await ready.wait()
    with contextlib.suppress(OSError):
        show(data())


def on_signals(first: Callable[[], object], again: Callable[[], object] = lambda: None) -> None:
    """Has the first SIGTERM or Ctrl-C call ``first``, and later signals ``again``."""
    loop = asyncio.get_running_loop()
    heard: list[float] = []

    def on_signal() -> None:
        heard.append(time.monotonic())
        if len(heard) == 1:
            first()
        elif heard[-1] - heard[0] > SAME_SECONDS:
            again()

    for s in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(s, on_signal)
