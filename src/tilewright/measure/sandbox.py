"""Limits of the measuring child for kernels that came over a network: what they could do besides computing.

A kernel is native code in the child's process, so this bounds what a bad one can reach; it makes no other user of it.
Files that the runner's user may read stay readable, its processes can be signalled, and sockets that are files can be
reached: run the runner as a user of its own (``deploy/``). What the child may use of cores and memory, and that it
leaves no core file, holds with and without this (``worker.py``). Processes are not counted: that limit (RLIMIT_NPROC)
is of all of a user's processes, the runner's and other children's among them.

A GPU's kernels are code of the GPU, which makes no system calls; what runs on the host is ours and the driver's. So
nothing here applies to a CUDA child: the driver may need a helper that is set-user-ID, to create its device files, and
talks to services of the machine. The emulator runs kernels on the processor, so its child is bounded as a CPU's is.
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
"""By limit: true where it holds, else one line that says why it does not."""

FILE_BYTES = (512 << 20) + (1 << 20)
"""Bytes of the largest file that a child may write: two of the largest arrays of a reference (``references.py``)."""

_NOT_ASKED = "not asked for"
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAPABILITY_VERSION = 0x20080522
_OF_FILES = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


def apply(asked: bool, confinable: bool = True) -> Limits:
    """Bound this process, for good; what cannot be had is left out, and told. Call it before threads start.

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
    """Nothing that it starts gains privileges, by set-user-ID or otherwise."""
    _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _no_network() -> str | None:
    """A network of its own, without an interface; sockets that are open already, as the one to the parent, stay."""
    if len(os.listdir("/proc/self/task")) > 1:
        return "threads run already"  # only this one would move
    libc = _libc()
    try:
        _check(libc.unshare(_CLONE_NEWNET))
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        _check(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET))
        # The same numbers inside; without them it would be nobody, which changes names, not what it may do.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with contextlib.suppress(OSError):
                Path("/proc/self", name).write_text(text)
    return None


def _no_capabilities() -> str | None:
    """None are left, of the machine's or of a new user namespace's: it cannot go back to where it came from."""
    root = os.geteuid() == 0
    kept = _OF_FILES & _permitted() if root else 0
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable; first the lower 32 of each, then the upper.
    _check(_libc().capset(header, struct.pack("6I", kept, kept, 0, 0, 0, 0)))
    # Its files and the cache may be another user's, as in a container.
    return "those over files are kept: it runs as root" if kept else None


def _permitted() -> int:
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(24)
    _check(_libc().capget(header, sets))
    return int(struct.unpack("6I", sets.raw)[1])


def _small_files() -> None:
    """No file beyond ``FILE_BYTES``: writing fails, and nothing is killed (Python ignores the signal)."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = FILE_BYTES if hard == resource.RLIM_INFINITY else min(FILE_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


STEPS = {
    "no_new_privs": _no_new_privileges, "network": _no_network, "capabilities": _no_capabilities,
    "file_size": _small_files,
}  # fmt: skip
"""By limit, what puts it in force: what :func:`apply` answers about."""


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno() or errno.EPERM
        raise OSError(code, os.strerror(code))
