"""The isolated child process: it loads, checks and times kernels, and a faulty kernel may kill it.

Started as ``python -m tilewright.measure.worker FD PARENT``, with FD a connected socket. It announces
every step, so that the parent knows the kernel during which it died or hung.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.measure import sandbox
from tilewright.measure.lifetime import die_with_parent
from tilewright.measure.sandbox import Limits

GUARDS = 1 << 40
"""Bytes of address space reserved for the guard pages of arrays."""


def limit_resources(memory: int) -> Limits:
    """Forbid core files, and allow at most ``memory`` bytes of data beyond the current use (0: no limit).

    The limit of the address space leaves room for the guards of arrays, which occupy no memory.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not memory or sys.platform != "linux":
        return {"core_files": True, "memory": f"not on {sys.platform}" if memory else "not asked for"}
    with open("/proc/self/statm") as f:
        pages = [int(n) * resource.getpagesize() for n in f.read().split()]
    for kind, used in ((resource.RLIMIT_DATA, pages[5]), (resource.RLIMIT_AS, pages[0] + GUARDS)):
        _, hard = resource.getrlimit(kind)
        limit = used + memory if hard == resource.RLIM_INFINITY else min(used + memory, hard)
        resource.setrlimit(kind, (limit, limit))
    return {"core_files": True, "memory": True}


def pin(cores: list[int]) -> Limits:
    """Run on ``cores`` only, unless the list is empty."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return {"cores": f"not on {sys.platform}" if cores else "not asked for"}
    try:
        os.sched_setaffinity(0, cores)
    except OSError as e:  # a core went offline: stay on the cores that are left
        return {"cores": f"refused here: {e.strerror}"}
    return {"cores": True}


def main(argv: list[str]) -> int:
    """Serve requests until the socket closes."""
    fd, parent = int(argv[1]), int(argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)

    import socket

    from tilewright.backends.channel import Channel, ChannelClosed
    from tilewright.measure.messages import Ready, receive, send

    channel = Channel(socket.socket(fileno=fd))
    tell = partial(send, channel)
    try:
        settings = channel.receive()
        limits = pin(settings["cores"]) | limit_resources(settings["memory"])
        limits |= sandbox.apply(settings.get("sandbox", False), settings["confinable"])
        session = _session(settings, tell)
        tell(Ready(limits))
        while not session.spoilt:
            _serve(session, receive(channel), tell)
        return 0
    except ChannelClosed:
        return 0


def _session(settings: dict[str, Any], tell: Any) -> Any:
    """The session for a device: in this process's memory, or behind a driver."""
    from tilewright.backends import get_backend

    if get_backend(settings["backend"]).in_process:
        from tilewright.measure.session import Session

        return Session(settings, tell)
    from tilewright.measure.gpu_session import GpuSession

    return GpuSession(settings, tell)


def _serve(session: Any, request: Any, tell: Any) -> None:
    from tilewright.measure.messages import Error

    try:
        done = session.handle(request)
        tell(replace(done, leaving=session.spoilt))
    except Exception as e:
        # Not a kernel's failure but an error of the reference interpreter or of tilewright: report it.
        import traceback

        traceback.print_exc()
        tell(Error(f"{type(e).__name__}: {e}"))


if __name__ == "__main__":
    code = main(sys.argv)
    gc.freeze()  # the last garbage collection would traverse all imported modules
    sys.exit(code)
