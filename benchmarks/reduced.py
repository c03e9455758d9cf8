"""A benchmark problem's file with its sizes reduced: its integer constants halved until a run takes the seconds wanted.

A problem is a Python file that defines ``Model``, ``get_init_inputs`` and ``get_inputs``. What a run costs is estimated
with tensors that have no data, so that the file's own sizes need no memory. The largest constant is halved first;
batches before others; a constant whose half does not fit the rest of the file keeps its value.
"""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

FLOPS, BYTES, CALL = 4e10, 4e9, 5e-6
"""One thread, roughly: operations and bytes a second, and seconds of an operator's call."""
LEAST, MOST = 1e-3, 0.4
"""Seconds of a run between which a problem is left as it is."""
IMPOSSIBLE = 30.0
"""Seconds of a run that are too many to try it."""
SMALLEST = 16
"""Constants below are kernel sizes, strides, numbers of groups and so on; batches may shrink to 1."""
BATCH = 16
"""A batch counts as so many times its size when the largest constant is looked for."""
GAIN = 0.95
"""The part of the cost that may be left for half a constant to be worth it."""

SIZES = (int, float, str, tuple, list, dict)
"""Types of a file's values that say what a network is made of."""

Halved = Mapping[str, int]
"""By constant, how often it is halved."""


@dataclass
class Problem:
    """A module in eval mode, its arguments and the sizes in the place of the file's own."""

    module: torch.nn.Module
    arguments: list[Any]
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """By constant, the file's value and the one taken."""
    seconds: float = 0.0
    """Of this thread, of one run by PyTorch, eager."""


def load(path: Path, wanted: float) -> Problem:
    """The problem in a file, with sizes at which PyTorch, eager, takes about ``wanted`` seconds."""
    source = _Source(path)
    halved = _reduced(source, wanted)
    for _ in range(3):
        problem = source.load(halved)
        problem.seconds = _run_seconds(problem)
        if LEAST <= problem.seconds <= MOST:
            break
        wanted *= min(4.0, max(0.25, 0.1 / problem.seconds))
        before, halved = halved, _reduced(source, wanted)
        if halved == before:
            break
    return problem


def _run_seconds(problem: Problem) -> float:
    with torch.no_grad():
        problem.module(*problem.arguments)
        begin = time.thread_time()  # so that sizes do not depend on what else the machine does
        problem.module(*problem.arguments)
        return time.thread_time() - begin


def _reduced(source: _Source, wanted: float) -> dict[str, int]:
    """The constants to halve for a run of ``wanted`` seconds, as estimated.

    Literals inside of functions make a network what it is: they are halved only where it takes too long otherwise.
    """
    halved: dict[str, int] = {}
    cost = source.cost(halved)
    for constants, most in ((source.named, wanted), (source.literal, max(wanted, MOST / 2))):
        open = set(constants)
        while cost > most and open:
            name = max(sorted(open), key=lambda n: source.weight(n, halved))
            equal = tuple(n for n in constants if source.value(n, halved) == source.value(name, halved))
            for names in dict.fromkeys(((name,), equal)):  # sizes that are to be the same are halved together
                tried = {**halved, **{n: halved.get(n, 0) + 1 for n in names}}
                if source.value(name, tried) >= source.least(name) and (then := source.tried(tried)) < GAIN * cost:
                    cost, halved = then, tried
                    break
            else:
                open.remove(name)
    if cost > IMPOSSIBLE:
        raise ValueError(f"a run takes {cost:.0f} s at the smallest sizes that fit together, as estimated")
    return halved


class _Source:
    """A file, and its integer constants: those with names at its top level, and other literals by their value."""

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, path.read_text()
        self.constants: dict[str, int] = {}
        self.named: list[str] = []
        self.literal: list[str] = []
        for name, value, _ in _constants(ast.parse(self.text)):
            if name not in self.constants:
                self.constants[name] = value
                (self.literal if name.startswith("=") else self.named).append(name)
        self._made_of = _read_by_the_network(ast.parse(self.text))
        self._fake = FakeTensorMode(allow_non_fake_inputs=True)
        self._costs: dict[frozenset[tuple[str, int]], float | Exception] = {}
        self._last: tuple[str, torch.nn.Module] | None = None

    def value(self, name: str, halved: Halved) -> int:
        value = self.constants[name]
        for _ in range(halved.get(name, 0)):
            value = value // 2 | value % 2  # odd sizes stay odd
        return value

    def least(self, name: str) -> int:
        return 1 if "batch" in name.lower() else SMALLEST

    def weight(self, name: str, halved: Halved) -> int:
        return self.value(name, halved) * (BATCH if "batch" in name.lower() else 1)

    def module(self, halved: Halved) -> dict[str, Any]:
        """The file's names."""
        tree = ast.parse(self.text)
        for name, _, node in _constants(tree):
            node.value = self.value(name, halved)
        names: dict[str, Any] = {"__name__": self.path.stem}
        exec(compile(tree, str(self.path), "exec"), names)
        return names

    def cost(self, halved: Halved) -> float:
        """Estimated seconds of a run. Raises what the file raises."""
        key = frozenset(halved.items())
        if key not in self._costs:
            try:
                self._costs[key] = self._cost(halved)
            except Exception as e:  # whatever the file says of these sizes
                self._costs[key] = e
        found = self._costs[key]
        if isinstance(found, Exception):
            raise found
        return found

    def _cost(self, halved: Halved) -> float:
        names = self.module(halved)
        with torch.no_grad(), self._fake:
            model = self._model(names, halved)
            arguments = names["get_inputs"]()
            with _Cost() as counted:
                model(*arguments)
        return float(counted.seconds)

    def _model(self, names: dict[str, Any], halved: Halved) -> torch.nn.Module:
        """The network, built anew where what it is made of has changed since the last one."""
        literals = [self.value(n, halved) for n in self.literal]
        key = repr((literals, [(n, names[n]) for n in self._made_of if isinstance(names.get(n), SIZES)]))
        if self._last is None or self._last[0] != key:
            try:
                model = names["Model"](*names["get_init_inputs"]())
            except DataDependentOutputException:
                with unset_fake_temporarily():
                    model = names["Model"](*names["get_init_inputs"]())
            self._last = key, model.eval()
        return self._last[1]

    def tried(self, halved: Halved) -> float:
        """The same; infinite where these sizes do not fit together."""
        try:
            return self.cost(halved)
        except Exception:
            return math.inf

    def load(self, halved: Halved) -> Problem:
        names = self.module(halved)
        torch.manual_seed(0)
        module = names["Model"](*names["get_init_inputs"]()).eval()
        sizes = {n: [self.constants[n], self.value(n, halved)] for n in halved}
        return Problem(module, names["get_inputs"](), sizes)


def _constants(tree: ast.Module) -> list[tuple[str, int, ast.Constant]]:
    """The integers that are sizes: the name each is halved by, its value, and where it stands."""
    found: list[tuple[str, int, ast.Constant]] = []

    def sizes(name: str, node: ast.AST) -> list[tuple[str, int, ast.Constant]]:
        least = 2 if "batch" in name.lower() else SMALLEST
        constants = [(c.value, c) for c in ast.walk(node) if isinstance(c, ast.Constant)]
        return [(name or f"={v}", v, c) for v, c in constants if type(v) is int and v >= least]

    for statement in tree.body:
        if not isinstance(statement, ast.Assign):
            found += sizes("", statement)
            continue
        target, value = statement.targets[-1], statement.value
        if not isinstance(value, (ast.Tuple, ast.List)):
            found += sizes(ast.unparse(target), value)[:1]
            continue
        for place, part in enumerate(value.elts):
            own = target.elts[place] if isinstance(target, ast.Tuple) else None
            found += sizes(ast.unparse(own) if own else f"{ast.unparse(target)}[{place}]", part)[:1]
    return found


def _read_by_the_network(tree: ast.Module) -> list[str]:
    """The names that a file's classes and functions read, but for the one that makes the arguments."""
    parts = [s for s in tree.body if isinstance(s, (ast.ClassDef, ast.FunctionDef)) and s.name != "get_inputs"]
    return sorted({n.id for part in parts for n in ast.walk(part) if isinstance(n, ast.Name)})


class _Cost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up what operators would cost."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seconds = 0.0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        flops = flop_registry.get(func.overloadpacket)
        count = flops(*args, **(kwargs or {}), out_val=result) if flops is not None else 0
        moved = 0
        if flops is not None or not _is_view(func):
            leaves = torch.utils._pytree.tree_leaves((args, kwargs, result))
            moved = sum(t.numel() * t.element_size() for t in leaves if isinstance(t, torch.Tensor))
        self.seconds += count / FLOPS + moved / BYTES + CALL
        return result


def _is_view(func: Any) -> bool:
    alias = [r.alias_info for r in func._schema.returns]
    return any(a is not None and not a.is_write for a in alias)
