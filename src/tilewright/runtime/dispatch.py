"""``library.matmul(a, b)``: finds the kernel for the arrays' shapes.

A table in C answers calls of kinds that were seen before. Other calls come to a :class:`Dispatch`, which resolves them
once and adds them to the table. The rules:

- a tuned kernel (or a compiled default kernel) for these shapes, dtypes and attributes answers;
- a built-in operator without a kernel, or with arrays whose layout no kernel takes, goes to NumPy;
- complex arrays are answered by the kernel of an operator on pairs of reals, if there is one;
- a user's operator has no NumPy function: arrays of other layouts are copied into dense arrays;
- a kernel that fits the shapes, but not the arrays' dtype, type or layout, is mentioned once in a warning.
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
from tilewright.kernels.parameters import canonical_value
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

_KEPT = 4096  # kinds of calls; beyond, all are cleared and looked up again
_COPIED = ("strides", "alignment", "overlap")  # misfits that a dense copy solves
_PLAIN = (bool, int, float, str, type(None))


class Dispatch:
    """Answers ``name(*arrays, out=None, **attributes)`` for calls that the table in C (:meth:`behind`) does not know.

    Before there is a table, ``upgrade`` is called as soon as one is useful.
    """

    def __init__(self, name: str, resolver: Resolver, built_in: bool, upgrade: Callable[[], None]) -> None:
        self.__name__ = self.__qualname__ = name
        # inspect.signature reads a builtin's signature from a first line of this form.
        self.__doc__ = f"{name}(*arrays, out=None, **attributes)\n--\n\nSee tilewright.Library."
        self.built_in = built_in
        self._resolver = resolver
        self._on_device = DeviceCalls(name, resolver, built_in)
        self._known: dict[Key, Answer] = {}
        self._lock = ForkLock()
        self._generation = 0  # generation of the kernels in _known
        self._said: set[str] = set()  # reasons that were warned of
        self._looked: set[Key] = set()  # kinds of calls for which near() found no kernel
        self._named: dict[Key, list[str] | None] = {}  # results' dtypes of calls without a kernel
        self._table: Table | None = None
        self._upgrade = upgrade

    def behind(self, builtins: Builtins) -> Callable[..., Any]:
        """A C builtin that looks calls up in a table and falls back on this object."""
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
        attributes = {k: canonical_value(v) for k, v in keywords.items() if k != "out"}
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
        """A kernel's answer. Arrays of a layout that it does not take go to NumPy, or are copied for a user's
        operator."""
        arrays, checked = list(args), served.checked
        assert isinstance(checked, Checked)  # NumPy's arrays are in host memory
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
        """The answer for complex arrays by a kernel on pairs of reals. Raises ``Misfit``."""
        kind = arrays[0].dtype
        if out is not None and getattr(out, "dtype", None) != kind:
            raise Misfit("dtype", f"{self.__name__}: out is not an array of {kind}")
        made = checked.answer([as_pairs(a) for a in arrays], None if out is None else as_pairs(out))
        return made.view(kind)[..., 0] if out is None else out

    # ----------------------------------------------------------------------- finding an answer

    def renew(self) -> None:
        """Clears all answers, while the caller blocks calls of this operator.

        Looks up and loads the kernels for all kinds of calls made so far first. Raises ``TilewrightError``, and clears
        nothing, where that fails.
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
        """The answer for a kind of call: a kernel, or else NumPy."""
        self._resolver.require_open()
        of_pairs = complex_workload(self.__name__, args[:2], attributes)
        if of_pairs is not None:
            return self._resolver.find(of_pairs)
        kinds = [(a.shape, a.dtype) for a in args]
        served = self._tuned(kinds, attributes)
        if served is None and out is None and len(args) > 1:
            served = self._tuned(kinds[:-1], attributes)  # the last array may be the output
            if served is not None and len(served.checked.inputs) != len(args) - 1:
                served = None
        if served is not None:
            return Answer.of(served)
        if not self.built_in:
            raise self._unknown(args, attributes)
        reason = self._why_not(args)
        workload = self._workload(args, attributes) if reason == "untuned" else None
        found = self._resolver.passed(reason) if workload is None else self._resolver.find(workload)
        if found.served is None:  # otherwise found under another operator's name, or a default
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
        """The built-in operator's workload for these arrays; ``None`` without one."""
        op = get_operator(self.__name__)
        if op.infer is None or not args:
            return None
        try:
            params = op.infer([a.shape for a in args], **{"dtype": args[0].dtype.name, **attributes})
            return op.workload(**params)
        except UsageError:  # numpy names the error, or handles batches
            return None

    def _tell(self, answer: Answer, args: tuple[Array, ...], keywords: Mapping[str, Any]) -> None:
        """Adds the answer for this kind of call to the table in C, where the table can give it."""
        if not all(isinstance(v, (*_PLAIN, tuple)) for k, v in keywords.items() if k != "out"):
            return  # the table compares values by address, and a list's elements may change
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

    # ----------------------------------------------------------------------- warnings of missed kernels

    def _say(self, reason: str, message: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            warn(message)

    def _say_near(self, reason: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Warns if a kernel is tuned for these shapes with other dtypes or layouts."""
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

    # ----------------------------------------------------------------------- answers without a kernel's own arrays

    def _strange(self, args: tuple[Any, ...], attributes: dict[str, Any], out: Any, keywords: dict[str, Any]) -> Any:
        """Answers calls whose arguments are not all plain arrays; numpy may accept them."""
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
        """Whether the last argument is a tuple of results, given by position."""
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
        """The answer for arrays of another framework, as arrays of that framework."""
        if lent.bits is not None:
            attributes = {**self._element(list(lent.dtypes.values())), **attributes}
        bits = _bits(attributes)
        seen = [_plain(a, lent.dtypes.get(place, ""), bits.values()) for place, a in enumerate(lent.args)]
        if len(seen) > 1 and lent.dtypes.get(len(seen) - 1) == attributes.get("out_dtype"):
            seen[-1] = lent.args[-1]  # an output is written, not read
        result = self(*seen, **attributes, **({"out": returned(lent.outs)} if lent.outs else {}))
        as_they_are = all(a is b for a, b in zip(seen, lent.args, strict=True))
        # The recursive call has already added arrays of NumPy's dtypes to the table.
        if lent.bits is not None and as_they_are and self._table is not None:
            answer = self._known.get(_key(seen, attributes))
            if answer is not None and answer.served is not None and answer.served.native:
                self._table.add(args, keywords, answer.served.call)
        results = [np.asarray(a) for a in each_out(result)]
        return returned([lent.give(a, n) for a, n in zip(results, self._names(results, seen, attributes), strict=True)])

    def _element(self, names: Sequence[str]) -> dict[str, str]:
        """The attribute ``dtype`` for arguments of these dtypes, where they include a dtype that NumPy lacks."""
        if not self.built_in:
            return {"dtype": next(n for n in names if n in BITS)}
        known = get_operator(self.__name__).dtypes
        dtype = next((n for n in names if n in known), None)
        if dtype is None:
            lacked = next(n for n in names if n in BITS)
            raise UsageError(f"{self.__name__} takes no {lacked}", f"It takes {', '.join(known)}; cast makes them")
        return {"dtype": dtype} if dtype in BITS else {}

    def _names(self, results: Sequence[Array], args: Sequence[Array], attributes: Mapping[str, Any]) -> list[str]:
        """The dtypes of a call's results, where an integer result may hold the bits of a dtype that NumPy lacks."""
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
        """NumPy's answer of a built-in operator, counted as a call without a kernel."""
        direct = None if _own_types(args, attributes) else DIRECT.get(self.__name__)
        if direct is not None and not attributes:
            result = direct(*args, **keywords)
        elif direct is not None and all(self._own().get(k, v) == v for k, v in attributes.items()):
            # Unknown attributes are numpy's arguments (dtype=, casting=), or numpy reports them.
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
        # NumPy's implementations take bits of one dtype, and real numbers otherwise.
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
            reals = [a.dtype for a in arrays if a.dtype.kind == "f"]  # indices and lengths do not count
            dtype = np.result_type(*reals) if auto and reals else None
            return returned(
                [r if dtype is None or r.dtype.kind != "f" else r.astype(dtype, copy=False) for r in results]
            )
        for a, r in zip(given_outs(self.__name__, out, len(results)), results, strict=True):
            name = added_dtype(a) or added_dtype(r)
            if name and {a.dtype.name, r.dtype.name} <= {name, BITS[name]}:  # bits of one dtype
                a, r = a.view(BITS[name]), r.view(BITS[name])
            np.copyto(a, r, casting="same_kind")
        return out

    def _copied(self, checked: Checked, args: list[Any], out: Any, reason: str) -> Any:
        """A user's operator on dense copies of arrays whose layout no kernel takes."""
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
    """The key of a kind of call."""
    return (tuple((a.shape, a.dtype) for a in args), tuple(sorted(attributes.items())))


def _bits(attributes: Mapping[str, Any]) -> dict[str, str]:
    """For integer dtypes, the dtype that NumPy lacks whose bits they hold: the attribute's dtype, and bfloat16."""
    dtype = str(attributes.get("dtype"))
    own = {BITS[dtype]: dtype} if dtype in BITS else {}
    return {BITS["bfloat16"]: "bfloat16", **own} if own or attributes.get("out_dtype") in BITS else {}


def _plain(a: Array, dtype: str, kept: Collection[str]) -> Array:
    """An array of a dtype that NumPy lacks, or of its bits: as bits if the dtype is ``kept``, else as real numbers."""
    if dtype not in BITS:
        return a
    seen = a if a.dtype.name == BITS[dtype] else a.view(BITS[dtype])
    if dtype in kept:
        return seen
    with steady:
        from tilewright.kernels.expression.numerics import decode

    return decode(seen, dtype)


def _own_types(args: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether the operator's result type differs from NumPy's: int8 sums, dtypes that NumPy lacks."""
    if attributes.get("dtype") in BITS or any(map(added_dtype, args)):
        return True
    return bool(args) and all(type(a) is np.ndarray and a.dtype == np.int8 for a in args[:2])


def _stands_for(a: Any, spec: TensorSpec) -> bool:
    """Whether an array has the input's shape and dtype, or a number is given for a scalar input."""
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
