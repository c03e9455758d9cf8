"""Identifies the process that owns a run, and tells whether it still lives. Standard library only."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from tilewright.paths import text_of


@dataclass(frozen=True)
class Process:
    """The identity of a process, by which another process can recognise it later.

    ``token`` is ``boot|namespace|start``: the host's boot id, the PID namespace, and the process's start in clock
    ticks. A PID alone is reused, and containers have PIDs of their own. Parts that the system does not tell are empty.
    """

    host: str
    pid: int
    token: str

    @staticmethod
    def current() -> Process:
        pid = os.getpid()
        return Process(platform.node(), pid, f"{_boot()}|{_namespace()}|{_start(pid) or ''}")

    def alive(self) -> bool:
        """Whether the process still runs. ``True`` if that can't be told from here."""
        seen = self.seen()
        return seen is None or seen

    def seen(self) -> bool | None:
        """Whether the process still runs; ``None`` for a process of another host or container."""
        here = Process.current()
        boot, namespace, start = self.token.split("|")
        here_boot, here_namespace, here_start = here.token.split("|")
        if self.host != here.host:
            return None
        if boot != here_boot:
            return False
        if namespace != here_namespace:
            return None
        if here_start:
            return _start(self.pid) == start
        return _exists(self.pid)


def _boot() -> str:
    return text_of("/proc/sys/kernel/random/boot_id").strip()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start(pid: int) -> str | None:
    """Start time of a live process in ticks since boot; ``None`` for a dead or unreaped one."""
    # The command name, in brackets, may hold anything; the state is the first field after it.
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else None


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
