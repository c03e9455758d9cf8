"""Rows: one JSON line each, in a file that only grows, so that nothing that was found is lost.

A row has an ``id``, a ``state``, a ``device`` and what was found; of several with one id on one device the last counts.
A command that is run again skips what has a row, but for what could not be done then.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.backends.driver import Context, DeviceError
from tilewright.core import TargetUnavailable, TilewrightError, UsageError

Row = dict[str, Any]

RIGHT = ("right", "same", "clean", "measured", "found", "done")
NEITHER = ("resources", "refused", "note")
"""Turned down by the static gate; what a library does not compute; what a reader should know."""
AGAIN = ("skipped", "broken")
"""Not done: something is missing, or a child never came to its work. Tried again by the next run."""
SIGN = 5.0
"""Seconds between two signs of life."""
SPOILT = 4
"""How a child ends whose device fails every later call."""


def read(path: Path) -> list[Row]:
    """Every whole row of a file that counts. Lines that are none, as a crash leaves them, are left out."""
    found: dict[tuple[str, str], Row] = {}
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for line in lines:
        try:
            row = json.loads(line)
            found.pop((row["device"], row["id"]), None)
            found[row["device"], row["id"]] = row
        except (ValueError, TypeError, KeyError):
            continue
    return list(found.values())


def wrong(row: Row) -> bool:
    """Whether something is wrong with what a row is about."""
    return row["state"] not in (*RIGHT, *NEITHER, *AGAIN)


class Rows:
    """The file of one device. ``facts`` are in every row that is added. Safe from several threads."""

    def __init__(self, path: Path, facts: Row) -> None:
        self.path = path
        self.facts = facts
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.exists() else b""
        if text and not text.endswith(b"\n"):  # cut in the middle: that row is found again
            os.truncate(path, text.rfind(b"\n") + 1)
        self._lock = threading.Lock()
        self._found = {r["id"]: r for r in read(path) if r["device"] == facts["device"]}

    def add(self, row: Row) -> None:
        row = {**row, **self.facts}
        with self._lock, open(self.path, "ab") as f:
            f.write(json.dumps(row).encode() + b"\n")
            f.flush()
            os.fsync(f.fileno())
            self._found.pop(row["id"], None)
            self._found[row["id"]] = row

    def __iter__(self) -> Iterator[Row]:
        with self._lock:
            return iter(list(self._found.values()))

    def done(self, name: str) -> bool:
        """Whether there is a row that needs no other."""
        with self._lock:
            return self._found.get(name, {"state": AGAIN[0]})["state"] not in AGAIN


class Teller:
    """A child's way to its parent, which alone writes rows: lines of JSON on the standard output.

    ``known``: rows of earlier runs.
    """

    def __init__(self, known: Iterable[Row]) -> None:
        self._done = {r["id"] for r in known if r["state"] not in AGAIN}
        self._lock = threading.Lock()
        self._again = False

    def wants(self, name: str) -> bool:
        """Whether a row is still to be found."""
        return name not in self._done

    def at(self, name: str, **known: Any) -> None:
        """What the child is at, which is to blame if it dies, and what is known of it then."""
        self._say({"at": name, **known})

    def row(self, name: str, state: str, **found: Any) -> None:
        self._again |= state in AGAIN
        self._done.add(name)
        self._say({"id": name, "state": state, **found})

    @contextmanager
    def whole(self, name: str) -> Iterator[None]:
        """Work for several rows, which ends with one of its own, unless that was told, or some could not be done."""
        self.at(name)
        self._again, began = False, time.monotonic()
        yield
        if not self._again and self.wants(name):
            self.row(name, "done", seconds=round(time.monotonic() - began, 1))

    def _say(self, what: Row) -> None:
        with self._lock:
            print(json.dumps(what), flush=True)

    @contextmanager
    def trusted(self) -> Iterator[None]:
        """While what runs has deadlines of its own: the parent hears that the child lives, however long it takes."""
        over = threading.Event()

        def tell() -> None:
            while not over.wait(SIGN):
                self._say({})

        thread = threading.Thread(target=tell)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def unit(self, name: str, context: Context | None = None, **found: Any) -> Iterator[None]:
        """Work for one row, whose errors become one. Ends the child where they spoilt ``context``."""
        self.at(name, **found)
        try:
            yield
        except Exception as e:  # whatever it is, the rest goes on
            missing = isinstance(e, TargetUnavailable | UsageError)
            state = "crash" if isinstance(e, DeviceError) else "skipped" if missing else "failed"
            self.row(name, state, message=line_of(e), **found)
            if spoilt(context):
                sys.exit(SPOILT)


def spoilt(context: Context | None) -> bool:
    """Whether a device answers no more in this process."""
    try:
        if context is not None:
            context.synchronize()
    except DeviceError as e:
        return e.sticky
    return False


def line_of(error: BaseException) -> str:
    """An error in one line."""
    text = error.message if isinstance(error, TilewrightError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())[:500]
