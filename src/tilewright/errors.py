"""Errors that a user can cause or fix."""

from __future__ import annotations

import difflib
import os
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class TilewrightError(Exception):
    """Base of the errors that a caller can fix: a message, and a hint that says what to do.

    ``kind``: a short stable word for scripts. ``exit_code``: exit status of the CLI.
    """

    kind = "error"
    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def mend(self) -> str:
        """Former name of ``hint``."""
        what = "TilewrightError.mend is called hint now, and goes in a later version"
        warnings.warn(what, DeprecationWarning, stacklevel=2)
        return self.hint

    def to_json(self) -> dict[str, str]:
        return {"kind": self.kind, "message": self.message, "mend": self.hint}

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class UsageError(TilewrightError, ValueError):
    """A malformed request: an unknown name, a missing or impossible size."""

    kind = "usage"
    exit_code = 2


class NotFound(UsageError):
    """A well-formed request for something that is not stored."""

    exit_code = 1


class TargetUnavailable(TilewrightError):
    """A known target that this machine cannot build for or run on."""

    kind = "target"


class DatabaseError(TilewrightError):
    """The database cannot be opened, read or written."""

    kind = "database"


class OperatorError(TilewrightError):
    """A user's operator definition raised or is not expressible."""

    kind = "operator"


class NoFunction(OperatorError, AttributeError):
    """A name that a module of the operator language lacks; the hint names the nearest function."""

    def __init__(self, module: str, name: str, known: Iterable[str]) -> None:
        names = list(known)
        near = "" if name.startswith("_") else nearest(name, names)  # tools ask every module for private names
        hint = near.replace("Did you mean ", f"Did you mean {module}.").strip() or f"It has {', '.join(names)}"
        super().__init__(f"{module} has no function {name!r}", hint)


class IllegalSchedule(TilewrightError, ValueError):
    """A schedule outside its space or over a hardware limit. Only the search catches it."""

    kind = "illegal_schedule"


def of_any(error: BaseException) -> TilewrightError:
    """The error itself if it is a ``TilewrightError``; else an error that names its type and the line that raised
    it."""
    if isinstance(error, TilewrightError):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    machine = isinstance(error, OSError | MemoryError)
    hint = "Check the free disk space and memory" if machine else "This is an error in Tilewright or in a plugin"
    return TilewrightError(f"{type(error).__name__}{f': {text}' if text else ''}{where}", hint)


def needed(package: str, message: str, extra: str, error: type[TilewrightError] = UsageError) -> Any:
    """Imports and returns the module ``package``.

    If it is missing, raises ``error`` with ``message`` and the extra of Tilewright that installs it.
    """
    try:
        return import_module(package)
    except ImportError:
        raise error(message, f"Run: pip install 'tilewright[{extra}]'") from None


@contextmanager
def explained_writing(what: object, hint: str, error: type[TilewrightError] = TilewrightError) -> Iterator[None]:
    """Context for writing ``what``: raises ``error`` with the reason if the system refuses."""
    try:
        yield
    except OSError as e:
        raise error(f"cannot write {what}: {e.strerror or e}", hint) from e


def nearest(name: str, known: Iterable[str]) -> str:
    """``Did you mean ...? `` with up to three equally close known names; empty if no name is close."""
    names = list(dict.fromkeys(known))
    ratios = {n: difflib.SequenceMatcher(None, n, name).ratio() for n in names}
    best = max(ratios.values(), default=0.0)
    close = [n for n in names if ratios[n] == best >= 0.5]
    return f"Did you mean {' or '.join(close[:3])}? " if close else ""
