"""``@tilewright.autotune``: an operator that is tuned at its first call and served from the database afterwards."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from tilewright.backends.arrays import arrays_of, backend_name
from tilewright.backends.locks import DeviceLock
from tilewright.core import UsageError, Workload
from tilewright.forking import ForkLock
from tilewright.paths import default_path
from tilewright.runtime import Library
from tilewright.runtime.foreign import borrow
from tilewright.tuner.api import operator_of, tune

if TYPE_CHECKING:
    from tilewright.kernels.operator import Operator


@dataclass(frozen=True)
class _Turn:
    """Key of the lock under which one process at a time tunes a workload."""

    name: str
    cores: tuple[int, ...]
    kind: str = "autotune"


class Autotuned:
    """``(arrays..., out=None, **attributes)``; see :func:`autotune`."""

    def __init__(
        self, operator: Operator, db: str | os.PathLike[str] | None, threads: int, how: Mapping[str, Any]
    ) -> None:
        self.operator = operator
        self.__name__ = self.__qualname__ = operator.name
        self.__doc__ = operator.doc
        self._db, self._threads, self._how = db, threads, how
        self._plans: dict[Any, Callable[..., Any]] = {}
        self._lock = ForkLock()

    def __repr__(self) -> str:
        return f"<autotuned operator {self.__name__}>"

    def __call__(self, *arrays: Any, out: Any = None, **attributes: Any) -> Any:
        return self.plan(*arrays, **attributes)(*arrays, out=out)

    def plan(self, *arrays: Any, **attributes: Any) -> Callable[..., Any]:
        """Return a callable for arrays of these shapes and dtypes. Tunes the workload first if it has no stored kernel.

        With ``constant`` among the attributes, the ``bind`` of the callable takes the constant arrays once.
        """
        key = (tuple(map(_kind, arrays)), tuple(sorted((k, str(v)) for k, v in attributes.items())))
        plan = self._plans.get(key)
        if plan is None:
            with self._lock:
                plan = self._plans.get(key)
                if plan is None:
                    plan = self._plans[key] = self._make(arrays, attributes)
        return plan

    def workload(self, *arrays: Any, **attributes: Any) -> Workload:
        """Return the workload of a call with arrays of these shapes and dtypes. Raises ``UsageError``."""
        from tilewright.kernels.inference import params_of

        shapes, dtype = _described(self.__name__, arrays)
        given = {**({} if dtype is None else {"dtype": dtype}), **attributes}
        return self.operator.workload(**params_of(self.operator, shapes, given))

    def _make(self, arrays: Sequence[Any], attributes: Mapping[str, Any]) -> Callable[..., Any]:
        workload = self.workload(*arrays, **attributes)
        backend = next((b for b in map(backend_name, arrays) if b is not None), None)
        if backend is not None:
            return self._tune(workload, backend)
        return self._stored(workload) or self._in_turn(workload)

    def _in_turn(self, workload: Workload) -> Callable[..., Any]:
        """Wait for another process that tunes this workload, then use its stored kernel; otherwise tune now."""
        with DeviceLock(_Turn(workload.label, (int(workload.key[:12], 16),))):
            return self._stored(workload) or self._tune(workload)

    def _stored(self, workload: Workload) -> Callable[..., Any] | None:
        library = Library(default_path() if self._db is None else self._db, threads=self._threads, missing_ok=True)
        return library.plan(workload) if library.explain(workload).tier == "exact" else None

    def _tune(self, workload: Workload, backend: str | None = None) -> Callable[..., Any]:
        where = {} if backend is None else {"target": backend}
        result = tune(
            self.operator, params=dict(workload.params), db=self._db, threads=self._threads, **{**where, **self._how}
        )
        return result.kernel


@overload
def autotune(operator: str | Operator | Callable[..., Any], /, **settings: Any) -> Autotuned: ...
@overload
def autotune(**settings: Any) -> Callable[[str | Operator | Callable[..., Any]], Autotuned]: ...
def autotune(
    operator: str | Operator | Callable[..., Any] | None = None,
    /,
    *,
    db: str | os.PathLike[str] | None = None,
    threads: int = 1,
    **settings: Any,
) -> Autotuned | Callable[[str | Operator | Callable[..., Any]], Autotuned]:
    """Make an operator callable with arrays. The first call for a workload tunes it, later calls use the stored kernel.

    >>> @tilewright.autotune(trials=64)  # doctest: +SKIP
    ... def sqdist(m: int, n: int, k: int):
    ...     x, y = te.input("x", (m, k)), te.input("y", (n, k))
    ...     return te.compute((m, n), lambda i, j: te.sum(k, lambda r: (x[i, r] - y[j, r]) ** 2))
    >>> d = sqdist(x, y)  # doctest: +SKIP
    >>> c = tilewright.autotune("matmul")(a, b, trans_b=True)  # doctest: +SKIP

    ``operator``: as for :func:`tilewright.tune`. Sizes come from the arrays (NumPy, PyTorch, JAX, CuPy, any with
    DLPack), attributes from keywords. Kernels are stored in ``db``, where later processes find them. If two processes
    call the same workload at the same time, only one of them tunes it. ``settings`` are keywords of
    :func:`tilewright.tune`, such as ``trials`` and ``time_budget``. Raises ``UsageError`` for settings, shapes and
    attributes that do not fit, and the exceptions of ``tune``.
    """
    fixed = {"operator", "params", "sizes", "resume", "take_over", "farm", "certs"}
    known = [n for n in inspect.signature(tune).parameters if n not in fixed]
    strange = next((n for n in settings if n not in known), None)
    if strange is not None:
        raise UsageError(f"autotune has no setting {strange!r}", f"It takes {', '.join(known)}")

    def make(given: str | Operator | Callable[..., Any]) -> Autotuned:
        return Autotuned(operator_of(given), db, threads, settings)

    return make if operator is None else make(operator)


def _kind(a: Any) -> Any:
    """Key of one argument (type, shape, dtype). Calls with equal keys share a plan."""
    shape, dtype = getattr(a, "shape", None), getattr(a, "dtype", None)
    return type(a) if dtype is None else (type(a), tuple(shape or ()), str(dtype))


def _described(name: str, arrays: Sequence[Any]) -> tuple[list[tuple[int, ...]], str | None]:
    """Return the shapes of a call's arrays and the dtype of the first array. A number counts as a scalar."""
    backend = next((b for b in map(backend_name, arrays) if b is not None), None)
    if backend is not None:
        views = [arrays_of(backend).view(a) for a in arrays]
        return [v.shape for v in views], views[0].dtype
    lent = borrow(name, arrays)
    seen = arrays if lent is None else lent.args
    shapes: list[tuple[int, ...]] = []
    dtype = None if lent is None else lent.bits
    for place, a in enumerate(seen):
        if isinstance(a, int | float):
            shapes.append(())
            continue
        if not hasattr(a, "dtype"):
            raise UsageError(f"{name}: argument {place + 1} is a {type(a).__name__}, not an array", "Pass an array")
        shapes.append(tuple(a.shape))
        dtype = dtype or a.dtype.name
    return shapes, dtype
