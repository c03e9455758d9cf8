"""Which process owns a run, and whether it still lives. Standard library only."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from tilewright.paths import text_of


@dataclass(frozen=True)
class Process:
    """A process that another one can recognise later.

    ``token`` is ``boot|namespace|start``: the host's boot, the process-number namespace, and when
    the process started in the kernel's ticks. A process number alone is reused; containers have
    process numbers of their own. Parts that the system does not tell are empty.
    """

    host: str
    pid: int
    token: str

    @staticmethod
    def current() -> Process:
        pid = os.getpid()
        return Process(platform.node(), pid, f"{_boot()}|{_namespace()}|{_start(pid) or ''}")

    def alive(self) -> bool:
        """Whether it still runs. ``True`` when that can't be told from here."""
        seen = self.seen()
        return seen is None or seen

    def seen(self) -> bool | None:
        """Whether it still runs; ``None`` for another host's or container's process."""
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
