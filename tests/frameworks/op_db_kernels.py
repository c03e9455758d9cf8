"""PyTorch's own samples (``op_db``), in several forms, and their answers by compiled kernels beside eager's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from functorch.compile import aot_function, make_boxed_func

from harness.default_kernels import built_defaults
from tilewright.runtime import Library
from tilewright.torch import placing
from tilewright.torch.backend import place, prepared
from tilewright.torch.decompositions import decompositions
from tilewright.torch.layouts import uncover

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations

op_db = common_methods_invocations.op_db
KINDS = ("float32", "float64", "int64", "bool", "float16", "bfloat16", "int32", "int16", "int8", "uint8")
LARGEST = 20_000
"""Elements of a sample's tensors."""
leaves_of = torch.utils._pytree.tree_flatten
Tensors = list[Any]


@dataclass(frozen=True)
class Sample:
    """A call of an operator: ``call`` is a function of ``tensors`` that gives tensors."""

    name: str
    how: str
    call: Callable[..., Tensors]
    tensors: Tensors

    def on(self, device: str) -> Sample:
        """The same with its tensors on a device, where they lie as they do here."""
        return replace(self, tensors=[kept(t, device) for t in self.tensors])

    def __str__(self) -> str:
        shown = ", ".join(f"{tuple(t.shape)}/{t.stride()} {t.dtype}" for t in self.tensors)
        return f"{self.name} {self.how} of {shown}"


def _plain(t: Any) -> Any:
    return t


def _turned(t: Any) -> Any:
    """The same elements with the axes in the opposite order in memory, and every second place left out."""
    if not t.ndim:
        return t
    wide = t.new_empty((*reversed(t.shape), 2))[..., 1].permute(*reversed(range(t.ndim)))
    return wide.copy_(t)


def _offset(t: Any) -> Any:
    """The same elements in the midst of other memory, at an address that no vector is aligned to."""
    memory = t.new_zeros(t.numel() + 7)
    return memory[3 : 3 + t.numel()].view(t.shape).copy_(t)


def _stretched(t: Any) -> Any:
    """The first element along the first axis in the place of all."""
    return t[:1].clone().expand(t.shape) if t.ndim and t.shape[0] else t


def _special(t: Any, large: bool = False) -> Any:
    """What is no number and values in the middle between two whole ones among the others; ``large``: ends of the type."""
    if t.dtype is torch.bool or not t.numel():
        return t
    if t.dtype.is_floating_point:
        odd, i = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, -1.5], torch.finfo(t.dtype)
        odd += [i.max, i.min, i.tiny, i.max / 2] if large else []
    elif not large:
        odd = [0, 1, 7, 100]
    else:
        j = torch.iinfo(t.dtype)
        odd = [j.max, j.min, 0, 1, j.min + 1, j.max - 1]
    made, numbers = t.clone(memory_format=torch.contiguous_format), torch.tensor(odd, dtype=t.dtype)
    flat = made.view(-1)
    places = torch.arange(0, len(flat), 2)
    flat[places] = numbers[torch.arange(len(places)) % len(odd)]
    return made


EXTREME = "extreme"
FORMS: dict[str, Callable[[Any], Any]] = {
    "as given": _plain, "turned": _turned, "offset": _offset, "stretched": _stretched, "special": _special,
    EXTREME: lambda t: _special(t, large=True),
}  # fmt: skip
"""How the tensors of a sample lie, and what they hold."""


CRASHES = ("lcm", "gcd", "linalg.eigvals")
"""Operators of PyTorch that end the process for NaN or for a type's least number."""


EAGER: dict[str, tuple[str, ...]] = {
    **{f"nn.functional.conv{t}{d}d": ("special",) for t in ("", "_transpose") for d in (1, 2, 3)},  # skips the padding
    "nn.functional.instance_norm": ("special",),  # scales and shifts by one factor and one number
    **dict.fromkeys(("var_mean", "std_mean"), ("special",)),  # the mean of a row with an infinity is NaN
    "nn.functional.gelu": ("special",),  # NaN at infinity
    **dict.fromkeys(("abs", "nn.functional.softsign"), (EXTREME,)),  # of uint8 vectors those of int8
    "nn.functional.hardswish": (EXTREME,),  # overflows before it divides
    **dict.fromkeys(("cross", "linalg.cross"), (EXTREME,)),  # rounds each product
    "native_group_norm": ("stretched",),  # reads weights as if they were dense
    **dict.fromkeys(("svd_lowrank", "pca_lowrank"), tuple(FORMS)),  # one of several answers
}
"""Forms in which eager is no measure, by operator."""
COARSE = ("nn.functional.grid_sample", "grid_sampler_2d", "grid_sampler_3d")
"""Operators that eager computes wholly in 16 bits, and on NaN as the instructions at hand do."""


def name_of(info: Any) -> str:
    """An operator's name, with its variant's."""
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def samples(info: Any, kind: str, most: int, seed: int = 0, forms: Iterable[str] = FORMS) -> Iterator[Sample]:
    """About ``most`` samples in each form, evenly over all that there are; ``seed`` says which."""
    dtype = getattr(torch, kind)
    if dtype not in info.dtypes:
        return
    torch.manual_seed(0)
    found = []
    for given in islice(info.sample_inputs_func(info, "cpu", dtype, False), 400):
        leaves, spec = leaves_of(((given.input, *given.args), given.kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        plain = all(t.layout is torch.strided and not t.is_complex() and t.numel() <= LARGEST for t in tensors)
        if tensors and plain:
            found.append((called(info, leaves, spec), tensors))
    for form, how in enumerate(forms):
        coarse = info.name in COARSE and (how in ("special", EXTREME) or dtype.itemsize == 2)
        if how in EAGER.get(info.name, ()) or coarse or (info.name in CRASHES and how in ("special", EXTREME)):
            continue
        step = max(1, len(found) // most)
        for n in range((seed + form) % step, len(found), step):
            call, tensors = found[n]
            try:
                made = [FORMS[how](t) if t.dtype is dtype else t for t in tensors]
            except (RuntimeError, TypeError):  # of zeros and quantised numbers there is no such form
                continue
            yield Sample(name_of(info), f"sample {n} {how}", call, made)


def called(info: Any, leaves: Sequence[Any], spec: Any) -> Callable[..., Tensors]:
    """The operator as a function of its tensors that gives a list of tensors."""

    def call(*tensors: Any) -> Tensors:
        rest = iter(tensors)
        given = [next(rest) if isinstance(x, torch.Tensor) else x for x in leaves]
        args, kwargs = torch.utils._pytree.tree_unflatten(given, spec)
        return [t for t in leaves_of(info(*args, **kwargs))[0] if isinstance(t, torch.Tensor)]

    return call


class Traced:
    """A sample as ``torch.compile`` hands its graphs over: functional, of ATen's operators that a handler knows."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.graph: Any = None
        self.reduces = False
        self._run: Callable[..., Any] | None = None

        def compiled(graph: Any, _: Any) -> Any:
            self.graph, self._run = graph, graph.forward
            return make_boxed_func(self._answer)

        table: Any = decompositions()
        self._call = aot_function(
            sample.call, fw_compiler=compiled, decompositions=table, keep_inference_input_mutations=True
        )

    def _answer(self, *tensors: Any) -> Any:
        assert self._run is not None
        return self._run(*tensors)

    def __call__(self) -> Tensors:
        return run(self._call, self.sample)

    def place(self, find: Any) -> bool:
        """Put kernels where ``find`` has some; whether it has."""
        kernels = place(self.graph, find)
        if kernels is not None:
            placed = self.graph.forward
            self._run = lambda *tensors: placed(kernels.graph, *tensors)
        return kernels is not None

    def asks(self) -> dict[str, Any]:
        """Workloads that kernels could be placed for, in both layouts, by key."""
        asked: dict[str, Any] = {}
        found, covers = prepared(self.graph, lambda w, _: asked.update({w.key: w}), frozenset(), False, False)
        if found is not None:
            channels = found.channels
            self.reduces = any(g.family not in ("elementwise", "view", "opaque") for g in channels.groups)
            moves = (channels.last, channels.to_last, channels.to_first)
            for group in (*channels.groups, *(g for groups in moves for g in groups.values())):
                found.seconds(group)
        uncover(self.graph, covers)
        return asked


def run(call: Callable[..., Tensors], sample: Sample) -> Tensors:
    """What a function gives for copies of a sample's tensors that lie as they do, and what it leaves in these."""
    given = [kept(t) for t in sample.tensors]
    torch.manual_seed(0)
    with torch.no_grad():
        return [*call(*given), *given]


@dataclass
class Report:
    """What became of an operator's samples."""

    samples: int = 0
    placed: int = 0
    kernels: int = 0
    wrong: list[str] = field(default_factory=list)


class Compiled:
    """Samples with every part that we know computed by a kernel of the default schedule. ``folder``: for databases.
    ``target``: of the kernels; ``device``: of PyTorch, where they run."""

    def __init__(self, folder: Path, target: str = "auto", device: str = "cpu") -> None:
        self.folder, self._made = folder, 0
        self.target, self.device = target, device

    @patch.object(placing, "WORTH", 0)  # also where copying around a kernel does not pay
    def run(self, chosen: Iterable[Sample]) -> Report:
        """Compile what all samples need at once, then run each."""
        report, graphs, asked = Report(), [], {}
        for sample in chosen:
            try:
                wanted = run(sample.call, sample)
                traced = Traced(sample.on(self.device))
                compiled = here(traced())
            except Exception:  # eager refuses what was made of the sample, or PyTorch makes no graph of it
                continue
            if traced.graph is None:
                continue
            report.samples += 1
            try:
                needs = traced.asks()
            except Exception as e:
                report.wrong.append(f"{sample}: reading raises {told(e)}")
                continue
            if sample.how.endswith(EXTREME) and traced.reduces:  # when sums overflow is their order's to say
                continue
            asked |= needs
            graphs.append((traced, wanted, compiled))
        self._made += 1
        path = self.folder / f"{self._made}.db"
        if asked:
            report.wrong += [r for r in built_defaults(asked.values(), path, self.target) if "took more than" not in r]
        report.kernels = len(asked)
        with Library(path, missing_ok=True, watch=False, threads=1) as library:

            def find(workload: Any, device: Any) -> Any:
                found = library.resolver.find(workload, device).served
                return found if found is not None and (found.kernel or found.on_device) else None

            for traced, *right in graphs:
                try:
                    if traced.place(find):
                        report.placed += 1
                        for _ in range(2):  # C++ answers the second call
                            compare(here(traced()), right)
                except Exception as e:
                    report.wrong.append(f"{traced.sample}: {told(e)}")
        return report


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]


def kept(t: Any, device: Any = None) -> Any:
    """A copy that lies as the tensor does in memory of its own: what an operator writes leaves the sample alone."""
    device = t.device if device is None else torch.device(device)
    everything = t.new_empty(0).set_(t.untyped_storage()).to(device, copy=True)
    return everything.set_(everything.untyped_storage(), t.storage_offset(), t.shape, t.stride())


def here(tensors: Tensors) -> Tensors:
    """The same in the processor's memory."""
    return [t.cpu() for t in tensors]


CLOSE = {"float64": 1e-7, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Shares of a number, and of its tensor's largest, by which it may be wrong; what is whole is never wrong."""


def compare(got: Tensors, right: list[Tensors]) -> None:
    """Raises ``AssertionError`` where something is neither what eager gives nor what PyTorch's own graph does.

    Where a graph draws numbers at random or takes an operator apart, these differ.
    """
    for g, *wanted in zip(got, *right, strict=True):
        close = CLOSE.get(str(g.dtype).removeprefix("torch."), 0.0)
        wrong = []
        for w in wanted:
            finite = w[w.isfinite()] if close else w.new_empty(0)
            most = float(finite.abs().max()) if finite.numel() else 1.0
            try:
                torch.testing.assert_close(
                    g, w, rtol=close, atol=close * min(max(most, 1.0), 1e3), equal_nan=True, check_stride=False
                )
            except AssertionError as e:
                wrong.append(e)
        if len(wrong) == len(wanted):
            raise wrong[0]
