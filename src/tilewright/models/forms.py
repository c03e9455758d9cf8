"""The forms in which a model can run, and the choice of the fastest, measured on drawn inputs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tilewright.backends import get_backend
from tilewright.backends.driver import OutOfMemory
from tilewright.core import UsageError
from tilewright.graph import named_last
from tilewright.measure import comparing
from tilewright.models.coverage import NOT_TUNED, NOTHING_TO_TUNE
from tilewright.models.extract import Extracted
from tilewright.models.inputs import random_inputs
from tilewright.models.model_file import Array
from tilewright.models.network import ALL, ALONE, GAINING, Network
from tilewright.models.parts import DeviceName, Part, own_name
from tilewright.models.sessions import reads_of

if TYPE_CHECKING:
    from tilewright.runtime import Library

BUDGET = 1.0
"""Seconds for timing whole forms, and for timing parts; beyond it there are fewer rounds, or fewer parts timed."""
ROUNDS = 3
"""Rounds in which a part's kernels and onnxruntime are timed alternately."""
CUT = 50e-6
"""Least saving of a kernel part, in seconds a run.

A cut costs one more onnxruntime call, and onnxruntime keeps its layouts and fusions only within its own parts.
"""


def fastest(
    extracted: Extracted,
    library: Library,
    threads: int = 1,
    compare: bool = True,
    given: Mapping[str, Array] | None = None,
    device: DeviceName | None = None,
) -> Network:
    """The network in its fastest form: with all kernels of ``library``, with the kernels that gain, or with onnxruntime
    alone.

    Without kernels onnxruntime computes the network. ``device``: the device that runs the kernels; the processor by
    default.

    The forms are timed alternately on inputs that are drawn, except for those ``given``. With symbolic sizes they are
    timed at the least and the greatest sizes. The outcome is the network's ``comparison``.

    All kernels are kept without a comparison if inputs cannot be drawn, if onnxruntime cannot run the file, or without
    ``compare``. onnxruntime's form is kept if onnxruntime refuses a part of the model. ``why`` says which. Raises
    ``UsageError`` as :class:`Network` does.
    """
    try:
        every = Network(extracted, library, threads, device=device)
    except UsageError as e:  # onnxruntime refuses some nodes when they are cut from the rest
        alone = Network(extracted, None, threads)
        alone.why = f"{ALONE}, for parts of the model cannot be run: {e.message}"
        return alone
    if device is not None and every.served and get_backend(device[0]).emulated:
        every.why, compare = f"{ALL}, not compared, for the emulator's times mean nothing", False
    if every.served and not compare:
        return every
    try:
        alone = Network(extracted, None, threads)
        if not every.served:
            untuned = NOT_TUNED if extracted.tasks else NOTHING_TO_TUNE
            alone.why = f"{ALONE}: {_elsewhere(extracted, library, device) or untuned}"
            return alone
        tried = every.sizes_to_try(given or {})
        ends = [tried[0], tried[-1]][: len(tried)]
        drawn = [random_inputs(extracted.imported, given=given, sizes=s) for s in ends]
        forms = {ALL: every, ALONE: alone}
        some = _gaining(every, library, drawn[-1])
        if some is not None:
            forms = {ALL: every, GAINING: some, ALONE: alone}
        outcome = comparing.compared(_times(forms, drawn))
    except UsageError as e:
        every.why = f"{ALL}, for the forms cannot be compared: {e.message}"
        return every
    kept = forms[outcome.kept]
    kept.comparison, kept.why, kept.untuned = outcome, str(outcome), every.untuned
    return kept


def _times(forms: Mapping[str, Network], drawn: Sequence[Mapping[str, Array]]) -> comparing.Samples:
    """Seconds of a run of each form in each round: the geometric mean over inputs of several sizes."""
    runs = [{name: _call(f, inputs) for name, f in forms.items()} for inputs in drawn]
    threads = max(f.threads for f in forms.values())
    found = [comparing.in_turns(r, budget=BUDGET / len(runs), threads=threads) for r in runs]
    rounds = {name: zip(*(f[name] for f in found), strict=False) for name in forms}
    return {name: [math.prod(each) ** (1 / len(each)) for each in r] for name, r in rounds.items()}


def _call(form: Network, inputs: Mapping[str, Array]) -> Callable[[], object]:
    """A call of a form as :class:`~.inference_session.InferenceSession` makes it; onnxruntime's session is called
    directly if it can be."""
    if form.file is not None and form.file.at_once(None, inputs) is not None:
        return partial(form.file.at_once, None, inputs)
    return partial(form.run, inputs)


def _gaining(network: Network, library: Library, inputs: Mapping[str, Array]) -> Network | None:
    """The network with only the kernel parts that are faster than onnxruntime on the same nodes.

    ``None`` if all parts or no parts gain, and if there is one part. Parts are timed longest first; parts beyond the
    time budget are left to onnxruntime.
    """
    ours = [(p, run) for p, run in network.parts if network.seconds_of(p)]
    if len(ours) < 2:
        return None
    values, sizes = network.values(inputs), network.sizes_of(inputs)
    until = time.monotonic() + BUDGET
    lost: list[Part] = []
    for part, run in sorted(ours, key=lambda p: -network.seconds_of(p[0])):
        kernels = partial(run.alone, values, sizes)
        if time.monotonic() >= until or not _gains(network, part, kernels, values):
            lost.append(part)
    groups = [u.group for p in lost for u in p.units if u.group is not None]
    without = {own_name(g.output) for g in groups if g not in network.extracted.channels.moves}
    if not without or len(lost) == len(ours):
        return None
    try:
        return Network(network.extracted, library, network.threads, without, network.device)
    except OutOfMemory:  # no room next to the network with all kernels
        return None


def _elsewhere(extracted: Extracted, library: Library, device: DeviceName | None) -> str:
    """Names of other targets for which the model's tasks were tuned, in a sentence; empty without any."""
    return next(filter(None, (library.resolver.elsewhere(t.workload, device) for t in extracted.tasks)), "")


def _gains(network: Network, part: Part, kernels: Callable[[], object], values: Mapping[str, Array]) -> bool:
    """Whether a part's kernels save more time than a cut costs, compared with onnxruntime on the same nodes.

    True where no onnxruntime session for these nodes can be made.
    """
    imported = network.extracted.imported
    given = {own_name(n) for n in part.inputs} | {s.name for s in imported.graph.inputs} | {*imported.lengths}
    outputs = list(dict.fromkeys(own_name(n) for n in part.outputs))
    numbers, reads, waiting = set[int](), set[str](), list(outputs)
    while waiting:
        name = waiting.pop()
        if name in given:
            reads.add(name)
        elif name not in imported.folded:
            number = imported.producer.get(name)
            if number is None:  # the importer added this value
                return True
            if number not in numbers:
                numbers.add(number)
                node = imported.nodes[number]
                waiting += reads_of(node)
    try:
        session = network.session_of(numbers, sorted(reads), outputs)
        theirs = partial(session.run, {n: _own(values, n) for n in reads})
        samples = comparing.in_turns(
            {ALL: kernels, ALONE: theirs}, rounds=ROUNDS, budget=BUDGET, threads=network.threads
        )
    except UsageError:
        return True
    return statistics.median(b - a for a, b in zip(samples[ALL], samples[ALONE], strict=True)) > CUT


def _own(values: Mapping[str, Array], name: str) -> Array:
    """A value in the model's own layout."""
    return values[name] if name in values else np.ascontiguousarray(np.moveaxis(values[named_last(name)], -1, 1))
