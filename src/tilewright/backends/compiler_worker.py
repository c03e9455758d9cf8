"""Compilers that are libraries, each in worker processes: what ends or overruns one costs a kernel, never this process.

A worker is confined as other compilers are (``confine.py``), takes one source at a time, and stays for the next one:
starting it takes as long as compiling a kernel. As many run as threads compile at once. One goes when nobody asked it
for ``IDLE`` seconds, when this process ends, and at the deadline of a compilation even where this process is stopped.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.backends.channel import LIMIT, Channel, ChannelClosed
from tilewright.backends.confine import LOG, MEMORY, environment, kill_group, not_started, one_line, start
from tilewright.backends.cores import affinity
from tilewright.backends.toolchain import CompileError, CompileTimeout, ended
from tilewright.errors import TilewrightError

IDLE = 60.0
"""Seconds after which a worker ends that nobody asks for anything."""

MOST = LIMIT // 2
"""Bytes of code that a worker hands over."""

Compile = Callable[[str, Sequence[str]], tuple[bytes, str]]
"""Code and log of a source under arguments; raises ``CompileError`` where the source is at fault."""


@dataclass(frozen=True)
class LibraryCompiler:
    """A compiler that is a library. Safe to use from several threads, which compile at the same time.

    ``name`` stands in messages; ``module`` calls :func:`serve` when it is run; ``variables`` are beginnings of the
    environment variables that the library needs.
    """

    name: str
    module: str
    variables: tuple[str, ...] = ()

    def compile(self, source: str, arguments: Sequence[str], deadline: float) -> tuple[bytes, str]:
        """Code and log of a source, made within ``deadline`` seconds of wall time.

        Raises ``CompileError`` where the source is at fault, ends the compiler or takes more than ``MEMORY``,
        ``CompileTimeout`` past the deadline, and ``TilewrightError`` where no worker can be started.
        """
        end = time.monotonic() + deadline
        request = {"source": source, "arguments": list(arguments), "deadline": deadline}
        variables = self._environment()
        # A worker has the cores and the priority of the thread that started it.
        kind = (self.module, tuple(sorted(variables.items())), os.getpriority(os.PRIO_PROCESS, 0), affinity())
        worker = _workers.take(kind)
        if worker is not None:
            # It may have been idle for too long, or killed; or an earlier source spoilt it. A new one will tell.
            with contextlib.suppress(ChannelClosed):
                return self._ask(worker, kind, request, end)
        worker = _workers.start(self.module, variables)
        try:
            return self._ask(worker, kind, request, end)
        except ChannelClosed:
            raise self._death(worker) from None

    def _ask(self, worker: _Worker, kind: object, request: dict[str, Any], end: float) -> tuple[bytes, str]:
        sound = False
        try:
            answer = worker.ask(request, end)
            made = _made(answer)
            sound = True
        except TimeoutError:
            raise CompileTimeout(f"{self.name} took more than {request['deadline']:g} s and was stopped") from None
        except (KeyError, TypeError, ValueError):  # what compiles a source may come to do whatever that wants
            raise CompileError(f"{self.name} printed no readable code") from None
        finally:  # whatever else still compiles, also where Ctrl-C comes between
            _workers.give(kind, worker) if sound else _workers.end(worker)
        if isinstance(made, TilewrightError):
            raise made
        return made

    def _death(self, worker: _Worker) -> TilewrightError:
        status = worker.process.returncode
        if status > 0 and not worker.ready:
            why = one_line(worker.said[-300:])
            return TilewrightError(f"{self.name} does not start: {why}", "Run tilewright doctor")
        return CompileError(f"{self.name} {ended(status)} while it compiled", worker.said)

    def _environment(self) -> dict[str, str]:
        own = ("LD_LIBRARY_PATH=", *self.variables)
        path = [str(Path(__file__).parents[2]), *sys.path[1:]]
        return {
            **environment(), **{k: v for k, v in os.environ.items() if f"{k}=".startswith(own)},
            "PYTHONPATH": os.pathsep.join(path), "PYTHONSAFEPATH": "1",
        }  # fmt: skip


def _made(answer: dict[str, Any]) -> tuple[bytes, str] | TilewrightError:
    """What a worker's answer says. Raises ``KeyError``, ``TypeError`` and ``ValueError`` for one that says nothing."""
    if "code" in answer:
        return base64.b64decode(answer["code"], validate=True), str(answer["log"])
    if answer["source"]:
        return CompileError(str(answer["error"]), str(answer["log"]))
    return TilewrightError(str(answer["error"]), str(answer["hint"]))


# --------------------------------------------------------------------------- this end


class _Worker:
    """One process. ``ready``: it has begun to serve; ``said``, once it has ended: its standard error."""

    def __init__(self, module: str, variables: dict[str, str]) -> None:
        self.ready = False
        self.said = ""
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        self.folder = ""
        try:
            with theirs:
                self.folder = tempfile.mkdtemp(prefix="tilewright-")
                with open(self._errors, "ab") as said:
                    command = [sys.executable, "-m", module]
                    self.process = start(command, theirs, said, {**variables, "TMPDIR": self.folder})
        except BaseException:
            self._clear()
            raise

    @property
    def _errors(self) -> str:
        return os.path.join(self.folder, "said")

    def ask(self, request: dict[str, Any], end: float) -> dict[str, Any]:
        """Its answer. Raises ``ChannelClosed`` where it ends, and ``TimeoutError`` at ``end``."""
        try:
            if not self.ready:
                self.channel.receive(_left(end))
                self.ready = True
            self.channel.send(request, _left(end))
            return self.channel.receive(_left(end))
        except ChannelClosed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)  # so that its own exit status is told
            raise

    def end(self) -> None:
        """Kill it, if it has not ended."""
        if self.process.poll() is None:
            kill_group(self.process)
        with contextlib.suppress(OSError), open(self._errors, "rb") as said:
            self.said = said.read(LOG).decode(errors="replace")
        self._clear()

    def _clear(self) -> None:
        self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def forget(self) -> None:
        """In a fork: it is another process's."""
        self.channel.close()
        self.process.returncode = 0  # so that nobody waits for it


class _Workers:
    """The compiler workers of this process; idle workers by their kind.

    ``steady``: held while they change, and by who forks, so that a fork knows all that are not its own: an end of a
    worker's socket that stayed open there would hide that the worker ended.
    """

    def __init__(self) -> None:
        self.steady = threading.RLock()
        self._all: set[_Worker] = set()
        self._idle: dict[object, list[_Worker]] = {}

    def start(self, module: str, variables: dict[str, str]) -> _Worker:
        """A new worker. Raises ``TilewrightError`` where none can be started."""
        with self.steady:
            try:
                worker = _Worker(module, variables)
            except OSError as e:
                raise not_started(e) from None
            self._all.add(worker)
            return worker

    def take(self, kind: object) -> _Worker | None:
        """An idle worker of a kind."""
        with self.steady:
            self._bury()
            idle = self._idle.get(kind)
            return idle.pop() if idle else None

    def give(self, kind: object, worker: _Worker) -> None:
        """A worker is idle."""
        with self.steady:
            self._idle.setdefault(kind, []).append(worker)

    def end(self, worker: _Worker) -> None:
        """A worker is of no more use."""
        with self.steady:
            worker.end()
            self._all.discard(worker)

    def close(self) -> None:
        """End all."""
        with self.steady:
            self._idle.clear()
            for worker in list(self._all):
                self.end(worker)

    def forget(self) -> None:
        """In a fork: they are the other process's."""
        for worker in self._all:
            worker.forget()
        self._all.clear()
        self._idle.clear()
        self.steady.release()

    def _bury(self) -> None:
        """Collect the exit status of workers that ended by themselves."""
        for kind, idle in list(self._idle.items()):
            alive = [w for w in idle if w.process.poll() is None]
            for worker in set(idle).difference(alive):
                self.end(worker)
            if alive:
                self._idle[kind] = alive
            else:
                del self._idle[kind]


_workers = _Workers()
atexit.register(_workers.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_workers.steady.acquire, after_in_parent=_workers.steady.release, after_in_child=_workers.forget
    )


def _left(end: float) -> float:
    return max(1e-3, end - time.monotonic())


# --------------------------------------------------------------------------- the worker's end


def serve(compile_: Compile) -> None:
    """Answer compilations that come over standard input until it closes, or nobody asks any more."""
    channel = Channel(socket.socket(fileno=os.dup(0)))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # for a compiler that reads its standard input
    channel.send({"ready": os.getpid()})
    with contextlib.suppress(ChannelClosed, TimeoutError):
        while True:
            request = channel.receive(IDLE)
            # Its signal ends this process also within a library, for where nobody is left to do it.
            signal.alarm(math.ceil(request["deadline"]) + 1)
            answer = _answer(compile_, request)
            channel.send(answer)
            signal.alarm(0)
            if answer.get("spent"):
                return


def _answer(compile_: Compile, request: dict[str, Any]) -> dict[str, Any]:
    try:
        code, log = compile_(request["source"], request["arguments"])
        if len(code) > MOST:
            raise CompileError(f"the compiled code has {len(code)} bytes, over the limit of {MOST}")
        return {"code": base64.b64encode(code).decode(), "log": log[:LOG]}
    except MemoryError:
        why = f"the compiler needs more than {MEMORY >> 30} GiB of memory"
        return {"error": why, "source": True, "log": "", "spent": True}  # what it has taken it may keep
    except CompileError as e:
        return {"error": e.message, "source": True, "log": e.log[:LOG]}
    except TilewrightError as e:
        return {"error": e.message, "source": False, "hint": e.hint}
