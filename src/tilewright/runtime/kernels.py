"""Sources of a library's kernels: a database, or a bundle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tilewright.core import UsageError, Workload
from tilewright.runtime.bundle.store import BundleStore
from tilewright.runtime.bundle.trusted import Trust, given_keys
from tilewright.runtime.entry import Entry, Shapes
from tilewright.runtime.store import Store, file_of


class Kernels(Protocol):
    """The kernels in a file. Safe from several threads and after a fork. Every method may raise ``DatabaseError``."""

    @property
    def path(self) -> Path: ...

    @property
    def writable(self) -> bool:
        """Whether :meth:`write` can succeed."""

    def names(self) -> tuple[str, ...]:
        """Names of the operators that were tuned, sorted."""

    def entries(
        self, op: str, *, shapes: Shapes | None = None, params: Mapping[str, object] | None = None
    ) -> tuple[Entry, ...]:
        """Best kernels of an operator; kernels for other shapes than ``shapes``, or other ``params``, may be left
        out."""

    def samples(self, op: str) -> tuple[Entry, ...]:
        """Kernels of an operator, at least one for each target."""

    def entries_of(self, key: str, op: str) -> tuple[Entry, ...]:
        """Best kernels of one workload under any name; under the name ``op`` if the file has that."""

    def every(self) -> tuple[Entry, ...]:
        """The best kernel of every task, under its workload's own name."""

    def ranges(self) -> tuple[Entry, ...]:
        """The best kernel of every task with a symbolic size."""

    def choices(self) -> frozenset[tuple[object, ...]]:
        """The set of kernels to serve, as a value that changes when other kernels become the best."""

    def stamp(self) -> tuple[object, ...]:
        """A value that changes when the file is written, without reading the file."""

    def workloads(self, op: str) -> tuple[Workload, ...]:
        """Every workload of that name, with its program; the latest first."""

    def code(self, sha256: str) -> bytes:
        """An artifact's bytes; the loader checks them against the hash."""

    def write(self, statement: str, rows: Sequence[tuple[object, ...]], patience: float) -> None: ...


def open_kernels(
    path: str | os.PathLike[str],
    *,
    trust: Trust = False,
    missing_ok: bool = False,
    pinned: str | os.PathLike[str] | None = None,
) -> Kernels:
    """The kernels of a file, a database or a bundle by its first bytes.

    Raises ``DatabaseError`` for a file that cannot be used, and ``UsageError``.
    """
    file = file_of(os.fspath(path))
    if _begins_as_bundle(file):
        return BundleStore(file, trust=trust, pinned=pinned)
    if not isinstance(trust, bool) and trust != "unsigned":
        given_keys(trust)
        raise UsageError(f"{file} is a database, and databases are not signed", "Pass trust=True, or leave trust out")
    return Store(path, trust=trust is True, missing_ok=missing_ok, pinned=pinned)


def _begins_as_bundle(file: Path) -> bool:
    try:
        with open(file, "rb") as f:
            return f.read(8) == b"TWBUNDLE"
    except OSError:  # opening it later reports the error
        return False
