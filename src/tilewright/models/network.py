"""A model that runs: its tuned groups as sequences of kernels, the rest in onnxruntime."""

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
    """``run(inputs)``: arrays by name, to the model's outputs by name.

    Where the model's axes stay open the inputs say their sizes. What has kernels in ``library`` is computed by them,
    the rest by onnxruntime on ``threads`` threads; without a library onnxruntime runs the file as it is. ``without``:
    outputs whose groups are left to onnxruntime all the same. Raises ``UsageError`` where onnxruntime is not installed
    or refuses the model.

    ``device``: a backend's name and a device's number, where kernels run there and not on the processor; runs then take
    turns, and each waits for the device.

    ``form``: which of the model's forms it is; ``why``: the same in a line, with what speaks for it. ``comparison``:
    with the other forms, where this one was chosen among them. ``untuned``: numbers of the nodes without kernels.
    ``file``: the file in onnxruntime, where it computes all.
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
        """The outputs. ``seconds``: takes the time of every part. Raises ``UsageError`` for inputs that do not fit."""
        if self.file is not None and seconds is None:
            return self.file.run(inputs)
        values, folded = self._values(inputs, seconds), self.extracted.imported.folded
        lengths = self.extracted.imported.lengths
        return {
            n: folded[n] if n not in values else values[n].copy() if n in lengths else self._typed_output(n, values[n])
            for n in self.outputs
        }

    def values(self, inputs: Mapping[str, Array]) -> Values:
        """Everything that passes from part to part, as kernels and onnxruntime store it."""
        return self._values(inputs, None, True)

    def _values(self, inputs: Mapping[str, Array], seconds: list[float] | None, every: bool = False) -> Values:
        """What parts give to the host; ``every``: and what stays on a device."""
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
        """Sizes that show whether a network is right: the least, some between and the greatest, or those of inputs.

        Raises ``UsageError`` for inputs that do not fit.
        """
        model = self.extracted.imported.model
        known = _told({n: s for n, s in model.shapes.items() if n in inputs}, inputs)
        shares = (0.0, 0.4, 1.0) if model.open_sizes.keys() - known.keys() else (0.0,)
        every = ({n: e.low + round(s * (e.high - e.low)) for n, e in model.open_sizes.items()} for s in shares)
        return list({tuple(sizes.values()): sizes for sizes in ({**sizes, **known} for sizes in every)}.values())

    def sizes_of(self, inputs: Mapping[str, Array]) -> Sizes:
        """The sizes of the open axes. Raises ``UsageError`` for inputs that do not fit."""
        return self._sized(inputs)[0]

    def _sized(self, inputs: Mapping[str, Array]) -> tuple[Sizes, Values]:
        """The sizes of the open axes, and the values that follow from them, by the inputs' shapes."""
        imported = self.extracted.imported
        if not imported.model.open_sizes:
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
        """Whether inputs of these shapes, all of them, are of its sizes."""
        own = self.extracted.imported.model.shapes
        return sizes_of((own[n], shape) for n, shape in shapes.items()) is not None

    def _typed_output(self, name: str, value: Any) -> Any:
        """Kernels store bfloat16 and 8-bit reals as the whole numbers of their bits."""
        dtype = self.extracted.imported.graph.values[name].dtype
        return value.view(np.dtype(dtype)) if dtype in BITS and BITS[dtype] == value.dtype.name else value

    def seconds_of(self, part: Part) -> float:
        """The measured seconds of a part's kernels together; 0 for a part without kernels."""
        outputs = (u.group.output for u in part.units if u.group is not None)
        return sum(self._plan.kernels[o].seconds for o in outputs if o in self._plan.kernels)

    @property
    def served(self) -> dict[str, int]:
        """How often each tuned computation is called in a run, by its name."""
        kernels = [u.group for p, _ in self.parts for u in p.units if u.group is not None and u.group.family != "view"]
        return dict(Counter(g.name for g in kernels))

    @property
    def left(self) -> dict[str, dict[str, Any]]:
        """The operators that onnxruntime computes: how often, and why."""
        nodes = self.extracted.imported.nodes
        found: dict[str, list[str]] = {}
        for number in (u.node for p, _ in self.parts for u in p.units if u.group is None):
            why = why_left(self.extracted, number, self.untuned)
            found.setdefault(operator_name(nodes[number]), []).append(why)
        return {op: {"calls": len(each), "why": "; ".join(dict.fromkeys(each))} for op, each in found.items()}

    # ----------------------------------------------------------------- parts

    def _kernels(self) -> Iterator[Computed]:
        """The parts of ours, in order."""
        if self.device is None:
            return (on_processor(self.extracted, self._plan, p) for p in self._plan.parts if p.ours)
        return iter(on_device(self.extracted, self._plan))

    def _session(self, part: Part) -> Computed:
        session = self.file or self.session_of([u.node for u in part.units], part.inputs, part.outputs)
        self._types.update(session.types())
        return InRuntime(part.inputs, session)

    def session_of(self, numbers: Iterable[int], inputs: Sequence[str], outputs: Sequence[str]) -> Session:
        """Nodes of the model, by number, in onnxruntime. Raises ``UsageError`` where it refuses them."""
        imported = self.extracted.imported
        nodes = [imported.nodes[n] for n in sorted(numbers)]
        wanted = {x for n in nodes for x in reads_of(n)}
        constants = {n: a for n, a in imported.folded.items() if n in wanted and n not in inputs}
        typed = [self._typed(n) for n in inputs]
        return Session(*part_of(imported.model, nodes, typed, outputs, constants), self.threads)

    def _typed(self, name: str) -> Any:
        """The type of a value that a session reads: known, or as the session that gives it says."""
        imported = self.extracted.imported
        if name in imported.unshaped:
            return self._types[name]
        if name in imported.lengths:
            lengths = imported.lengths[name]
            return tensor_value(name, lengths.dtype, lengths.values.shape)
        spec = imported.graph.values[name]
        return tensor_value(name, spec.dtype, [None if isinstance(n, Extent) else n for n in spec.shape])


def _told(shapes: Mapping[str, tuple[int, ...]], inputs: Mapping[str, Array]) -> Sizes:
    """The sizes that inputs of these shapes have."""
    found = sizes_of((s, inputs[n].shape) for n, s in shapes.items())
    if found is None:
        raise misfit({n: inputs[n].shape for n in shapes}, shapes)
    return found


def misfit(given: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]) -> UsageError:
    """The error of inputs whose shapes are none of a model's, of which some axes are open."""
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
