"""``library.matmul(a, b)``: from arrays to the kernel for their shapes.

In C, a table answers shapes that were seen before; what it does not know comes to a
:class:`Dispatch`, which resolves it once and adds it to the table. The rules:

- a tuned kernel (or a compiled template default) for these shapes, dtypes and attributes answers;
- a built-in operator with no such kernel, or arrays whose layout no kernel takes, goes to numpy;
- complex arrays are answered by the kernel of an operator of pairs of reals, where there is one;
- a user's operator has no numpy to go to: arrays of another layout are copied into a dense one;
- where a kernel of these shapes is passed over for the arrays' dtype, type or layout, that is said once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.backends.arrays import on_gpu
from tilewright.core import IMPLICIT, TensorSpec, UsageError, Workload
from tilewright.dtypes import numpy_dtype
from tilewright.forking import ForkLock, steady
from tilewright.kernels.expression.expr import BITS
from tilewright.kernels.operators import get_operator
from tilewright.kernels.parameters import settled
from tilewright.runtime.checked import (
    LINE,
    Checked,
    Misfit,
    added_dtype,
    address,
    each_out,
    empty,
    given_outs,
    returned,
)  # fmt: skip
from tilewright.runtime.complex_arrays import as_pairs, complex_workload
from tilewright.runtime.device_calls import DeviceCalls
from tilewright.runtime.foreign import Borrowed, borrow
from tilewright.runtime.missed import warn
from tilewright.runtime.numpy_fallback import DIRECT
from tilewright.runtime.pycall import Builtins, Table
from tilewright.runtime.resolve import Resolver
from tilewright.runtime.serving import Answer, Served
from tilewright.runtime.stats import UNTUNED

Array = np.ndarray[Any, Any]
Key = tuple[Any, ...]

_KEPT = 4096  # kinds of calls; then all are forgotten and found again
_COPIED = ("strides", "alignment", "overlap")  # misfits that a dense copy mends
_PLAIN = (bool, int, float, str, type(None))


class Dispatch:
    """Answers ``name(*arrays, out=None, **attributes)``; a table in C (:meth:`behind`) sends it what is new.

    Until there is a table, ``upgrade`` is called when there can be one.
    """

    def __init__(self, name: str, resolver: Resolver, built_in: bool, upgrade: Callable[[], None]) -> None:
        self.__name__ = self.__qualname__ = name
        # The first line in this form is what inspect.signature reads of a builtin.
        self.__doc__ = f"{name}(*arrays, out=None, **attributes)\n--\n\nSee tilewright.Library."
        self.built_in = built_in
        self._resolver = resolver
        self._on_device = DeviceCalls(name, resolver, built_in)
        self._known: dict[Key, Answer] = {}
        self._lock = ForkLock()
        self._generation = 0  # of the kernels that may be remembered
        self._said: set[str] = set()  # reasons
        self._looked: set[Key] = set()  # kinds of calls without a kernel that takes other arrays
        self._named: dict[Key, list[str] | None] = {}  # dtypes of results that no kernel makes
        self._table: Table | None = None
        self._upgrade = upgrade

    def behind(self, builtins: Builtins) -> Callable[..., Any]:
        """A builtin with a table in front of this."""
        made, self._table = builtins.dispatcher(self.__name__, self.__doc__ or "", self)
        return made

    def __repr__(self) -> str:
        return f"<operator {self.__name__} of a tilewright.Library>"

    @property
    def __signature__(self) -> inspect.Signature:
        p = inspect.Parameter
        out = p("out", p.KEYWORD_ONLY, default=None)
        return inspect.Signature([p("arrays", p.VAR_POSITIONAL), out, p("attributes", p.VAR_KEYWORD)])

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if args and type(args[0]) is not np.ndarray and not self._resolver.closed:
            result = self._on_device.again(args, keywords)
            if result is not None:
                return result
        out = keywords.get("out")
        attributes = {k: settled(v) for k, v in keywords.items() if k != "out"}
        plain = all(isinstance(v, _PLAIN) for v in attributes.values())
        if not plain or any(type(a) is not np.ndarray for a in (*args, *each_out(out))):
            return self._strange(args, attributes, out, keywords)
        key = _key(args, attributes)
        answer = self._known.get(key)
        if answer is None:
            generation = self._generation
            answer = self._resolve(args, attributes, out)
            with self._lock:
                if generation == self._generation:
                    if len(self._known) >= _KEPT:
                        self._known.clear()
                    self._known[key] = answer
                    self._tell(answer, args, keywords)
        if answer.served is None:
            return self._numpy(answer, args, attributes, out, keywords)
        return self._by_kernel(answer.served, args, attributes, out, keywords)

    def _by_kernel(
        self, served: Served, args: tuple[Any, ...], attributes: dict[str, Any], out: Any, keywords: dict[str, Any]
    ) -> Any:
        """A kernel's answer; where the arrays' layout is none that it takes, NumPy's, or that to dense copies."""
        arrays, checked = list(args), served.checked
        assert isinstance(checked, Checked)  # NumPy's arrays are this processor's
        if len(arrays) == len(checked.inputs) + 1 and out is None:
            out = arrays.pop()
        try:
            if arrays[0].dtype.kind == "c":
                return self._by_pairs(checked, arrays, out)
            return checked.answer(arrays, out)
        except Misfit as e:
            if e.reason in _COPIED and served.explanation.tier not in UNTUNED:
                instead = "NumPy answers instead" if self.built_in else "It is copied in every call"
                self._say(e.reason, f"a kernel is tuned for these shapes, but {e}. {instead}")
            if self.built_in:
                return self._numpy(self._resolver.passed(e.reason), args, attributes, out, keywords)
            if e.reason not in _COPIED:
                raise e.error from None
            return self._copied(checked, arrays, out, e.reason)

    def _by_pairs(self, checked: Checked, arrays: Sequence[Array], out: Any) -> Any:
        """The answer to complex arrays of a kernel that takes pairs of reals. Raises ``Misfit``."""
        kind = arrays[0].dtype
        if out is not None and getattr(out, "dtype", None) != kind:
            raise Misfit("dtype", f"{self.__name__}: out is not an array of {kind}")
        made = checked.answer([as_pairs(a) for a in arrays], None if out is None else as_pairs(out))
        return made.view(kind)[..., 0] if out is None else out

    # ----------------------------------------------------------------------- finding an answer

    def renew(self) -> None:
        """Forget all answers, while whoever calls this holds the method in front of it.

        What will answer the kinds of calls made so far is looked up and loaded first. Raises ``TilewrightError``, and
        forgets nothing, where that fails.
        """
        with self._lock:
            known = list(self._known)
        for kinds, attributes in known:
            self._tuned(kinds, dict(attributes))
        self._on_device.renew()
        with self._lock:
            self._generation += 1
            self._known.clear()
            self._looked.clear()
            if self._table is not None:
                self._table.clear()

    def _resolve(self, args: tuple[Array, ...], attributes: Mapping[str, Any], out: Any) -> Answer:
        """What answers a kind of call; without a kernel, numpy does."""
        self._resolver.require_open()
        of_pairs = complex_workload(self.__name__, args[:2], attributes)
        if of_pairs is not None:
            return self._resolver.find(of_pairs)
        kinds = [(a.shape, a.dtype) for a in args]
        served = self._tuned(kinds, attributes)
        if served is None and out is None and len(args) > 1:
            served = self._tuned(kinds[:-1], attributes)  # the last one may be the output
            if served is not None and len(served.checked.inputs) != len(args) - 1:
                served = None
        if served is not None:
            return Answer.of(served)
        if not self.built_in:
            raise self._unknown(args, attributes)
        reason = self._why_not(args)
        workload = self._workload(args, attributes) if reason == "untuned" else None
        found = self._resolver.passed(reason) if workload is None else self._resolver.find(workload)
        if found.served is None:  # else tuned under another operator's name, or a template's default
            self._say_near(reason, args, attributes)
        return found

    def _tuned(
        self, kinds: Sequence[tuple[tuple[int, ...], np.dtype[Any]]], attributes: Mapping[str, Any]
    ) -> Served | None:
        bits = _bits(attributes)
        names = [(shape, d.name if d.isnative else d.str) for shape, d in kinds]
        shapes = tuple((shape, bits.get(n, n)) for shape, n in names)
        return self._resolver.by_arrays(self.__name__, shapes, attributes)

    def _why_not(self, args: tuple[Array, ...]) -> str:
        if any(a.size == 0 for a in args):
            return "empty"
        if any(a.dtype.name not in ("float32", "float64") or not a.dtype.isnative for a in args):
            return "dtype"
        return "dtype" if len({a.dtype for a in args}) > 1 else "untuned"

    def _workload(self, args: tuple[Array, ...], attributes: Mapping[str, Any]) -> Workload | None:
        """The built-in operator's workload for these arrays, or ``None`` where it has none."""
        op = get_operator(self.__name__)
        if op.infer is None or not args:
            return None
        try:
            params = op.infer([a.shape for a in args], **{"dtype": args[0].dtype.name, **attributes})
            return op.workload(**params)
        except UsageError:  # numpy names what is wrong with the shapes, or takes them (batches)
            return None

    def _tell(self, answer: Answer, args: tuple[Array, ...], keywords: Mapping[str, Any]) -> None:
        """Have the table answer calls of this kind, where it can."""
        if not all(isinstance(v, (*_PLAIN, tuple)) for k, v in keywords.items() if k != "out"):
            return  # the table knows values by their address, and a list may hold others at the next call
        served = answer.served
        if self._table is None:
            if served is not None and served.native:
                self._upgrade()
        elif served is None:
            direct = None if _own_types(args, keywords) else DIRECT.get(self.__name__)
            if direct is not None and set(keywords) <= {"out"}:
                self._table.add(args, keywords, direct, answer.tally.addresses)
        elif served.native and args[0].dtype.kind != "c":
            self._table.add(args, keywords, served.call)

    # ----------------------------------------------------------------------- what could have been

    def _say(self, reason: str, message: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            warn(message)

    def _say_near(self, reason: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Warn if a kernel is tuned for these shapes and another kind of arrays."""
        if reason in self._said:
            return
        try:
            shapes = [np.shape(a) for a in args]
        except ValueError:  # a ragged list
            return
        key = (reason, tuple(shapes))
        if key in self._looked:
            return
        change = self._resolver.near(self.__name__, shapes, attributes)
        if change is None:
            if len(self._looked) < _KEPT:
                self._looked.add(key)
        else:
            what = f"{self.__name__}: a kernel is tuned for these shapes, but {change}"
            self._say(reason, f"{what}. NumPy answers instead")

    # ----------------------------------------------------------------------- other ways to answer

    def _strange(self, args: tuple[Any, ...], attributes: dict[str, Any], out: Any, keywords: dict[str, Any]) -> Any:
        """Arguments that are no plain arrays: numpy may know what to do with them."""
        self._resolver.require_open()
        if out is None and self._ends_with_outs(args):
            return self(*args[:-1], **keywords, out=args[-1])
        if any(on_gpu(a) for a in args):
            return self._on_device.call(args, keywords)
        lent = borrow(self.__name__, args, each_out(out))
        if lent is not None:
            return self._lent(lent, args, attributes, keywords)
        if self.built_in:
            self._say_near("type", args, attributes)
            return self._numpy(self._resolver.passed("type"), args, attributes, out, keywords)
        for a in args:
            if type(a) is not np.ndarray and not isinstance(a, (int, float, np.number)):
                shown = "None" if a is None else type(a).__name__
                raise TypeError(f"{self.__name__} takes arrays, got {shown}. Pass numpy.asarray of it")
        for e in self._resolver.store.entries(self.__name__):
            if len(e.inputs) == len(args) and all(map(_stands_for, args, e.inputs)):
                served = self._resolver.by_arrays(self.__name__, e.shapes, attributes)
                if served is not None:
                    return self._by_kernel(served, args, attributes, out, keywords)
        raise self._unknown(args, attributes)

    def _ends_with_outs(self, args: tuple[Any, ...]) -> bool:
        """Whether the last of the arguments is the tuple of results, given by position."""
        if not args or not isinstance(args[-1], tuple) or any(isinstance(a, _PLAIN) for a in args[-1]):
            return False
        entries = self._resolver.store.entries(self.__name__)
        if entries or not self.built_in:
            return any(len(e.outputs) > 1 for e in entries)
        op = get_operator(self.__name__)
        return len(op.workload(**op.example).outputs) > 1

    def _lent(
        self, lent: Borrowed, args: tuple[Any, ...], attributes: dict[str, Any], keywords: Mapping[str, Any]
    ) -> Any:
        """The answer to arrays of another framework, in that framework's."""
        if lent.bits is not None:
            attributes = {**self._element(list(lent.dtypes.values())), **attributes}
        bits = _bits(attributes)
        seen = [_plain(a, lent.dtypes.get(place, ""), bits.values()) for place, a in enumerate(lent.args)]
        if len(seen) > 1 and lent.dtypes.get(len(seen) - 1) == attributes.get("out_dtype"):
            seen[-1] = lent.args[-1]  # the output, if it is one, is written and not read
        result = self(*seen, **attributes, **({"out": returned(lent.outs)} if lent.outs else {}))
        as_they_are = all(a is b for a, b in zip(seen, lent.args, strict=True))
        # Of arrays that numpy has, the table knows by now.
        if lent.bits is not None and as_they_are and self._table is not None:
            answer = self._known.get(_key(seen, attributes))
            if answer is not None and answer.served is not None and answer.served.native:
                self._table.add(args, keywords, answer.served.call)
        results = [np.asarray(a) for a in each_out(result)]
        return returned([lent.give(a, n) for a, n in zip(results, self._names(results, seen, attributes), strict=True)])

    def _element(self, names: Sequence[str]) -> dict[str, str]:
        """The attribute ``dtype`` of a call with arguments of these dtypes, where it needs it: NumPy lacks some."""
        if not self.built_in:
            return {"dtype": next(n for n in names if n in BITS)}
        known = get_operator(self.__name__).dtypes
        dtype = next((n for n in names if n in known), None)
        if dtype is None:
            lacked = next(n for n in names if n in BITS)
            raise UsageError(f"{self.__name__} takes no {lacked}", f"It takes {', '.join(known)}; cast makes them")
        return {"dtype": dtype} if dtype in BITS else {}

    def _names(self, results: Sequence[Array], args: Sequence[Array], attributes: Mapping[str, Any]) -> list[str]:
        """The dtypes of the results of a call, of which some may be the bits of what NumPy lacks."""
        own = [a.dtype.name for a in results]
        if not any(n in own for n in BITS.values()):
            return own
        key = _key(args, attributes)
        answer = self._known.get(key)
        if answer is not None and answer.served is not None:
            told: list[str] | None = [s.dtype for s in answer.served.checked.outputs]
        elif not self.built_in:
            told = None
        elif key in self._named:
            told = self._named[key]
        else:
            workload = self._workload(tuple(args), attributes)
            told = None if workload is None else [s.dtype for s in workload.outputs]
            if len(self._named) < _KEPT:
                self._named[key] = told
        told = told or [str(attributes.get("out_dtype"))] * len(own)
        return [t if BITS.get(t) == n else n for t, n in zip(told, own, strict=True)]

    def _numpy(
        self, answer: Answer, args: tuple[Any, ...], attributes: dict[str, Any], out: Any, keywords: dict[str, Any]
    ) -> Any:
        """numpy's answer of a built-in operator, counted as one without a kernel."""
        direct = None if _own_types(args, attributes) else DIRECT.get(self.__name__)
        if direct is not None and not attributes:
            result = direct(*args, **keywords)
        elif direct is not None and all(self._own().get(k, v) == v for k, v in attributes.items()):
            # What is no attribute of the operator is numpy's (dtype=, casting=), or its error.
            result = direct(*args, **{k: v for k, v in keywords.items() if k not in self._own()})
        else:
            result = self._by_operator(args, attributes, out)
        answer.tally.add()
        return result

    def _own(self) -> Mapping[str, Any]:
        return {k: v for k, v in get_operator(self.__name__).attributes.items() if k not in IMPLICIT}

    def _by_operator(self, args: tuple[Any, ...], attributes: dict[str, Any], out: Any) -> Any:
        op = get_operator(self.__name__)
        arrays = [np.asarray(a) for a in args]
        added = any(map(added_dtype, arrays))
        if added:
            attributes = {**self._element([a.dtype.name for a in arrays]), **attributes}
        # NumPy's forms take the bits of one dtype, and real numbers beside them.
        said, element = _bits(attributes), str(attributes.get("dtype"))
        arrays = [_plain(a, said.get(a.dtype.name, a.dtype.name), (element,)) for a in arrays]
        if op.infer is None or op.numpy is None:
            raise UsageError(f"{self.__name__} cannot be called by arrays alone", f"Use plan({self.__name__!r}, ...)")
        try:
            params = op.infer([a.shape for a in arrays], **attributes)
        except UsageError as wrong:
            if out is not None or len(arrays) < 2:
                raise
            arrays, out = arrays[:-1], args[-1]
            try:
                params = op.infer([a.shape for a in arrays], **attributes)
            except UsageError:
                raise wrong from None
        results = [np.asarray(r) for r in each_out(op.numpy(*arrays, **params))]
        if added:
            results = [
                r.view(np.dtype(n)) for r, n in zip(results, self._names(results, arrays, attributes), strict=True)
            ]
        if out is None:
            auto = attributes.get("out_dtype", "auto") == "auto"
            reals = [a.dtype for a in arrays if a.dtype.kind == "f"]  # indices and lengths have no say
            dtype = np.result_type(*reals) if auto and reals else None
            return returned(
                [r if dtype is None or r.dtype.kind != "f" else r.astype(dtype, copy=False) for r in results]
            )
        for a, r in zip(given_outs(self.__name__, out, len(results)), results, strict=True):
            name = added_dtype(a) or added_dtype(r)
            if name and {a.dtype.name, r.dtype.name} <= {name, BITS[name]}:  # bits, on either side
                a, r = a.view(BITS[name]), r.view(BITS[name])
            np.copyto(a, r, casting="same_kind")
        return out

    def _copied(self, checked: Checked, args: list[Any], out: Any, reason: str) -> Any:
        """A user's operator on arrays whose layout no kernel takes."""
        arrays = [_dense(a, s, checked.align) for a, s in zip(args, checked.inputs, strict=True)]
        result = checked.answer(arrays, None)
        self._resolver.counters.tally(reason).add()
        if out is None:
            return result
        for a, r in zip(each_out(out), each_out(result), strict=True):
            np.copyto(a, r, casting="no")
        return out

    def _unknown(self, args: tuple[Any, ...], attributes: Mapping[str, Any]) -> Exception:
        shown = [f"{a.shape} {a.dtype}" if isinstance(a, np.ndarray) else repr(a) for a in args]
        return self._resolver.not_tuned(self.__name__, shown, attributes)


def _key(args: Sequence[Array], attributes: Mapping[str, Any]) -> Key:
    """What tells calls apart that are answered differently."""
    return (tuple((a.shape, a.dtype) for a in args), tuple(sorted(attributes.items())))


def _bits(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Of which dtype that NumPy lacks whole numbers are the bits: of the one that is given, and bfloat16 beside any."""
    dtype = str(attributes.get("dtype"))
    own = {BITS[dtype]: dtype} if dtype in BITS else {}
    return {BITS["bfloat16"]: "bfloat16", **own} if own or attributes.get("out_dtype") in BITS else {}


def _plain(a: Array, dtype: str, kept: Collection[str]) -> Array:
    """An array of a dtype that NumPy lacks, or its bits: as its bits if the dtype is ``kept``, else as real numbers."""
    if dtype not in BITS:
        return a
    seen = a if a.dtype.name == BITS[dtype] else a.view(BITS[dtype])
    if dtype in kept:
        return seen
    with steady:
        from tilewright.kernels.expression.numerics import decode

    return decode(seen, dtype)


def _own_types(args: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether the operator's result is not what NumPy's function gives: int8 sums, dtypes that NumPy lacks."""
    if attributes.get("dtype") in BITS or any(map(added_dtype, args)):
        return True
    return bool(args) and all(type(a) is np.ndarray and a.dtype == np.int8 for a in args[:2])


def _stands_for(a: Any, spec: TensorSpec) -> bool:
    """Whether an array has the input's shape and dtype, or a number stands for a scalar input."""
    if type(a) is not np.ndarray:
        return spec.shape == ()
    return bool(a.shape == spec.shape and (a.dtype.name == spec.dtype or a.dtype == numpy_dtype(spec.dtype)))


def _dense(a: Any, spec: TensorSpec, align: int) -> Any:
    if not isinstance(a, np.ndarray):
        return a  # a number for a scalar input
    if a.flags.c_contiguous and a.flags.aligned and address(a) % align == 0:
        return a
    copy = empty(spec.shape, numpy_dtype(spec.dtype), max(align, LINE))
    copy[...] = a.view(BITS[spec.dtype]) if added_dtype(a) else a
    return copy
