"""The data types of Tilewright: small frozen values that every layer shares. Read this module first.

One trial, in terms of these types::

    Operator + sizes, dtypes, attributes            -> Workload
    Workload + Target                               -> Task
    Template.space(task)                            -> a space of Schedules
    Strategy.suggest(n)                             -> Proposals (schedule, predicted score)
    Task + Schedule                                 -> Candidate
    Builder.build(candidates)                       -> Artifacts or Failures
    Runner.run(artifacts)                           -> Measurements or Failures
    Database.add_trials                             -> TrialRecords

Every type has a canonical ``key`` and a JSON round trip (``to_json`` / ``from_json``). This module, ``launch`` (how an
artifact is called), ``extent``, ``serialization``, ``errors`` and ``caching`` import only the standard library.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Union

from tilewright.caching import cached_property
from tilewright.errors import (
    DatabaseError,
    IllegalSchedule,
    OperatorError,
    TargetUnavailable,
    TilewrightError,
    UsageError,
)
from tilewright.extent import Extent, Size, Sizes, argument, shape_at, symbolic_sizes
from tilewright.launch import ABI_VERSION, IntExpr, Launch, LaunchProgram, Prepack, Walk, evaluate, tensor_map
from tilewright.serialization import Json, JsonList, PairList, Pairs, Value

__all__ = [
    "ABI_VERSION", "EXACT", "IMPLICIT", "TF32X3", "Artifact", "Candidate", "DatabaseError", "Device", "Extent",
    "Failure", "FailureKind", "IllegalSchedule", "IntExpr", "Launch", "LaunchProgram", "Measurement", "OperatorError",
    "Outcome", "Pairs", "Prepack", "Proposal", "Schedule", "Target", "TargetUnavailable", "Task", "TensorSpec",
    "TilewrightError", "TrialRecord", "UsageError", "Value", "Walk", "Workload", "cached_property", "canonical_json",
    "digest", "evaluate", "outcome_from_json", "tensor_map",
]  # fmt: skip

IMPLICIT = ("dtype", "constant")
"""Attributes that every operator accepts without declaring them."""

EXACT = "exact"
"""Precision of workloads whose kernels must compute the program's own sums, in any order of summation.

No algorithm that replaces these sums by other arithmetic (Winograd, split TF32 products) is allowed.
"""
TF32X3 = "tf32x3"
"""Precision of workloads that split each float32 operand into TF32 terms, for products as accurate as float32's."""


class FailureKind(enum.StrEnum):
    """Reason why a trial has no time. A failure is a value with a kind, never a sentinel time."""

    COMPILE = "compile"
    RESOURCES = "resources"
    LAUNCH = "launch"
    CRASH = "crash"
    TIMEOUT = "timeout"
    WRONG_RESULT = "wrong_result"
    OVERFLOW = "overflow"  # a result is infinite, the reference finite
    LOST_ACCURACY = "lost_accuracy"  # beyond the tolerance, yet close to the reference
    DEVICE_LOST = "device_lost"


# --------------------------------------------------------------------------- canonical JSON


def canonical_json(value: Any) -> str:
    """Canonical text of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """SHA-256, in hex, of a JSON value's canonical text."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


# --------------------------------------------------------------------------- workloads, targets and tasks


@dataclass(frozen=True)
class TensorSpec(JsonList, sparse=("constant",)):
    """Name, shape (elements per axis; ``()`` is a scalar) and dtype of an argument.

    An axis of symbolic size is an ``Extent``. ``constant``: the tensor is given once, before the first call, so that
    kernels may rearrange it (weights).
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    constant: bool = False

    def at(self, sizes: Sizes) -> TensorSpec:
        """Returns the spec with a number for each symbolic size of the shape."""
        return replace(self, shape=shape_at(self.shape, sizes))


@dataclass(frozen=True)
class Workload(Json, sparse=("more",)):
    """One computation with its sizes, dtypes and attributes.

    Identity is the normalised ``program`` (canonical JSON of the tensor expression, extents and dtypes included) and
    ``precision`` (``ieee``, ``tf32``, :data:`TF32X3` or :data:`EXACT`). The operator's name is no part of the identity:
    an edited user file is another workload. ``params`` holds every parameter, defaults filled in. ``defaults`` holds
    the parameters that have a default, so that a look-up may leave them out. Symbolic sizes (``1..4096``) are listed in
    ``ranges``; ``flops`` then counts the operations at their upper bounds. ``output`` is the first of the ``outputs``,
    ``more`` the rest.
    """

    op: str
    params: Pairs
    defaults: Pairs
    program: str
    inputs: tuple[TensorSpec, ...]
    output: TensorSpec
    flops: int
    precision: str = "ieee"
    more: tuple[TensorSpec, ...] = ()

    @cached_property
    def key(self) -> str:
        return digest([self.program, self.precision])

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Specs of all outputs, in the order in which calls return them."""
        return (self.output, *self.more)

    @cached_property
    def ranges(self) -> Mapping[str, Extent]:
        """Symbolic sizes of the workload, by name."""
        return symbolic_sizes(n for t in (*self.inputs, *self.outputs) for n in t.shape)

    @property
    def label(self) -> str:
        """Short name for a person: the operator and the parameters that differ from their defaults.

        Symbolic sizes that no parameter shows come last.
        """
        plain = dict(self.defaults)
        shown = [f"{k}={v}" for k, v in self.params if k not in plain or plain[k] != v]
        ranges = [] if ".." in " ".join(shown) else [repr(e) for e in self.ranges.values()]
        return " ".join([self.op, *shown, *ranges])


@dataclass(frozen=True)
class Target(Json, sparse=("limits",)):
    """What code is generated for: an instruction set and, on a CPU, a number of threads.

    ``isa``: sorted names of the features whose compiler flags are used. ``vector_bytes`` and ``registers`` describe the
    vector unit; on a GPU, the widest access of a thread and its number of registers. Cache sizes are in bytes per core,
    the last level's in bytes of the shared cache. Cache sizes and ``limits`` (of a GPU; names in
    ``backends/cuda/archs.py``) steer schedules but are no part of the identity.
    """

    kind: str  # "cpu", "cuda"
    variant: str  # "avx512", "avx2", "neon", "portable"; "sm_80", "sm_90a"
    arch: str  # "x86_64", "aarch64"; "cuda"
    isa: tuple[str, ...]
    vector_bytes: int
    registers: int
    threads: int = 1
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 16 << 20
    limits: Pairs = ()

    @property
    def name(self) -> str:
        """``cpu:avx512``: what ``--target`` accepts."""
        return f"{self.kind}:{self.variant}"

    @cached_property
    def limit(self) -> Mapping[str, Value]:
        """``limits`` by name."""
        return dict(self.limits)

    @cached_property
    def key(self) -> str:
        return digest([self.kind, self.variant, self.arch, list(self.isa), self.threads])


@dataclass(frozen=True)
class Task(Json, sparse=("constants_passed",)):
    """The unit that a tuning run optimises: one workload on one target.

    ``constants_passed``: bytes of constant inputs that one run of the whole program reads; the workload is a part of
    that program. These bytes pass through the caches between two calls of the kernel, so timing rotates copies of the
    constants. 0: not known. The field is no part of the identity.
    """

    workload: Workload
    target: Target
    constants_passed: int = 0

    @cached_property
    def key(self) -> str:
        return digest([self.workload.key, self.target.key])


# --------------------------------------------------------------------------- schedules and artifacts


@dataclass(frozen=True)
class Schedule(Json):
    """An immutable, replayable list of decisions, and the template that interprets them.

    ``structure`` determines the binary; ``launch`` is passed to the binary as arguments of each call. Schedules with
    equal ``structure`` share one compiled kernel.
    """

    template: str
    version: int
    structure: PairList
    launch: PairList = ()

    @cached_property
    def structure_key(self) -> str:
        return digest([self.template, self.version, [list(p) for p in self.structure]])

    @cached_property
    def key(self) -> str:
        return digest([self.structure_key, [list(p) for p in self.launch]])

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """All decisions by name, of ``structure`` and ``launch``."""
        return dict(self.structure + self.launch)

    def at(self, sizes: Sizes | Extent, size: int | None = None) -> Schedule:
        """Returns the schedule with launch arguments for the given symbolic sizes.

        ``sizes`` maps names to sizes; a workload with one symbolic size may pass its ``Extent`` and the ``size``. A
        stored schedule keeps the sizes at which it was found.
        """
        if isinstance(sizes, Extent):
            sizes = {sizes.name: int(size or 0)}
        told = {argument(n): size for n, size in sorted(sizes.items())}
        return replace(self, launch=(*((k, v) for k, v in self.launch if k not in told), *told.items()))


@dataclass(frozen=True)
class Candidate:
    """A schedule of a task, as the builder takes it."""

    task: Task
    schedule: Schedule

    @cached_property
    def key(self) -> str:
        return digest([self.task.key, self.schedule.key])

    @cached_property
    def binary_key(self) -> str:
        """Key of the compiled kernel. Candidates that differ only in launch arguments share it."""
        return digest([self.task.key, self.schedule.structure_key])

    @property
    def symbol(self) -> str:
        """Function name of the kernel: unique per binary, so that one library can hold many kernels."""
        return f"tw_{self.binary_key[:20]}"


@dataclass(frozen=True)
class Artifact(Json):
    """A compiled kernel: a shared library on disk, named by its content, and its launch program.

    ``sha256`` is the hash of the library's bytes. One library may hold several kernels (compile batching): ``program``
    names the symbols of this candidate.
    """

    path: str
    sha256: str
    program: LaunchProgram
    target: Target
    compiler: str
    flags: tuple[str, ...]
    source_sha256: str
    build_seconds: float = 0.0
    cached: bool = False
    resources: Pairs = ()  # of a GPU kernel: registers, spill_bytes, shared_bytes, ...


# --------------------------------------------------------------------------- outcomes of trials


@dataclass(frozen=True)
class Failure:
    """A trial without a time: the kind of failure and one line for a person."""

    kind: FailureKind
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"failure": self.kind.value, "message": self.message}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Failure:
        return Failure(FailureKind(data["failure"]), data["message"])


@dataclass(frozen=True)
class Measurement(Json):
    """Outcome of a trial that was checked and timed.

    ``seconds``: median time of one call. ``spread``: relative interquartile range of the samples. ``ratio``: median of
    paired time ratios to the reference kernel of the batch, below 1 where this kernel is faster; ``None`` for the first
    kernel of a run. ``dropped``: timing stopped early because the kernel was clearly slower. ``cache_state``: ``warm``,
    ``cold``, or ``network`` (constants are as cold as other calls of their program leave them). Times of different
    cache states are never compared.
    """

    seconds: float
    spread: float
    samples: int
    ratio: float | None = None
    dropped: bool = False
    cache_state: str = "warm"
    verify_seconds: float = 0.0
    measure_seconds: float = 0.0
    environment: Pairs = ()


Outcome = Union[Measurement, Failure]


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    return Failure.from_json(data) if "failure" in data else Measurement.from_json(data)


@dataclass(frozen=True)
class Proposal:
    """A schedule to try, with its predicted score and the name of its proposer.

    ``prediction``: higher is better, comparable within a run; ``None`` without a model.
    """

    schedule: Schedule
    prediction: float | None = None
    origin: str = "random"


@dataclass(frozen=True)
class TrialRecord:
    """One trial as stored: its number within the run, proposal, outcome and build time in seconds."""

    number: int
    proposal: Proposal
    outcome: Outcome
    build_seconds: float = 0.0
    created: float = 0.0  # seconds since the epoch

    @property
    def schedule(self) -> Schedule:
        return self.proposal.schedule

    @property
    def seconds(self) -> float | None:
        """Measured time, or ``None`` for a failure."""
        return self.outcome.seconds if isinstance(self.outcome, Measurement) else None

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "schedule": self.schedule.to_json(),
            "prediction": self.proposal.prediction,
            "origin": self.proposal.origin,
            "outcome": self.outcome.to_json(),
            "build_seconds": self.build_seconds,
            "created": self.created,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> TrialRecord:
        return TrialRecord(
            data["number"],
            Proposal(Schedule.from_json(data["schedule"]), data["prediction"], data["origin"]),
            outcome_from_json(data["outcome"]),
            data["build_seconds"],
            data["created"],
        )


def fastest(records: Iterable[TrialRecord]) -> TrialRecord | None:
    """The trial with the least time, the first of equally fast ones; ``None`` if no trial succeeded."""
    timed = [r for r in records if r.seconds is not None]
    return min(timed, key=lambda r: (r.seconds, r.number), default=None)


@dataclass(frozen=True)
class Device:
    """A processor or GPU that runs kernels: its name (``cpu:0-1``), model and facts.

    ``model`` is the hardware's own name; a best kernel belongs to a model, not to a host.
    """

    name: str
    model: str
    kind: str = "cpu"
    facts: Pairs = field(default=())
