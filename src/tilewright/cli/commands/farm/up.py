"""``tilewright farm up``: runs a whole farm by one command, on one machine or in a Slurm allocation."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shlex
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tilewright.cli.commands.farm.options import CERTS, certs_for
from tilewright.cli.commands.farm.serve import DRAIN_SECONDS, STOPPED, on_signals, relay, say, show
from tilewright.cli.declare import declared, option
from tilewright.cli.output import program
from tilewright.core import UsageError
from tilewright.farm.budgets import STORAGE
from tilewright.farm.hub import Hub
from tilewright.farm.workers import slurm as allocation
from tilewright.farm.workers.crew import TAKE_WORK, Child, end, hold
from tilewright.measure.devices import find_all
from tilewright.paths import cache_root

Crew = tuple[list[Child], list[Child]]
"""The children that run runners, and the other children."""

PORT = 8786
PATIENCE = 60.0  # seconds after which a farm opens with the runners that are ready


@declared("up")
def up(
    certs: Path | None = CERTS,
    host: str | None = option(
        metavar="HOST", help="Address to listen on, by which others reach the farm. [default: this machine only]"
    ),
    port: int | None = option(
        low=0, high=65535, help="Port to listen on; 0 for any free port. [default: 8786; with --slurm 0]"
    ),
    runners: int | None = option(
        low=1,
        high=1024,
        metavar="N",
        help="Number of runners: one per GPU, or equal shares of cores. [default: all GPUs, else one with all cores]",
    ),
    state: Path | None = option(
        metavar="DIR",
        help="Folder for jobs, results and compiled kernels. [default: farm-PORT in the artifact cache]",
    ),
    drain_seconds: float = DRAIN_SECONDS,
    slurm: bool = option(help="Start runners on each node of the Slurm allocation that this command runs in."),
    join: str | None = option(
        metavar="ADDRESS",
        help="Start no server: connect a runner for each device of this machine to the farm at ADDRESS.",
    ),
    leash: bool = option(hidden=True, help="With --join: drain at the end of standard input."),
) -> int:
    """Run a whole farm on this machine: a server, a runner for each device, and a builder.

    The first line on stdout is the farm's address, once the runners take work. Ctrl-C lets running work finish.

    \b
    Examples:
      tilewright farm up                              (this machine only, no certificates)
      tilewright farm up --runners 4 --port 0
      tilewright farm up --certs certs --host farm.example.org
      tilewright farm up --slurm --certs certs        (in a batch job)
      tilewright farm up --certs certs --join tls://farm.example.org:8786
    """
    certs = None if certs is None else certs.expanduser().absolute()
    if join and (slurm or host or port is not None or state):
        raise UsageError("--join starts no server", "Remove --slurm, --host, --port and --state")
    node = (os.environ.get("SLURMD_NODENAME") if slurm or leash else "") or platform.node()
    if slurm:
        nodes = allocation.nodes()
        allocation.check_certificates(certs, nodes)
        allocation.on_each_node(nodes, ())  # raises if srun is missing
    if leash:
        os.environ["CUDA_VISIBLE_DEVICES"] = allocation.visible_gpus()
    devices = [] if slurm else find_all(runners)

    def crew(address: str) -> Crew:
        def command(what: str, *words: str) -> list[str]:
            given = certs_for(address, certs)
            more = ["--drain-seconds", str(drain_seconds), *(["--certs", str(given)] if given else [])]
            return [sys.executable, "-m", "tilewright", "farm", what, *more, *words]

        def child(role: str, name: str, *words: str) -> Child:
            return Child(name, command(role, "--name", name, *words, address), say, relay)

        if slurm:
            some = ["--runners", str(runners)] if runners else []
            joining = allocation.on_each_node(nodes, command("up", "--leash", "--join", address, *some))
            found = [Child("srun", joining, say, relay, sign=TAKE_WORK, times=nodes, leash=True)]
        else:
            found = [child("runner", f"{node}-{d}", "--device", d) for d in devices]
        return found, [] if join else [child("builder", f"{node}-builder")]

    if join:
        return asyncio.run(_Up(crew, drain_seconds).run_for(join, leash))
    port = (0 if slurm else PORT) if port is None else port
    listen, named = _hosts(host, certs is not None, slurm)
    with contextlib.ExitStack() as stack:
        if state is None and port:
            state = cache_root() / f"farm-{port}"
        elif state is None:  # with a free port no client can return after a restart, so the state is temporary
            folder = tempfile.TemporaryDirectory(prefix="tilewright-farm-", ignore_cleanup_errors=True)
            state = Path(stack.enter_context(folder))
        hub = Hub(certs, listen, port, state, storage=STORAGE.most, say=lambda line: say(f"server: {line}"))

        def opened(address: str) -> None:
            show({"address": address}, address)
            more = f" --certs {shlex.quote(str(certs))}" if certs else ""
            relay(f"next: {program()} tune matmul m=512 n=512 k=512 --farm {address}{more}")

        return asyncio.run(_Up(crew, drain_seconds).run_with(hub, named, opened))


def _hosts(host: str | None, tls: bool, slurm: bool) -> tuple[str, str]:
    """Returns the address at which the server listens, and the host name in the farm's address."""
    everywhere = ("0.0.0.0", "::")
    if host and host not in everywhere:
        return ("0.0.0.0" if slurm and tls else host), host
    if host or (slurm and tls):
        return host or "0.0.0.0", platform.node()
    return "127.0.0.1", "localhost" if tls else "127.0.0.1"


class _Up:
    """Runs the children of one farm until they are told to leave. ``crew`` makes the children for an address."""

    def __init__(self, crew: Callable[[str], Crew], drain_seconds: float) -> None:
        self._make, self._drain_seconds = crew, drain_seconds
        self._leave, self._hurry = asyncio.Event(), asyncio.Event()

    async def run_with(self, hub: Hub, named: str, show: Callable[[str], None]) -> int:
        """Runs server and children; returns the exit code. ``show`` is called with the address once the runners take
        work."""
        on_signals(self._drain, self._hurry.set)
        try:
            if not await self._unless_told(hub.start()):
                return 0
            scheme, port = hub.server.address.partition(":")[0], hub.server.port
            return await self._work(f"{scheme}://{f'[{named}]' if ':' in named else named}:{port}", show)
        finally:
            await hub.stop()

    async def run_for(self, address: str, leash: bool) -> int:
        """Runs children for a farm at ``address``; returns the exit code."""
        on_signals(self._drain, self._hurry.set)
        if not leash:
            return await self._work(address, lambda _address: None)
        held = asyncio.create_task(hold())
        held.add_done_callback(self._let_go)
        try:
            return await self._work(address, lambda _address: None)
        finally:
            held.cancel()

    async def _work(self, address: str, show: Callable[[str], None]) -> int:
        runners, others = self._make(address)
        crew = [*runners, *others]
        tasks = [asyncio.create_task(child.run()) for child in crew]
        try:
            await self._unless_told(self._opening(crew, runners))
            if not self._leave.is_set() and not _gone(runners):
                working = sum(c.times for c in runners if c.ready.is_set())
                say(f"{'nodes' if runners[0].leash else 'runners'}{TAKE_WORK}{working}")
                show(address)
                await self._unless_told(asyncio.gather(*(c.over.wait() for c in runners)))
        finally:
            in_order = await end(crew, self._drain_seconds, self._hurry)
            await asyncio.gather(*tasks)
        if self._leave.is_set():
            return 0 if in_order else STOPPED
        say("no runner is left; the farm ends")
        return 1 if any(c.code for c in runners) else 0

    async def _opening(self, crew: list[Child], runners: list[Child]) -> None:
        """Waits until every child is ready or gone; after ``PATIENCE`` seconds one ready runner is enough."""
        until = time.monotonic() + PATIENCE
        while not _gone(runners) and not all(c.ready.is_set() or c.over.is_set() for c in crew):
            if time.monotonic() > until and any(c.ready.is_set() for c in runners):
                return
            await asyncio.sleep(0.05)

    async def _unless_told(self, work: Awaitable[object]) -> bool:
        """Runs ``work`` until it ends or the farm is told to leave; returns whether it ended."""
        doing, told = asyncio.ensure_future(work), asyncio.ensure_future(self._leave.wait())
        await asyncio.wait({doing, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if doing.done():
            doing.result()
            return True
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
        return False

    def _drain(self) -> None:
        say(f"draining for at most {self._drain_seconds:.0f} s; a second signal stops at once")
        self._leave.set()

    def _let_go(self, held: asyncio.Task[bool]) -> None:
        if not held.cancelled():
            if held.exception() is not None or not held.result():
                say("the process that started these runners is gone")
                self._hurry.set()
            if not self._leave.is_set():
                self._drain()


def _gone(children: list[Child]) -> bool:
    return all(c.over.is_set() for c in children)
