"""The isolated child: loads kernels, checks and times them, and may die of them.

Started as ``python -m tilewright.measure.worker FD PARENT``, FD being a connected socket. It says on
every step what it is about to do, so that whoever finds it dead or silent knows which kernel did it.
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
"""Bytes of address space that guards of arrays may take."""


def limit_resources(memory: int) -> Limits:
    """No core files; at most ``memory`` bytes of data beyond what is in use now (0: no limit).

    Address space has a limit too, which leaves room for the guards of arrays: they hold no memory.
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
    """Run on ``cores`` only, if there are any."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return {"cores": f"not on {sys.platform}" if cores else "not asked for"}
    try:
        os.sched_setaffinity(0, cores)
    except OSError as e:  # a core that went offline: run where we may
        return {"cores": f"refused here: {e.strerror}"}
    return {"cores": True}


def main(argv: list[str]) -> int:
    """Serve requests until the socket closes."""
    fd, parent = int(argv[1]), int(argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
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
    """What serves the requests of a device: of this process's memory, or one behind a driver."""
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
        # Not a kernel's failure: the reference interpreter's, or ours. It is told, not swallowed.
        import traceback

        traceback.print_exc()
        tell(Error(f"{type(e).__name__}: {e}"))


if __name__ == "__main__":
    code = main(sys.argv)
    gc.freeze()  # the last look for garbage would go over all that was imported
    sys.exit(code)
