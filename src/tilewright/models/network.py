"""A runnable model: its tuned groups as sequences of kernels, the remaining nodes in onnxruntime."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.core import Extent, UsageError
from tilewright.extent import Sizes
from tilewright.forking import ForkLock
from tilewright.kernels.expression.expr import BITS
from tilewright.models.computed import Computed, InRuntime, Values, on_device, on_processor
from tilewright.models.coverage import why_left
from tilewright.models.extract import Extracted
from tilewright.models.model_file import Array, operator_name
from tilewright.models.parts import DeviceName, Part, Parts, parts_of, undivided
from tilewright.models.sessions import Session, part_of, reads_of, tensor_value
from tilewright.runtime.slots import BOUND, NO_SIZES
from tilewright.size_ranges import sizes_of

if TYPE_CHECKING:
    from tilewright.measure.comparing import Comparison
    from tilewright.runtime import Library

ALL, GAINING, ALONE = "all kernels", "kernels where they gain", "onnxruntime alone"
"""Forms of a network."""


class Network:
    """A runnable model; ``run(inputs)`` takes arrays by name and returns the model's outputs by name.

    With symbolic sizes the inputs' shapes determine them. Groups with kernels in ``library`` run by these kernels, the
    remaining nodes by onnxruntime on ``threads`` threads. Without a library onnxruntime runs the file as it is.
    ``without``: outputs of groups that are left to onnxruntime although they have kernels. Raises ``UsageError`` where
    onnxruntime is not installed or refuses the model.

    ``device``: a backend's name and a device's number if kernels run on a device. Runs then exclude each other, and
    each waits for the device.

    ``form``: the form of the network. ``why``: the form and the reason for it, in a line. ``comparison``: the measured
    comparison of forms, if there was one. ``untuned``: numbers of the nodes without kernels. ``file``: the file's
    onnxruntime session, if onnxruntime computes the whole model.
    """

    def __init__(
        self, extracted: Extracted, library: Library | None, threads: int = 1, without: Collection[str] = (),
        device: DeviceName | None = None,
    ) -> None:  # fmt: skip
        self.extracted, self.threads, self.device = extracted, threads, device
        self._turn: AbstractContextManager[object] = nullcontext() if device is None else ForkLock()
        self.form = ALONE if library is None else GAINING if without else ALL
        self.why = f"{self.form}, not compared"
        self.comparison: Comparison | None = None
        self._plan: Parts = undivided(extracted) if library is None else parts_of(extracted, library, without, device)
        self._types: dict[str, Any] = {}
        self._by_shapes: dict[tuple[tuple[int, ...], ...], tuple[Sizes, Values]] = {}
        self.file = Session.of_file(extracted.imported.model, threads) if library is None else None
        kernels = self._kernels()
        self.parts: list[tuple[Part, Computed]] = [
            (p, next(kernels) if p.ours else self._session(p)) for p in self._plan.parts
        ]
        self.outputs = extracted.imported.graph.outputs
        self.untuned = frozenset(u.node for p, _ in self.parts for u in p.units if u.group is None)

    def run(self, inputs: Mapping[str, Array], seconds: list[float] | None = None) -> Values:
        """The outputs. ``seconds``: receives the time of every part. Raises ``UsageError`` for inputs that do not
        fit."""
        if self.file is not None and seconds is None:
            return self.file.run(inputs)
        values, folded = self._values(inputs, seconds), self.extracted.imported.folded
        lengths = self.extracted.imported.lengths
        return {
            n: folded[n] if n not in values else values[n].copy() if n in lengths else self._typed_output(n, values[n])
            for n in self.outputs
        }

    def values(self, inputs: Mapping[str, Array]) -> Values:
        """All values that pass between parts, in the form in which kernels and onnxruntime store them."""
        return self._values(inputs, None, True)

    def _values(self, inputs: Mapping[str, Array], seconds: list[float] | None, every: bool = False) -> Values:
        """Runs the parts and returns their results for the host; with ``every`` also the results that stay on a
        device."""
        sizes, lengths = self._sized(inputs)
        values: Values = {**inputs, **lengths}
        with self._turn:
            for _, part in self.parts:
                begin = time.perf_counter()
                values.update(part.run(values, sizes))
                if seconds is not None:
                    seconds.append(time.perf_counter() - begin)
                if every:
                    values.update(part.held(sizes))
        return values

    def sizes_to_try(self, inputs: Mapping[str, Array]) -> list[dict[str, int]]:
        """Sizes for checking a network: the least, one in between and the greatest, or the sizes of ``inputs``.

        Raises ``UsageError`` for inputs that do not fit.
        """
        model = self.extracted.imported.model
        known = _told({n: s for n, s in model.shapes.items() if n in inputs}, inputs)
        shares = (0.0, 0.4, 1.0) if model.symbolic_sizes.keys() - known.keys() else (0.0,)
        every = ({n: e.low + round(s * (e.high - e.low)) for n, e in model.symbolic_sizes.items()} for s in shares)
        return list({tuple(sizes.values()): sizes for sizes in ({**sizes, **known} for sizes in every)}.values())

    def sizes_of(self, inputs: Mapping[str, Array]) -> Sizes:
        """The values of the symbolic sizes. Raises ``UsageError`` for inputs that do not fit."""
        return self._sized(inputs)[0]

    def _sized(self, inputs: Mapping[str, Array]) -> tuple[Sizes, Values]:
        """The values of the symbolic sizes, by the inputs' shapes, and the model's values that follow from them."""
        imported = self.extracted.imported
        if not imported.model.symbolic_sizes:
            return NO_SIZES, {}
        shapes = tuple([inputs[n].shape for n in imported.model.shapes])
        found = self._by_shapes.get(shapes)
        if found is None:
            sizes = _told(imported.model.shapes, inputs)
            found = sizes, {n: v.at(sizes) for n, v in imported.lengths.items()}
            if len(self._by_shapes) >= BOUND:
                self._by_shapes.clear()
            self._by_shapes[shapes] = found
        return found

    def takes(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether the shapes of all inputs fit the model's sizes."""
        own = self.extracted.imported.model.shapes
        return sizes_of((own[n], shape) for n, shape in shapes.items()) is not None

    def _typed_output(self, name: str, value: Any) -> Any:
        """An output in its own type: kernels store bfloat16 and 8-bit reals as integers of the same bits."""
        dtype = self.extracted.imported.graph.values[name].dtype
        return value.view(np.dtype(dtype)) if dtype in BITS and BITS[dtype] == value.dtype.name else value

    def seconds_of(self, part: Part) -> float:
        """The measured seconds of a part's kernels together; 0 for a part without kernels."""
        outputs = (u.group.output for u in part.units if u.group is not None)
        return sum(self._plan.kernels[o].seconds for o in outputs if o in self._plan.kernels)

    @property
    def served(self) -> dict[str, int]:
        """Number of calls of each tuned computation in a run, by its name."""
        kernels = [u.group for p, _ in self.parts for u in p.units if u.group is not None and u.group.family != "view"]
        return dict(Counter(g.name for g in kernels))

    @property
    def left(self) -> dict[str, dict[str, Any]]:
        """The operators that onnxruntime computes, with number of calls and reason."""
        nodes = self.extracted.imported.nodes
        found: dict[str, list[str]] = {}
        for number in (u.node for p, _ in self.parts for u in p.units if u.group is None):
            why = why_left(self.extracted, number, self.untuned)
            found.setdefault(operator_name(nodes[number]), []).append(why)
        return {op: {"calls": len(each), "why": "; ".join(dict.fromkeys(each))} for op, each in found.items()}

    # ----------------------------------------------------------------- parts

    def _kernels(self) -> Iterator[Computed]:
        """The kernel parts, in order."""
        if self.device is None:
            return (on_processor(self.extracted, self._plan, p) for p in self._plan.parts if p.ours)
        return iter(on_device(self.extracted, self._plan))

    def _session(self, part: Part) -> Computed:
        session = self.file or self.session_of([u.node for u in part.units], part.inputs, part.outputs)
        self._types.update(session.types())
        return InRuntime(part.inputs, session)

    def session_of(self, numbers: Iterable[int], inputs: Sequence[str], outputs: Sequence[str]) -> Session:
        """Nodes of the model, by number, as an onnxruntime session. Raises ``UsageError`` where onnxruntime refuses
        them."""
        imported = self.extracted.imported
        nodes = [imported.nodes[n] for n in sorted(numbers)]
        wanted = {x for n in nodes for x in reads_of(n)}
        constants = {n: a for n, a in imported.folded.items() if n in wanted and n not in inputs}
        typed = [self._typed(n) for n in inputs]
        return Session(*part_of(imported.model, nodes, typed, outputs, constants), self.threads)

    def _typed(self, name: str) -> Any:
        """The type of a value that a session reads: the imported type, or the type that the producing session
        reports."""
        imported = self.extracted.imported
        if name in imported.unshaped:
            return self._types[name]
        if name in imported.lengths:
            lengths = imported.lengths[name]
            return tensor_value(name, lengths.dtype, lengths.values.shape)
        spec = imported.graph.values[name]
        return tensor_value(name, spec.dtype, [None if isinstance(n, Extent) else n for n in spec.shape])


def _told(shapes: Mapping[str, tuple[int, ...]], inputs: Mapping[str, Array]) -> Sizes:
    """The sizes that the inputs' shapes determine. Raises ``UsageError`` for shapes that do not fit."""
    found = sizes_of((s, inputs[n].shape) for n, s in shapes.items())
    if found is None:
        raise misfit({n: inputs[n].shape for n in shapes}, shapes)
    return found


def misfit(given: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]) -> UsageError:
    """The error for inputs whose shapes do not fit a model with symbolic sizes."""
    known: dict[str, int] = {}
    for name, shape in shapes.items():
        if len(shape) != len(given[name]):
            return UsageError(
                f"the input {name} has {len(given[name])} axes, and {len(shape)} in the model",
                f"Give an array of {'x'.join(map(repr, shape))}",
            )
        for place, (n, size) in enumerate(zip(shape, given[name], strict=True)):
            what = f"axis {place} of the input {name} has {size} elements"
            if not isinstance(n, Extent):
                if n != size:
                    return UsageError(f"{what}, and {n} in the model", f"Give an array of {'x'.join(map(repr, shape))}")
            elif not n.takes(size):
                return UsageError(f"{what}, outside of {n!r}", "Give a size of that range, or open the model for more")
            elif known.setdefault(n.name, size) != size:
                return UsageError(
                    f"{what}, and another axis of the size {n.name} has {known[n.name]}", "Give both the same size"
                )
    return UsageError("the inputs do not fit the model", "Give an array for each")
