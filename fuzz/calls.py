"""Library calls with arrays of many kinds: each must return NumPy's result or raise an error with a message."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tilewright
from fuzz.check import Failure, Note
from tilewright import operator, te
from tilewright.core import TilewrightError

Array = np.ndarray[Any, Any]
M, N, K = 9, 7, 5
CALLS = 50
"""Number of calls of one case."""


@operator(name="fuzz_scaled")
def scaled(m: int, n: int) -> te.TensorRef:
    x, s = te.input("x", (m, n)), te.scalar("s")
    return te.compute((m, n), lambda i, j: x[i, j] * s[()])


def library(folder: Path) -> tilewright.Library:
    """Returns a library that compiles kernels of built-in operators and stores a kernel of the operator ``scaled``."""
    db = folder / "calls.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tilewright.tune(scaled, trials=1, db=db, m=M, n=K)
    return tilewright.Library(db, compile=True)


def _strided(x: Array) -> Array:
    wide = np.zeros((2 * x.shape[0], 2 * x.shape[1]), x.dtype)
    wide[::2, ::2] = x
    return wide[::2, ::2]


def _offset(x: Array, by: int) -> Array:
    """A dense copy whose address is ``by`` bytes above a multiple of 64."""
    raw = np.zeros(x.nbytes + 64 + by, np.uint8)
    start = -raw.ctypes.data % 64 + by
    made = raw[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


def _read_only(x: Array) -> Array:
    made = x.copy()
    made.flags.writeable = False
    return made


LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "dense": lambda x: x, "Fortran-ordered": np.asfortranarray, "strided": _strided,
    "reversed": lambda x: x[::-1].copy()[::-1], "offset by an element": lambda x: _offset(x, x.itemsize),
    "offset by a byte": lambda x: _offset(x, 1), "read-only": _read_only, "a list": lambda x: x.tolist(),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape), "float64": lambda x: x.astype(np.float64),
    "float16": lambda x: x.astype(np.float16), "big-endian": lambda x: x.astype(">f4"),
    "whole": lambda x: (x * 4).astype(np.int32), "without rows": lambda x: x[:0],
    "without columns": lambda x: x[:, :0], "0-d": lambda x: x[0, 0].reshape(()), "one row": lambda x: x[:1],
    "transposed twice": lambda x: x.T.T, "a subclass": lambda x: x.view(_Subclass), "None": lambda _: None,
    "a text": lambda _: "x",
}  # fmt: skip


class _Subclass(np.ndarray[Any, Any]):
    pass


def _softmax(x: Any) -> Array:
    wide = np.asarray(x)
    e = np.exp(wide - wide.max(-1, keepdims=True, initial=-np.inf))
    return np.asarray(e / e.sum(-1, keepdims=True))


def examine(lib: tilewright.Library, seed: int, number: int, note: Note) -> Iterator[Failure | None]:
    """Makes the calls of case ``number``.

    Yields a failure for each wrong result and for each error where NumPy returns a result, and ``None`` for each
    correct call.
    """
    r, rng = random.Random(f"calls {seed} {number}"), np.random.default_rng((seed, number))
    plans = {
        "matmul": lib.plan("matmul", m=M, n=N, k=K), "softmax": lib.plan("softmax", shape=f"{M},{K}"),
        "fuzz_scaled": lib.plan(scaled, m=M, n=K),
    }  # fmt: skip
    truth: dict[str, Callable[..., Array]] = {"matmul": np.matmul, "softmax": _softmax, "fuzz_scaled": np.multiply}
    for _ in range(CALLS):
        name, strict = r.choice(list(plans)), r.random() < 0.4
        a, b = rng.standard_normal((M, K)).astype(np.float32), rng.standard_normal((K, N)).astype(np.float32)
        usual = r.random() < 0.3
        kinds = ["dense" if usual else r.choice(list(LAYOUTS)) for _ in range(2)]
        args = [LAYOUTS[kinds[0]](a)]
        if name == "matmul":
            args.append(LAYOUTS[kinds[1]](b))
        elif name == "fuzz_scaled":
            args.append(r.choice((2, 2.5, np.float32(3), np.array(1.5, np.float32))))
        told = f"{'plan of ' if strict else ''}{name}({', '.join(kinds[: 2 if name == 'matmul' else 1])})"
        note(told)
        before = [np.array(x, copy=True) if isinstance(x, np.ndarray) else x for x in args]
        call = plans[name] if strict else getattr(lib, name)
        yield _judged(call, truth[name], args, before, told, strict or name == "fuzz_scaled")


def _judged(
    call: Callable[..., Any],
    truth: Callable[..., Array],
    args: list[Any],
    before: list[Any],
    told: str,
    may_refuse: bool,
) -> Failure | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want: Array | None = np.asarray(truth(*args))
        except Exception:
            want = None  # NumPy raises, so the library may raise its own error
        try:
            got = call(*args)
        except (TypeError, ValueError, TilewrightError) as error:
            if str(error).strip() and (may_refuse or want is None):
                return None
            return Failure(
                "wrong", f"{told} is refused, and NumPy answers it: {type(error).__name__}: {error}", "calls"
            )
        except Exception as error:
            kind = type(error).__name__
            return None if want is None and not may_refuse else Failure("run", f"{told}: {kind}: {error}", "calls")
    if any(isinstance(x, np.ndarray) and x.tobytes() != y.tobytes() for x, y in zip(args, before, strict=True)):
        return Failure("memory", f"{told} changes an argument", "calls")
    if want is None:
        return Failure("wrong", f"{told} is answered, and NumPy refuses it", "calls")
    return _compared(np.asarray(got), want, told)


def _compared(got: Array, want: Array, told: str) -> Failure | None:
    if got.shape != want.shape:
        return Failure("wrong", f"{told}: shape {got.shape}, not {want.shape}", "calls")
    if want.dtype.kind not in "fiu":
        return None
    off = 1e-2 if got.dtype.itemsize < 4 else 1e-4
    close = np.allclose(got.astype(np.float64), want.astype(np.float64), rtol=off, atol=off, equal_nan=True)
    return None if close else Failure("wrong", f"{told}: other values than NumPy's", "calls")
