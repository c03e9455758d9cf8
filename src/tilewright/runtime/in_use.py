"""The library that serves a framework's calls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from tilewright.forking import ForkLock
from tilewright.runtime.library import Library
from tilewright.runtime.missed import warn
from tilewright.runtime.requests import NoRequest, Request, request, similar
from tilewright.runtime.serving import Answer


class InUse:
    """The library given to :meth:`use`, else the default database's, opened at the first call.

    ``framework``: its name. ``through``: folders of modules that warnings do not count as callers. Subclasses cache
    answers until :meth:`_clear`. Thread-safe.
    """

    def __init__(self, framework: str, through: tuple[str, ...]) -> None:
        self._framework, self._through = framework, through
        self._lock = ForkLock()
        self._library: Library | None = None
        self.generation = 0  # incremented whenever answers are cleared
        self._said: set[str] = set()

    @property
    def library(self) -> Library:
        """The library in use."""
        if self._library is None:
            self.use(None)
        assert self._library is not None
        return self._library

    def use(self, library: Library | str | os.PathLike[str] | None) -> Library:
        """Serves from a library, or a database's file; ``None``: the default database."""
        opened = library if isinstance(library, Library) else Library(library, missing_ok=library is None)
        with self._lock:
            self._library = opened
        self.forget()
        opened.on_refresh(self.forget)
        return opened

    def forget(self) -> None:
        """Clears all answers, so that calls are looked up again."""
        with self._lock:
            self.generation += 1
            self._clear()

    def _clear(self) -> None:
        """Clears cached answers; the lock is held."""

    def asked(self, label: str, name: str, described: Sequence[Any]) -> Request | Answer:
        """The request of a call, or its answer where no kernel can take it. Arguments as of :meth:`say_near`."""
        try:
            return request(name, described)
        except NoRequest as e:
            if str(e) == "dtype":
                self.say_near(label, name, described)
            return self.library.resolver.passed(str(e))

    def say_near(self, label: str, name: str, described: Sequence[Any]) -> None:
        """Warns once for ``label`` if a kernel is tuned for a call's shapes, but not for its dtypes.

        ``name``, ``described``: the operator and its arguments, as ``requests.request`` takes them.
        """
        if name in self._said:
            return
        asked = similar(name, described)
        change = None if asked is None else self.library.resolver.near(*asked)
        if change is not None:
            self._said.add(name)
            what = f"{label}: a kernel is tuned for these shapes, but {change}"
            warn(f"{what}. {self._framework} answers instead", through=self._through)
