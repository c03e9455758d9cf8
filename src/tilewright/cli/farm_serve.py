"""``tilewright farm scheduler|runner|builder``: processes that run until they are told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.farm_options import address_argument, address_of, certs_for, certs_option
from tilewright.cli.options import device_option, target_option

if TYPE_CHECKING:
    from tilewright.farm.service import Service

STOPPED = 143  # exit code after SIGTERM with work left, 128 + SIGTERM
_DRAIN = click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="S",
    help="After SIGTERM or Ctrl-C, how long running work may take to finish.",
)
_NAME = click.option("--name", metavar="NAME", help="What to be called in the farm. [default: host and device]")


def _say(line: str) -> None:
    click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", err=True)


@click.command("scheduler")
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
    help="Where artifacts and quarantines are kept. [default: farm in the artifact cache's folder]",
)
@click.option("--heartbeat", type=click.FloatRange(min=0.05), default=5.0, show_default=True, metavar="S")
@click.option(
    "--patience",
    type=click.FloatRange(min=0.1),
    default=600.0,
    show_default=True,
    metavar="S",
    help="How long a job waits for a worker that can do it.",
)
def scheduler(certs: Path | None, host: str, port: int, state: Path | None, heartbeat: float, patience: float) -> int:
    """Run the farm's scheduler. Prints its address on stdout once it listens.

    \b
    Examples:
      tilewright farm scheduler --certs certs --host 0.0.0.0
      tilewright farm scheduler --port 0          (this machine only, no certificates)
    """
    from tilewright.farm.scheduler import Scheduler
    from tilewright.farm.tls import find_credentials
    from tilewright.paths import cache_root

    credentials = None if certs is None else find_credentials(certs.expanduser(), "scheduler")
    folder = cache_root() / "farm" if state is None else state

    async def serve() -> None:
        hub = Scheduler(credentials, host, port, folder, heartbeat=heartbeat, patience=patience, say=_say)
        click.echo(await hub.start())
        sys.stdout.flush()
        stop = asyncio.Event()
        _on_signals(stop.set)
        await stop.wait()
        _say("stopping; runners and clients connect again when a scheduler is back")
        await hub.stop()

    asyncio.run(serve())
    return 0


@click.command("runner")
@certs_option
@device_option
@target_option
@_NAME
@_DRAIN
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
    from tilewright.backends.cpu.cache import ArtifactCache
    from tilewright.farm.connect import Door
    from tilewright.farm.device import describe_place, find
    from tilewright.farm.runner import Runner, local_bench

    where = address_of(address)
    door = Door(where, certs_for(where, certs), "runner")
    place = find(device, target)
    for warning in place.warnings():
        _say(f"warning: {warning}")
    described = describe_place(place)
    called = name or f"{platform.node()}-{described.device}"
    _say(f"offering {described.device} as {described.device_class}")
    return asyncio.run(
        _work(lambda: Runner(door, called, local_bench(place, described), ArtifactCache(), _say), drain_seconds)
    )


@click.command("builder")
@certs_option
@click.option("--workers", type=click.IntRange(1, 256), help="Compilers at once. [default: one a core]")
@_NAME
@_DRAIN
@address_argument
def builder(
    certs: Path | None, workers: int | None, name: str | None, drain_seconds: float, address: str | None
) -> int:
    """Offer this machine's compilers to a farm: C++ for processors, NVRTC for any CUDA architecture.

    \b
    Examples:
      tilewright farm builder --certs certs --workers 8 tls://farm.example.org:8786
    """
    from tilewright.backends.cpu.cache import ArtifactCache
    from tilewright.farm.builder import Builder, default_lanes
    from tilewright.farm.connect import Door

    where = address_of(address)
    door = Door(where, certs_for(where, certs), "builder")
    called = name or f"{platform.node()}-builder"
    lanes = workers or default_lanes()
    return asyncio.run(_work(lambda: Builder(door, called, ArtifactCache(), lanes, _say), drain_seconds))


async def _work(make: Callable[[], Service], drain_seconds: float) -> int:
    """Serve until drained or told to stop: the first signal drains, the second ends at once."""
    service = make()
    code = 0
    tasks: list[asyncio.Task[None]] = []

    async def leave() -> None:
        nonlocal code
        _say(f"draining, at most {drain_seconds:.0f} s (again to stop at once)")
        if not await service.drain(drain_seconds):
            _say("stopped before the running work was done; it is given to others")
            code = STOPPED

    def told() -> None:
        if tasks:
            service.stop()
        else:
            tasks.append(asyncio.get_running_loop().create_task(leave()))

    _on_signals(told)
    try:
        await service.run()
        await _all(tasks)
    finally:
        await service.close()
    return code


async def _all(tasks: list[asyncio.Task[None]]) -> None:
    waiting: list[Awaitable[None]] = list(tasks)
    await asyncio.gather(*waiting, return_exceptions=True)


def _on_signals(action: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for s in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(s, action)
