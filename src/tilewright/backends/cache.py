"""The artifact cache: compiled libraries on disk, addressed by key and stored by content.

::

    <root>/v1/keys/<k>/<key>          text: the SHA-256 of the key's data
    <root>/v1/blobs/<s>/<sha256>.so   the data, named by its hash; its mtime is its last use
    <root>/v1/tmp/                    files being written
    <root>/v1/size                    text: bytes of all data and files being written, and the time of that count

Every file appears by a rename, so readers in several processes see a whole file or none. A killed writer leaves only
a file in ``tmp``, which a later collection deletes. Data that does not match its name is deleted and counts as absent:
the caller builds it again. Writers are serialised by a lock and make room before they write. So the cache never exceeds
its limit, except for a single file larger than the limit.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from tilewright.core import TilewrightError
from tilewright.files import PATIENCE, locked, replacing
from tilewright.paths import cache_root
from tilewright.serialization import Json

LIMIT = 2 << 30  # bytes
GRACE = 120.0  # seconds after its last use in which an entry is safe from :meth:`ArtifactCache.gc`
_STALE = 60.0  # seconds without a write after which a file in tmp counts as abandoned
_RECOUNT = 3600.0  # seconds between full counts of the size: other programs may have removed files
_SPARE = 16  # a full cache frees this fraction of its limit at once
_MAKING = 600.0  # longest wait in seconds for another process that builds a shared artifact
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CacheStats(Json):
    """Contents of a cache: its folder, number of entries, their bytes, and the limit in bytes."""

    root: str
    entries: int
    bytes: int
    limit_bytes: int


class ArtifactCache:
    """A size-bounded cache of binaries with least-recently-used eviction.

    Safe from several threads and processes. ``root`` defaults to :func:`~tilewright.paths.cache_root`. Raises
    ``TilewrightError`` for an unusable folder: not writable, full, or another user's.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None, limit_bytes: int = LIMIT) -> None:
        self.root = Path(root) if root is not None else cache_root()
        self.limit_bytes = limit_bytes
        self._base = self.root / "v1"
        with _clear_errors(self.root):
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_owner(self.root, (os.getuid(), 0))
            for folder in (self._base, self._base / "keys", self._base / "blobs", self._base / "tmp"):
                folder.mkdir(mode=0o700, exist_ok=True)
                _check_owner(folder, (os.getuid(),))
                if stat.S_IMODE(folder.stat().st_mode) != 0o700:
                    folder.chmod(0o700)

    def get(self, key: str) -> str | None:
        """Path of the data under ``key``, checked against its hash; ``None`` without an entry."""
        entry = self._entry(key)
        try:
            named = entry.read_text().strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            named = ""
        blob = self._blob(named) if _HEX.fullmatch(named) else None
        if blob is None or not _intact(blob, named):
            with contextlib.suppress(OSError):
                entry.unlink()
            return None
        return str(blob)

    def put(self, key: str, data: bytes) -> str:
        """Store ``data`` under ``key`` and return its path. The last of several writers wins."""
        named = sha256(data).hexdigest()
        blob = self._blob(named)
        with _clear_errors(self.root), self._alone("blobs", PATIENCE):
            if not _intact(blob, named):
                self._make_room(len(data))
                self._write(blob, data)
            self._write(self._entry(key), named.encode())
        return str(blob)

    def made(self, key: str, make: Callable[[], bytes]) -> tuple[str, bool]:
        """Path of the data under ``key``, and whether it was in the cache; calls ``make`` if it was not."""
        path = self.get(key)
        return (self.put(key, make()), False) if path is None else (path, True)

    def made_once(self, key: str, make: Callable[[], bytes]) -> str:
        """Path of data that every kernel needs: one thread makes it, and all other threads and processes wait."""
        path = self.get(key)
        if path is None:
            with self._alone("keys", _MAKING):
                path, _ = self.made(key, make)
        return path

    def path(self, named: str) -> Path:
        """Path of data with this hash, existing or not. Raises ``ValueError`` for an invalid hash."""
        if not _HEX.fullmatch(named):
            raise ValueError(f"{named[:80]!r} is not a SHA-256")
        return self._blob(named)

    def stats(self) -> CacheStats:
        """Number and total size of the entries."""
        sizes = [size for _, size, _ in self._blobs()]
        return CacheStats(str(self.root), len(sizes), sum(sizes), self.limit_bytes)

    def gc(self, limit: int | None = None, grace: float = GRACE) -> int:
        """Delete the least recently used data until ``limit`` bytes are left; returns the bytes freed.

        Entries used in the last ``grace`` seconds stay: another process may be about to load them.
        """
        with _clear_errors(self.root), self._alone("blobs", PATIENCE):
            freed, left = self._collect(self.limit_bytes if limit is None else limit, grace)
            self._keep_size(left, time.time())
        return freed

    def _make_room(self, size: int) -> None:
        """Add ``size`` bytes to the count, and delete the least recently used data if they do not fit. If this process
        is killed before it writes, the count is too high, never too low."""
        now = time.time()
        try:
            total, counted = map(float, (self._base / "size").read_text().split())
            known = 0 <= now - counted < _RECOUNT
        except (OSError, ValueError):  # no count yet, or its writer was killed
            total, counted, known = 0.0, now, False
        if not known or total + size > self.limit_bytes:
            total, counted = float(self._collect(self.limit_bytes - size, 0.0, self.limit_bytes // _SPARE)[1]), now
        self._keep_size(int(total) + size, counted)

    def _keep_size(self, size: int, counted: float) -> None:
        (self._base / "size").write_text(f"{size} {counted}")

    def _collect(self, limit: int, grace: float, spare: int = 0) -> tuple[int, int]:
        """Delete data until ``limit`` bytes are left (``spare`` less if any must go). Returns bytes freed and left."""
        now = time.time()
        found = sorted(self._blobs())
        total = sum(size for _, size, _ in found) + self._drafted(now)
        if total > limit:
            limit -= spare
        freed = 0
        for used, size, path in found:
            if total - freed <= limit:
                break
            if now - used < grace:
                continue
            with contextlib.suppress(OSError):
                path.unlink()
                freed += size
        self._sweep(now)
        return freed, total - freed

    def _drafted(self, now: float) -> int:
        """Bytes of files in ``tmp``: those of writers without the lock. Deletes files of killed writers."""
        total = 0
        for path in (self._base / "tmp").iterdir():
            with contextlib.suppress(OSError):
                status = path.stat()
                if now - status.st_mtime > _STALE:
                    path.unlink()
                else:
                    total += status.st_size
        return total

    @contextlib.contextmanager
    def _alone(self, folder: str, patience: float) -> Iterator[None]:
        """Hold a lock against other threads and processes. Continue without it if the folder cannot be locked, or a
        stopped process holds the lock."""
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                held.enter_context(locked(self._base / folder, patience))
            yield

    def _sweep(self, now: float) -> None:
        # Delete keys without data.
        for path in self._files("keys"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if not self._blob(path.read_text().strip()).exists() and now - path.stat().st_mtime > GRACE:
                    path.unlink()

    def _entry(self, key: str) -> Path:
        name = key if _HEX.fullmatch(key) else sha256(key.encode()).hexdigest()
        return self._base / "keys" / name[:2] / name

    def _blob(self, named: str) -> Path:
        return self._base / "blobs" / named[:2] / f"{named}.so"

    def _files(self, kind: str) -> Iterator[Path]:
        for folder in (self._base / kind).iterdir():
            with contextlib.suppress(OSError):
                yield from folder.iterdir()

    def _blobs(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._files("blobs"):
            with contextlib.suppress(OSError):
                s = path.stat()
                yield s.st_mtime, s.st_size, path

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with replacing(path, sync=False, drafts=self._base / "tmp") as draft:
            draft.write_bytes(data)


def _intact(blob: Path, named: str) -> bool:
    # Reading the data is the check: it finds torn pages, truncated copies and flipped bits.
    try:
        data = blob.read_bytes()
    except OSError:
        return False
    if sha256(data).hexdigest() != named:
        with contextlib.suppress(OSError):
            blob.unlink()
        return False
    with contextlib.suppress(OSError):
        os.utime(blob)
    return True


def _check_owner(folder: Path, allowed: tuple[int, ...]) -> None:
    if folder.stat().st_uid not in allowed:
        raise TilewrightError(
            f"the cache folder {folder} belongs to another user",
            "Set TILEWRIGHT_CACHE to a folder of your own",
        )


@contextlib.contextmanager
def _clear_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        hint = "Set TILEWRIGHT_CACHE to a folder that you can write"
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Free some space, run `tilewright cache gc`, or set TILEWRIGHT_CACHE to another disk"
        why = e.strerror or type(e).__name__
        raise TilewrightError(f"the cache folder {root} cannot be used: {why}", hint) from e
