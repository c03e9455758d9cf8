"""Inference of an operator's parameters from the arrays of a call.

Most built-in operators define ``infer``. Any other operator is traced with distinct primes as sizes: an input axis
whose length is one of the primes shows that size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tilewright.core import UsageError, Value
from tilewright.kernels.operator import Operator
from tilewright.kernels.parameters import Kind

Shape = tuple[int, ...]

_FROM = 1009
"""The least of the primes: longer than lengths that an operator's function would hard-code."""


def params_of(op: Operator, shapes: Sequence[Shape], given: Mapping[str, object]) -> dict[str, Value]:
    """Every parameter, from the inputs' shapes and the parameters that a call gives by name. Raises ``UsageError``."""
    if op.infer is not None:
        return op.infer(shapes, **given)
    op.check_names(given)
    unknown = [p for p in op.parameters if p.default is None and p.name not in given]
    problem = None
    for rank in dict.fromkeys(map(len, shapes)):
        counts = {p.name: max(rank, 1) if p.kind is Kind.SHAPE else 1 for p in unknown}
        try:
            return _solve(op, shapes, given, counts)
        except UsageError as e:
            problem = problem or e
        if all(p.kind is not Kind.SHAPE for p in unknown):
            break
    raise problem or UsageError(f"{op.name} takes arrays, and got none", f"Give its {op.name} inputs")


def _solve(
    op: Operator, shapes: Sequence[Shape], given: Mapping[str, object], counts: Mapping[str, int]
) -> dict[str, Value]:
    """Solves for the parameters that are not given; ``counts`` is the number of axes of each."""
    owners: dict[int, tuple[str, int]] = {}
    tried: dict[str, object] = {}
    primes = _primes()
    for name, count in counts.items():
        chosen = list(islice(primes, count))
        owners |= {p: (name, axis) for axis, p in enumerate(chosen)}
        tried[name] = ",".join(map(str, chosen))
    probe = op.workload(**{**given, **tried})
    wanted = [s.shape for s in probe.inputs]
    shown = " and ".join("x".join(map(str, s)) or "()" for s in shapes)
    if [len(s) for s in wanted] != [len(s) for s in shapes]:
        raise UsageError(
            f"{op.name} cannot take inputs of shape {shown}",
            f"It takes {', '.join(f'{s.name} of {len(s.shape)} axes' for s in probe.inputs)}",
        )
    found: dict[tuple[str, int], int] = {}
    for spec, shape in zip(probe.inputs, shapes, strict=True):
        for axis, (prime, length) in enumerate(zip(spec.shape, shape, strict=True)):
            owner = owners.get(prime)
            if owner is not None and found.setdefault(owner, length) != length:
                raise UsageError(
                    f"{op.name} cannot take inputs of shape {shown}: {owner[0]} is {found[owner]} and {length}",
                    f"Axis {axis} of {spec.name} is {owner[0]} too",
                )
    hidden = [name for name, count in counts.items() if any((name, axis) not in found for axis in range(count))]
    if hidden:
        raise UsageError(f"no input of {op.name} has {hidden[0]} as its length", f"Give {hidden[0]}=...")
    sizes = {name: ",".join(str(found[name, axis]) for axis in range(count)) for name, count in counts.items()}
    workload = op.workload(**{**given, **sizes})
    if [s.shape for s in workload.inputs] != list(shapes):
        takes = ", ".join(f"{s.name} {s.shape}" for s in workload.inputs)
        raise UsageError(f"{op.name} cannot take inputs of shape {shown}", f"With these sizes it takes {takes}")
    return dict(workload.params)


def _primes() -> Iterator[int]:
    number = _FROM
    while True:
        if all(number % d for d in range(2, int(number**0.5) + 1)):
            yield number
        number += 2
