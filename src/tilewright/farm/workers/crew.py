"""Runs runners and builders as child processes: starts, restarts and drains them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence

from tilewright.farm.link import Say, waited
from tilewright.measure.lifetime import tied_to

AGAIN_SECONDS = 10.0  # before the first restart: the farm considers the name taken for two heartbeats
LONGEST_SECONDS = 300.0
STEADY_SECONDS = 600.0  # uptime after which the pause before a restart is the first again
STOP_SECONDS = 5.0  # for which a child may take to stop at once
LEASH_SECONDS = 60.0  # of silence on its standard input after which a crew on another node ends
CONNECTED = " connected to "
TAKE_WORK = " that take work: "


class Child:
    """A child process that :meth:`run` keeps running until it leaves by itself or is told to.

    The child is :attr:`ready` when ``times`` of its lines contain ``sign``. A child that ends with an error before is
    not started again: the farm would refuse it again. ``relay`` is called with its lines, ``say`` with messages about
    it. ``leash``: the child is drained by closing its standard input, not by a signal (:func:`hold`).
    """

    def __init__(
        self, name: str, command: Sequence[str], say: Say, relay: Say, *, sign: str = CONNECTED, times: int = 1,
        leash: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.command, self.leash = name, command, leash
        self.sign, self.times = sign, times
        self.ready, self.over = asyncio.Event(), asyncio.Event()
        self.code: int | None = None  # exit code of its last process
        self._say, self._relay_line = say, relay
        self._process: asyncio.subprocess.Process | None = None
        self._leaving = asyncio.Event()
        self._seen = 0

    async def run(self) -> None:
        """Starts the child, and restarts it with growing pauses."""
        pause = AGAIN_SECONDS
        while not self._leaving.is_set():
            began = time.monotonic()
            self.code = await self._once()
            if self._leaving.is_set():
                break
            how = f"was killed by signal {-self.code}" if self.code < 0 else f"ended with code {self.code}"
            if self.code == 0:
                self._say(f"{self.name} has left")
                break
            if self.code > 0 and not self.ready.is_set():
                self._say(f"{self.name} {how} before it took work: it is not started again")
                break
            pause = AGAIN_SECONDS if time.monotonic() - began > STEADY_SECONDS else pause
            self._say(f"{self.name} {how}; starting it again in {pause:.0f} s")
            self.code = None
            await waited(self._leaving, pause)
            pause = min(2 * pause, LONGEST_SECONDS)
        self.over.set()

    async def _once(self) -> int:
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            # A session of its own: Ctrl-C on the terminal reaches only this process, which then drains the child.
            self._process = process = await asyncio.create_subprocess_exec(
                *self.command, stdin=pipe if self.leash else none, stdout=none, stderr=pipe, limit=1 << 20,
                start_new_session=True, preexec_fn=tied_to(os.getpid()),
            )  # fmt: skip
        except OSError as e:
            self._say(f"{self.name} does not start: {e.strerror or e}")
            return 1
        if self._leaving.is_set():
            self._drain(process)
        others = [asyncio.create_task(self._relay(process))]
        if self.leash:
            others.append(asyncio.create_task(self._hold(process)))
        try:
            code = await process.wait()
            await asyncio.wait(others[:1], timeout=1.0)  # its last lines
            return code
        finally:
            for task in others:
                task.cancel()

    async def _relay(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # longer than the limit
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            self._relay_line(f"{self.name}: {text}")
            self._seen += self.sign in text
            if self._seen >= self.times:
                self.ready.set()

    async def _hold(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            while not process.stdin.is_closing():
                process.stdin.write(b"\n")
                await process.stdin.drain()
                await asyncio.sleep(LEASH_SECONDS / 12)

    def _drain(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is not None:
            process.stdin.close()
        else:
            self._signal(signal.SIGTERM)

    def drain(self) -> None:
        """Tells the child to finish its running jobs and leave."""
        self._leaving.set()
        if self._process is not None:
            self._drain(self._process)

    def stop(self) -> None:
        """Tells the child to stop at once."""
        self._leaving.set()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._leaving.set()
        self._signal(signal.SIGKILL)

    def _signal(self, which: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(which)


async def hold() -> bool:
    """Waits, in a child with a leash. Returns ``True`` when its input is closed, to drain; ``False`` after silence: the
    parent is gone."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while True:
        try:
            if not await asyncio.wait_for(reader.read(1 << 10), LEASH_SECONDS):
                return True
        except TimeoutError:
            return False


async def end(crew: Sequence[Child], drain_seconds: float, stop: asyncio.Event) -> bool:
    """Drains the children that still run; stops them at once when ``stop`` is set. Returns whether all drained."""
    there = [child for child in crew if not child.over.is_set()]

    async def over() -> None:
        for child in there:
            await child.over.wait()

    every, hurry = asyncio.create_task(over()), asyncio.create_task(stop.wait())
    for child in there:
        child.drain()
    await asyncio.wait({every, hurry}, timeout=drain_seconds + STOP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    for tell in (Child.stop, Child.kill):
        if not every.done():
            for child in there:
                tell(child)
            await asyncio.wait({every}, timeout=STOP_SECONDS)
    hurry.cancel()
    every.cancel()
    return not stop.is_set() and all(c.code in (0, None) or not c.ready.is_set() for c in there)
