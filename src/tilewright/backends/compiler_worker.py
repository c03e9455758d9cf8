"""Runs compilers that are libraries in worker processes: a crash or timeout costs one kernel, not this process.

A worker is confined as other compilers are (``confine.py``). It takes one source at a time and stays for the next one:
its start takes as long as compiling a kernel. Each thread that compiles at the same time has a worker. A worker ends
after ``IDLE`` seconds without a request, and when this process ends. It also ends at the deadline of a compilation,
even if this process is stopped.
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
"""Seconds without a request after which a worker ends."""

MOST = LIMIT // 2
"""Largest size of the code that a worker returns, in bytes."""

Compile = Callable[[str, Sequence[str]], tuple[bytes, str]]
"""Compiles a source with arguments into code and log; raises ``CompileError`` for an error in the source."""


@dataclass(frozen=True)
class LibraryCompiler:
    """A compiler that is a library. Safe to use from several threads, which compile at the same time.

    ``name``: for messages; ``module``: calls :func:`serve` as a program; ``variables``: prefixes of the
    environment variables that the library needs.
    """

    name: str
    module: str
    variables: tuple[str, ...] = ()

    def compile(self, source: str, arguments: Sequence[str], deadline: float) -> tuple[bytes, str]:
        """Compile a source into code and log within ``deadline`` seconds of wall time.

        Raises ``CompileError`` for an error in the source, and for a source that ends the compiler or exceeds
        ``MEMORY``; ``CompileTimeout`` past the deadline; ``TilewrightError`` if no worker can be started.
        """
        end = time.monotonic() + deadline
        request = {"source": source, "arguments": list(arguments), "deadline": deadline}
        variables = self._environment()
        # A worker inherits the cores and the priority of the thread that started it.
        kind = (self.module, tuple(sorted(variables.items())), os.getpriority(os.PRIO_PROCESS, 0), affinity())
        worker = _workers.take(kind)
        if worker is not None:
            # It may have ended after idling, been killed, or been corrupted by an earlier source: try a new one then.
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
        except (KeyError, TypeError, ValueError):  # a malicious source may make the compiler answer anything
            raise CompileError(f"{self.name} printed no readable code") from None
        finally:  # do not reuse a worker that may still compile, also after Ctrl-C
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
    """Parse a worker's answer. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for an invalid one."""
    if "code" in answer:
        return base64.b64decode(answer["code"], validate=True), str(answer["log"])
    if answer["source"]:
        return CompileError(str(answer["error"]), str(answer["log"]))
    return TilewrightError(str(answer["error"]), str(answer["hint"]))


# --------------------------------------------------------------------------- the parent's side


class _Worker:
    """One worker process. ``ready``: whether it has begun to serve; ``said``: its standard error, once it has ended."""

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
        """Send a request; returns the answer. Raises ``ChannelClosed`` if the worker ends, else ``TimeoutError``."""
        try:
            if not self.ready:
                self.channel.receive(_left(end))
                self.ready = True
            self.channel.send(request, _left(end))
            return self.channel.receive(_left(end))
        except ChannelClosed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1)  # collects the worker's own exit status
            raise

    def end(self) -> None:
        """Kill the worker if it still runs."""
        if self.process.poll() is None:
            kill_group(self.process)
        with contextlib.suppress(OSError), open(self._errors, "rb") as said:
            self.said = said.read(LOG).decode(errors="replace")
        self._clear()

    def _clear(self) -> None:
        self.channel.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def forget(self) -> None:
        """After a fork, in the child: the worker belongs to the parent."""
        self.channel.close()
        self.process.returncode = 0  # prevents a wait for the parent's worker


class _Workers:
    """The compiler workers of this process, with idle workers by kind.

    ``steady``: a lock held during changes and forks, so that a forked child knows all workers of its parent. It must
    close their sockets: a socket that stays open in the child would hide the end of a worker.
    """

    def __init__(self) -> None:
        self.steady = threading.RLock()
        self._all: set[_Worker] = set()
        self._idle: dict[object, list[_Worker]] = {}

    def start(self, module: str, variables: dict[str, str]) -> _Worker:
        """Start a worker. Raises ``TilewrightError`` if none can be started."""
        with self.steady:
            try:
                worker = _Worker(module, variables)
            except OSError as e:
                raise not_started(e) from None
            self._all.add(worker)
            return worker

    def take(self, kind: object) -> _Worker | None:
        """An idle worker of a kind, or ``None``."""
        with self.steady:
            self._bury()
            idle = self._idle.get(kind)
            return idle.pop() if idle else None

    def give(self, kind: object, worker: _Worker) -> None:
        """Put an idle worker back."""
        with self.steady:
            self._idle.setdefault(kind, []).append(worker)

    def end(self, worker: _Worker) -> None:
        """End a worker that is no longer usable."""
        with self.steady:
            worker.end()
            self._all.discard(worker)

    def close(self) -> None:
        """End all workers."""
        with self.steady:
            self._idle.clear()
            for worker in list(self._all):
                self.end(worker)

    def forget(self) -> None:
        """After a fork, in the child: the workers belong to the parent."""
        for worker in self._all:
            worker.forget()
        self._all.clear()
        self._idle.clear()
        self.steady.release()

    def _bury(self) -> None:
        """Collect the exit status of idle workers that have ended."""
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


# --------------------------------------------------------------------------- the worker's side


def serve(compile_: Compile) -> None:
    """Compile the requests from standard input until it closes, or no request comes for ``IDLE`` seconds."""
    channel = Channel(socket.socket(fileno=os.dup(0)))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # for a compiler that reads its standard input
    channel.send({"ready": os.getpid()})
    with contextlib.suppress(ChannelClosed, TimeoutError):
        while True:
            request = channel.receive(IDLE)
            # The signal ends this process even inside a library, in case the parent cannot.
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
        return {"error": why, "source": True, "log": "", "spent": True}  # the library may never free its memory
    except CompileError as e:
        return {"error": e.message, "source": True, "log": e.log[:LOG]}
    except TilewrightError as e:
        return {"error": e.message, "source": False, "hint": e.hint}
