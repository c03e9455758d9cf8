"""Where a library's kernels come from: a database, or a bundle."""

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
    """Kernels in a file. Safe from several threads and after a fork. Every method may raise ``DatabaseError``."""

    @property
    def path(self) -> Path: ...

    @property
    def writable(self) -> bool:
        """Whether :meth:`write` is of any use."""

    def names(self) -> tuple[str, ...]:
        """Names of the operators that were tuned, sorted."""

    def entries(
        self, op: str, *, shapes: Shapes | None = None, params: Mapping[str, object] | None = None
    ) -> tuple[Entry, ...]:
        """Best kernels of an operator; those for other inputs' shapes, or other parameters, may be left out."""

    def samples(self, op: str) -> tuple[Entry, ...]:
        """Kernels of an operator, of each target at least one."""

    def entries_of(self, key: str, op: str) -> tuple[Entry, ...]:
        """Best kernels of one workload, whatever it is called in the file; called ``op`` if known so."""

    def every(self) -> tuple[Entry, ...]:
        """The best kernel of every task, under its workload's own name."""

    def ranges(self) -> tuple[Entry, ...]:
        """The best kernel of every task of which a size is a range."""

    def choices(self) -> frozenset[tuple[object, ...]]:
        """What tells whether other kernels are to be served than before."""

    def stamp(self) -> tuple[object, ...]:
        """What differs after the file was written; reads nothing."""

    def workloads(self, op: str) -> tuple[Workload, ...]:
        """Every workload of that name, with its program; the latest first."""

    def code(self, sha256: str) -> bytes:
        """An artifact's bytes; whoever loads them checks them against the hash."""

    def write(self, statement: str, rows: Sequence[tuple[object, ...]], patience: float) -> None: ...


def open_kernels(
    path: str | os.PathLike[str],
    *,
    trust: Trust = False,
    missing_ok: bool = False,
    pinned: str | os.PathLike[str] | None = None,
) -> Kernels:
    """The kernels of a file, which its first bytes tell to be a database or a bundle.

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
    except OSError:  # whoever opens it says so
        return False
