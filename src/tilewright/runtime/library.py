"""The library: tuned kernels of one database or bundle, called from Python."""

from __future__ import annotations

import logging
import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.closing import Closing
from tilewright.core import TilewrightError, UsageError, Workload
from tilewright.errors import nearest
from tilewright.forking import ForkLock
from tilewright.kernels.operators import OPERATORS
from tilewright.kernels.parameters import canonical_value
from tilewright.paths import default_path
from tilewright.runtime.device_calls import described, untuned
from tilewright.runtime.dispatch import Dispatch
from tilewright.runtime.explain import Explanation
from tilewright.runtime.kernels import open_kernels
from tilewright.runtime.misses import Misses
from tilewright.runtime.resolve import Resolver
from tilewright.runtime.serving import Served
from tilewright.runtime.stats import Counters, Stats
from tilewright.runtime.watching import watcher

if TYPE_CHECKING:
    from tilewright.kernels.operator import Operator
    from tilewright.runtime.bundle.trusted import Trust
    from tilewright.runtime.gpu_plan import GpuPlan

Array = np.ndarray[Any, Any]

_log = logging.getLogger("tilewright.runtime")


class Library(Closing):
    """Kernels of a database (default: ``$TILEWRIGHT_DB``, else the user's own), or of a bundle.

    >>> library = Library("tuned.db")  # doctest: +SKIP
    >>> c = library.matmul(a, b)  # doctest: +SKIP
    >>> plan = library.plan("matmul", m=512, n=512, k=512)  # doctest: +SKIP
    >>> plan(a, b, out=c)  # doctest: +SKIP

    Every operator is a method, looked up by its arrays' shapes and dtypes and by attributes given as keywords;
    :meth:`plan` does the look-up once. ``threads``: largest number of threads of a kernel; the default and the upper
    limit is the number that this process may use. ``trust``: open a file that others can write. A bundle (``tilewright
    bundle build``) is opened if a key that the user trusts has signed it. ``trust`` may name other keys instead
    (``"ed25519:..."``, one or several). It may be ``"unsigned"``: then the file's permissions decide, as for a
    database, and not its signature. ``missing_ok``: treat a missing file as an empty one. ``compile``: if no kernel was
    tuned, compile a template's default once, instead of falling back to NumPy. ``check``: refuse (``ValueError``)
    inputs that hold values outside the ranges that their operator states; calls then go through Python. ``watch``: find
    newly tuned kernels within a second (:meth:`refresh`). ``pinned``: a file of ``tilewright lock``; only its kernels
    are served. ``count_misses``: store misses periodically, if the file can be written (``tilewright misses``).

    Raises ``DatabaseError`` for a file that cannot be used. Safe from any number of threads, and after a fork. Plans
    outlive the library.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        threads: int | None = None,
        trust: Trust = False,
        missing_ok: bool = False,
        compile: bool = False,
        check: bool = False,
        watch: bool = True,
        pinned: str | os.PathLike[str] | None = None,
        count_misses: bool = True,
    ) -> None:
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise UsageError(f"threads={threads!r} is not a number of threads", "Pass 1 or more, or None")
        if path is None:
            path = default_path()
        self._options: dict[str, Any] = {
            "threads": threads, "trust": trust, "missing_ok": missing_ok, "compile": compile, "check": check,
            "watch": watch, "pinned": pinned, "count_misses": count_misses,
        }  # fmt: skip
        self._store = open_kernels(path, trust=trust, missing_ok=missing_ok, pinned=pinned)
        self._counters = Counters()
        self._misses = Misses(self._store, self._counters, count_misses)
        self.resolver = Resolver(self._store, threads, compile, check, self._counters, self._misses)
        self._lock = ForkLock()  # held while an operator gets its method
        self._dispatches: dict[str, Dispatch] = {}
        self._watch = watch
        self._seen: tuple[object, ...] = ()
        self._choices: frozenset[tuple[object, ...]] | None = None  # as of the first requested method
        self._listeners: list[Callable[[], None]] = []

    @property
    def path(self) -> str:
        """The database's file, or the bundle."""
        return str(self._store.path)

    def plan(self, op: str | Operator | Workload, /, **params: Any) -> Callable[..., Array]:
        """A callable ``(inputs..., out=None)`` for fixed parameters; it returns the output.

        ``op``: a name, ``FILE.py:function``, an operator, or a workload, whose parameters are fixed. The callable takes
        dense, row-major, aligned arrays of exactly the plan's shapes and dtypes, and an output that overlaps no input;
        other arrays are a ``TypeError`` or ``ValueError``. Arrays of PyTorch, JAX and any framework with DLPack are
        answered by arrays of that framework. Raises ``UsageError`` for an unknown operator or parameters.
        """
        return self.resolver.plan(op, params).call

    def on_refresh(self, listener: Callable[[], None]) -> None:
        """Calls ``listener`` whenever this library's kernels have changed, and watches for changes from now on."""
        self._listeners.append(listener)
        if self._watch:
            self._look()
            watcher.add(self)

    def explain(self, op: str | Operator | Workload, /, **params: Any) -> Explanation:
        """The tier, the kernel and the reason with which :meth:`plan` would answer."""
        return self.resolver.explain(op, params)

    def explain_gpu(self, op: str, /, *arrays: Any, **attributes: Any) -> dict[str, Any] | None:
        """The CUDA kernel that ``op(*arrays, **attributes)`` would launch, as JSON, or ``None``.

        ``arrays`` are on a GPU (CuPy, PyTorch, or any array with ``__cuda_array_interface__``).
        """
        served = self._on_device(op, arrays, attributes)
        if served is None or served.on_device is None:
            return None
        e = served.on_device.entry
        return {
            "tier": e.tier, "template": e.schedule.template, "schedule": dict(e.schedule.values), "seconds": e.seconds,
            "target": e.target.name, "device_model": e.device_model, "run": e.run, "sha256": e.sha256,
            "limits": dict(e.target.limits),
        }  # fmt: skip

    def plan_gpu(self, op: str, /, *arrays: Any, **attributes: Any) -> GpuPlan:
        """A callable ``(inputs..., out=None)`` for inputs like ``arrays``, on their GPU; it returns the output.

        It queues the kernel that :meth:`explain_gpu` names on the current stream of the first array's owner, and never
        waits. It has its own scratch memory for each stream: after a first call on a stream, only an output that is not
        passed is allocated, and a CUDA graph can record its calls. Raises ``UsageError`` if no kernel was tuned for
        these inputs.
        """
        served = self._on_device(op, arrays, attributes)
        if served is None:
            raise untuned(self._store, op, arrays)
        return self.resolver.gpu.plan(served, op, keeps=True)

    def _on_device(self, op: str, arrays: Sequence[Any], attributes: Mapping[str, Any]) -> Served | None:
        self.resolver.require_open()
        device, inputs = described(op, arrays)
        return self.resolver.by_arrays(op, inputs, {k: canonical_value(v) for k, v in attributes.items()}, device)

    def refresh(self) -> None:
        """Serves kernels tuned since: the next calls by name look their kernels up again, also calls through ``f =
        library.matmul``.

        If a kernel of an operator cannot be loaded, the operator keeps its earlier kernels, and the logger
        ``tilewright.runtime`` warns. Each call is answered by one kernel, the old or the new. Plans keep their kernels.
        """
        self.resolver.require_open()
        for name, dispatch in tuple(self._dispatches.items()):
            method = self.__dict__.get(name)  # keeps the builtin alive, which owns the table
            if method is None:
                continue
            try:
                dispatch.renew()
            except TilewrightError as e:
                _log.warning("%s is still answered by its earlier kernels: %s", name, e)
        for listener in tuple(self._listeners):
            listener()

    def _look(self) -> None:
        """Calls :meth:`refresh` if the file's kernels have changed since the last look, and stores misses."""
        self._misses.flush(at_once=False)
        seen = self._store.stamp()
        if seen == self._seen or self.resolver.closed:
            return
        self._seen, before, self._choices = seen, self._choices, self._store.choices()
        if before not in (None, self._choices):
            self.refresh()

    def stats(self) -> Stats:
        """Counts of the calls answered so far, including calls of plans."""
        return self._counters.snapshot()

    def restart_stats(self) -> None:
        """Sets the counts of :meth:`stats` to zero."""
        self._counters.restart()

    def operators(self) -> tuple[str, ...]:
        """Names of the operators that this library answers, tuned and built-in."""
        return tuple(sorted({*self._store.names(), *OPERATORS}))

    def close(self) -> None:
        """Stops answering calls by name. Plans made before keep working."""
        self.resolver.closed = True
        self.resolver.forget()
        self._misses.flush()
        for name in tuple(self._dispatches):
            self.__dict__.pop(name, None)
        self._dispatches.clear()

    def __reduce__(self) -> tuple[Callable[..., Library], tuple[str]]:
        """Pickles and copies open the library again: another process loads the kernels for itself."""
        return partial(Library, **self._options), (self.path,)

    def __repr__(self) -> str:
        return f"<tilewright.Library {self.path}{' (closed)' if self.resolver.closed else ''}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.operators()})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """The method of an operator of that name, which is stored as an ordinary attribute."""
        if name.startswith("_"):
            raise AttributeError(f"Library has no attribute {name!r}")
        if name == "look":
            what = "Library.look is called refresh now, and goes in a later version"
            warnings.warn(what, DeprecationWarning, stacklevel=2)
            return self._look
        self.resolver.require_open()
        built_in = name in OPERATORS
        if not built_in and name not in self._store.names():
            known = self.operators()
            raise AttributeError(
                f"{self.path} has no operator {name!r}. {nearest(name, known)}Known are {', '.join(known)}"
            )
        if self._watch:
            self._look()
            watcher.add(self)
        with self._lock:
            # Concurrent look-ups must get one method, as a refresh reaches only the stored one.
            return self.__dict__.get(name) or self._method(name, built_in)

    def _method(self, name: str, built_in: bool) -> Callable[..., Any]:
        """Makes the method that answers an operator, and stores it as an attribute."""
        dispatch = Dispatch(name, self.resolver, built_in, partial(_without_method, weakref.ref(self), name))
        builtins = self.resolver.builtins(name)
        self._dispatches[name] = dispatch
        self.__dict__[name] = method = dispatch if builtins is None else dispatch.behind(builtins)
        return method


def _without_method(library: weakref.ref[Library], name: str) -> None:
    """Removes an operator's method, so that the next look-up makes it again."""
    if (owner := library()) is not None:
        owner.__dict__.pop(name, None)
