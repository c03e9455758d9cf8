"""Limits of the measuring child for kernels received over a network: which actions besides computing they allow.

A kernel is native code in the child's process. The limits bound what a malicious kernel can reach, but the child still
runs as the runner's user: it can read that user's files, signal its processes, and reach sockets that are files. So run
the runner as a user of its own (``deploy/``). Limits of cores and memory, and the ban on core files, hold with and
without this module (``worker.py``). The number of processes is not limited: RLIMIT_NPROC counts all processes of the
user, those of the runner and of other children included.

A GPU's kernels are code of the GPU, which makes no system calls; host code is tilewright's and the driver's. So this
module limits no CUDA child: the driver may need a set-user-ID helper to create its device files, and it talks to
services of the machine. The emulator runs kernels on the processor, so its child is limited as a CPU's is.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Union

Limits = dict[str, Union[bool, str]]
"""For each limit ``True`` if it holds, else one line that says why it does not."""

FILE_BYTES = (512 << 20) + (1 << 20)
"""Bytes of the largest file that a child may write: two of the largest stored reference arrays (``references.py``)."""

_NOT_ASKED = "not asked for"
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAPABILITY_VERSION = 0x20080522
_OF_FILES = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


def apply(asked: bool, confinable: bool = True) -> Limits:
    """Limit this process for its lifetime, as far as possible; returns the state of each limit. Call it before threads
    start.

    ``confinable``: whether kernels are code of this machine's processors.
    """
    if not asked:
        return dict.fromkeys(STEPS, _NOT_ASKED)
    if not confinable:
        return dict.fromkeys(STEPS, "not with a GPU, whose kernels make no system calls")
    return {name: _tried(step) for name, step in STEPS.items()}


def _tried(step: Callable[[], str | None]) -> bool | str:
    if sys.platform != "linux" and step is not _small_files:
        return f"not on {sys.platform}"
    try:
        return step() or True
    except OSError as e:
        return f"refused here: {e.strerror}"
    except (AttributeError, ImportError, ValueError) as e:
        return f"not here: {e}"


def _no_new_privileges() -> None:
    """Prevent started processes from gaining privileges, by set-user-ID or otherwise."""
    _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _no_network() -> str | None:
    """Move to a network namespace without interfaces; open sockets, such as the one to the parent, stay usable."""
    if len(os.listdir("/proc/self/task")) > 1:
        return "threads run already"  # unshare would move only this thread
    libc = _libc()
    try:
        _check(libc.unshare(_CLONE_NEWNET))
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET))
        # Map the user's own ids; unmapped, the process would have the name nobody, but the same rights.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with contextlib.suppress(OSError):
                Path("/proc/self", name).write_text(text)
    return None


def _no_capabilities() -> str | None:
    """Drop all capabilities, of the machine and of a new user namespace: the process cannot return to the old one."""
    root = os.geteuid() == 0
    kept = _OF_FILES & _permitted() if root else 0
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable sets; first the lower 32 bits of each, then the upper.
    _check(_libc().capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0)))
    # As root, keep the capabilities over files: its files and the cache may belong to another user, as in a container.
    return "those over files are kept: it runs as root" if kept else None


def _permitted() -> int:
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(24)
    _check(_libc().capget(header, sets))
    return int(struct.unpack("6I", sets.raw)[1])


def _small_files() -> None:
    """Limit files to ``FILE_BYTES``: longer writes fail, and the process continues (Python ignores the signal)."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = FILE_BYTES if hard == resource.RLIM_INFINITY else min(FILE_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


STEPS = {
    "no_new_privs": _no_new_privileges, "network": _no_network, "capabilities": _no_capabilities,
    "file_size": _small_files,
}  # fmt: skip
"""Limits by name, with the function that sets each."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno() or errno.EPERM
        raise OSError(code, os.strerror(code))
