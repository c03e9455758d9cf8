"""Processes on a simulated faulty machine: a wrong clock, a full disk, failing file calls, a power cut.

``LD_PRELOAD`` loads ``faults.cpp`` before the C library of a child process. A file that the library shares with
:class:`Machine` holds the present faults. Statically linked programs, such as nats-server, are not affected.
"""

from __future__ import annotations

import functools
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

from tilewright.backends.cpu.compiler import find_compiler
from tilewright.backends.cpu.targets import host_arch

SOURCE = Path(__file__).with_name("faults.cpp")
SHORT, KILL, TORN = -1, -2, -3
"""Faults in place of an errno: half of the data is written; the process gets SIGKILL; half is written, then SIGKILL."""
CALLS = ("", "write", "sync", "truncate", "open", "rename", "unlink")
SECTOR = 512
"""Bytes that a disk writes atomically."""
_CLOCK, _FULL, _FAIL_AT, _HOW, _CALLS, _FAILED, _WORDS = range(7)


def library(folder: Path) -> Path:
    """Compile ``faults.cpp`` into a folder."""
    built = folder / "faults.so"
    # A distribution's default _FORTIFY_SOURCE would define some of these functions inline.
    flags = ["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-shared", "-fPIC", "-o", str(built), str(SOURCE), "-ldl"]
    subprocess.run([find_compiler(host_arch()).path, *flags], check=True)
    return built


@functools.cache
def reason() -> str:
    """Why this machine cannot preload the library; empty if it can."""
    if not sys.platform.startswith("linux") or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return "LD_PRELOAD with glibc is needed"
    return ""


class Machine:
    """A machine whose faults can change at any time. Variables of :attr:`environment` put a process on it.

    ``folder`` holds the control file and the library (``built``: a library that exists already). Only files under
    ``under`` have faults. ``synced``: a folder for copies of the files at their last sync, for :meth:`cut_power`;
    several processes may share it.
    """

    def __init__(self, folder: Path, under: Path, *, built: Path | None = None, synced: Path | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.under = Path(os.path.realpath(under))
        self.copies = synced
        if synced is not None:
            synced.mkdir(exist_ok=True)
        control = folder / "control"
        control.write_bytes(bytes(8 * _WORDS))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), 0)
        self.environment = {
            "LD_PRELOAD": str(built or library(folder)), "FAULTS_CONTROL": str(control),
            "FAULTS_UNDER": f"{self.under}/", "FAULTS_SYNCED": str(synced or ""),
        }  # fmt: skip

    def _get(self, word: int) -> int:
        return int(struct.unpack_from("=q", self._control, 8 * word)[0])

    def _set(self, word: int, value: int) -> None:
        struct.pack_into("=q", self._control, 8 * word, value)

    @property
    def clock(self) -> float:
        """Error of the time of day, in seconds."""
        return self._get(_CLOCK) / 1e9

    @clock.setter
    def clock(self, seconds: float) -> None:
        self._set(_CLOCK, int(seconds * 1e9))

    @property
    def full(self) -> bool:
        """Whether the disk is full, so that writes fail."""
        return bool(self._get(_FULL))

    @full.setter
    def full(self, full: bool) -> None:
        self._set(_FULL, int(full))

    def fail(self, call: int, how: int) -> None:
        """Restart the count of file calls, and have the ``call``-th fail once. ``how``: an errno, ``SHORT``, ``KILL``
        or ``TORN``."""
        self._set(_FAIL_AT, 0)
        self._set(_CALLS, 0)
        self._set(_FAILED, 0)
        self._set(_HOW, how)
        self._set(_FAIL_AT, call)

    @property
    def calls(self) -> int:
        """Number of file calls since :meth:`fail`."""
        return self._get(_CALLS)

    @property
    def failed(self) -> str:
        """Name of the call that failed, from ``CALLS``; empty if none did."""
        return CALLS[self._get(_FAILED)]

    def cut_power(self, folder: Path, rng: random.Random) -> None:
        """Reduce the files in a folder to a state after a power cut: synced data, and a random part of later sectors.

        Call it once no process has the files open. File names survive, which is more than POSIX promises.
        """
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            if path.name.endswith("-shm"):  # shared memory, not kept on disk
                path.unlink()
                continue
            kept = self.copy(path)
            old, new = kept.read_bytes() if kept.exists() else b"", path.read_bytes()
            size = rng.choice((len(old), len(new)))
            whole = rng.choice((0.0, 0.0, 0.5, 1.0))  # fraction of the later sectors that reached the disk
            mixed = bytearray(size)
            for at in range(0, size, SECTOR):
                newer = at >= len(old) or (at < len(new) and rng.random() < whole)
                if at >= len(old) and rng.random() >= whole:
                    continue  # allocated to the file and never written
                mixed[at : at + SECTOR] = (new if newer else old)[at : min(at + SECTOR, size)]
            path.write_bytes(mixed[:size])

    def remember(self, folder: Path) -> None:
        """Replace the synced copies by the files in a folder as they are now."""
        assert self.copies is not None
        shutil.rmtree(self.copies)
        self.copies.mkdir()
        for path in (p for p in folder.rglob("*") if p.is_file()):
            shutil.copyfile(path, self.copy(path))

    def copy(self, path: Path) -> Path:
        """Path of the copy of a file at its last sync, which exists if the file was ever synced."""
        assert self.copies is not None
        return self.copies / str(path.relative_to(self.under)).replace("/", "%")

    def close(self) -> None:
        self._control.close()
