"""The nouns of Tilewright: small frozen values that every layer shares. Read this first.

One trial, in these words::

    Operator + sizes, dtypes, attributes            -> Workload
    Workload + Target                               -> Task
    Template.space(task)                            -> a space of Schedules
    Strategy.suggest(n)                             -> Proposals (schedule, predicted score)
    Task + Schedule                                 -> Candidate
    Builder.build(candidates)                       -> Artifacts or Failures
    Runner.run(artifacts)                           -> Measurements or Failures
    Database.add_trials                             -> TrialRecords

Every noun has a canonical ``key`` and a JSON round trip (``to_json`` / ``from_json``).
This module, ``launch`` (how an artifact is called), ``extent``, ``serialization``, ``errors`` and ``caching`` import
only the standard library.
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
from tilewright.extent import Extent, Size, Sizes, argument, open_sizes, shape_at
from tilewright.launch import ABI_VERSION, IntExpr, Launch, LaunchProgram, Prepack, Walk, evaluate, tensor_map
from tilewright.serialization import Json, JsonList, PairList, Pairs, Value

__all__ = [
    "ABI_VERSION", "EXACT", "IMPLICIT", "PARTS", "Artifact", "Candidate", "DatabaseError", "Device", "Extent",
    "Failure", "FailureKind", "IllegalSchedule", "IntExpr", "Launch", "LaunchProgram", "Measurement", "OperatorError",
    "Outcome", "Pairs", "Prepack", "Proposal", "Schedule", "Target", "TargetUnavailable", "Task", "TensorSpec",
    "TilewrightError", "TrialRecord", "UsageError", "Value", "Walk", "Workload", "cached_property", "canonical_json",
    "digest", "evaluate", "outcome_from_json", "tensor_map",
]  # fmt: skip

IMPLICIT = ("dtype", "constant")
"""Attributes of every operator, declared or not."""

EXACT = "exact"
"""Precision of workloads whose sums are the program's own, in any order: no other way of computing them will do."""
PARTS = "tf32x3"
"""Precision of workloads that multiply float32 as parts of TF32, whose sums are to be as exact as float32's."""


class FailureKind(enum.StrEnum):
    """Why a trial has no time. An error is a value with a kind, never a sentinel time."""

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
    """The one textual form of a JSON value: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: Any) -> str:
    """SHA-256, in hex, of a JSON value's canonical form."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


# --------------------------------------------------------------------------- what is computed


@dataclass(frozen=True)
class TensorSpec(JsonList, sparse=("constant",)):
    """Name, shape (elements per axis; ``()`` is a scalar) and dtype of an argument.

    An axis may be an ``Extent``: as long as a call says. ``constant``: given once, before the first
    call, so that kernels may rearrange it (weights).
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    constant: bool = False

    def at(self, sizes: Sizes) -> TensorSpec:
        """The tensor for sizes of its ranges."""
        return replace(self, shape=shape_at(self.shape, sizes))


@dataclass(frozen=True)
class Workload(Json, sparse=("more",)):
    """One computation with fixed sizes, dtypes and attributes.

    Identity is the normalised ``program`` (canonical JSON of the tensor expression, extents and
    dtypes included) and ``precision`` (``ieee``, ``tf32``, :data:`PARTS` or :data:`EXACT`); never the operator's name,
    so that an edited user file is another workload. ``params`` holds every parameter, defaults filled
    in; ``defaults`` the parameters that have a default, so that a look-up may leave them out. Sizes may be
    ranges, ``1..4096``: ``ranges``; ``flops`` then are those of the greatest. ``output`` is the first of the
    ``outputs``, ``more`` those after it.
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
        """What it computes, in the order in which calls return it."""
        return (self.output, *self.more)

    @cached_property
    def ranges(self) -> Mapping[str, Extent]:
        """Sizes that each call chooses, by name."""
        return open_sizes(n for t in (*self.inputs, *self.outputs) for n in t.shape)

    @property
    def label(self) -> str:
        """Short human name: the operator and the parameters that differ from their defaults; ranges of a program alone
        behind them."""
        plain = dict(self.defaults)
        shown = [f"{k}={v}" for k, v in self.params if k not in plain or plain[k] != v]
        ranges = [] if ".." in " ".join(shown) else [repr(e) for e in self.ranges.values()]
        return " ".join([self.op, *shown, *ranges])


@dataclass(frozen=True)
class Target(Json, sparse=("limits",)):
    """What code is generated for: an instruction set and, on a CPU, a number of threads.

    ``isa`` names the features whose compiler flags are used (sorted); ``vector_bytes`` and
    ``registers`` describe the vector unit (on a GPU: the widest access of a thread, and its
    registers). Cache sizes (bytes; per core, the last level shared) and ``limits`` (of a GPU; names in
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
    """What a tuning run optimises: one workload on one target.

    ``constants_passed``: bytes of constant inputs that a run of the program reads, of which the workload is a part.
    They pass through the caches between two calls of its kernel, which is timed accordingly. 0: not known. It is no
    part of the identity.
    """

    workload: Workload
    target: Target
    constants_passed: int = 0

    @cached_property
    def key(self) -> str:
        return digest([self.workload.key, self.target.key])


# --------------------------------------------------------------------------- how it is computed


@dataclass(frozen=True)
class Schedule(Json):
    """A short, immutable, replayable list of decisions, with the template that reads them.

    ``structure`` names the binary; ``launch`` is passed to it as arguments when it is called, so
    schedules that share a structure share one compiled kernel.
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
        """Every decision by name, both halves."""
        return dict(self.structure + self.launch)

    def at(self, sizes: Sizes | Extent, size: int | None = None) -> Schedule:
        """The schedule as its kernel is called for sizes of ranges, by name, or for the ``size`` of the only range.

        A stored one names where it was found.
        """
        if isinstance(sizes, Extent):
            sizes = {sizes.name: int(size or 0)}
        told = {argument(n): size for n, size in sorted(sizes.items())}
        return replace(self, launch=(*((k, v) for k, v in self.launch if k not in told), *told.items()))


@dataclass(frozen=True)
class Candidate:
    """A schedule of a task: what the builder builds."""

    task: Task
    schedule: Schedule

    @cached_property
    def key(self) -> str:
        return digest([self.task.key, self.schedule.key])

    @cached_property
    def binary_key(self) -> str:
        """Shared by the candidates that one compiled kernel serves."""
        return digest([self.task.key, self.schedule.structure_key])

    @property
    def symbol(self) -> str:
        """The kernel's function name: unique per binary, so that many fit in one library."""
        return f"tw_{self.binary_key[:20]}"


@dataclass(frozen=True)
class Artifact(Json):
    """A compiled kernel: a shared library on disk, named by its content, and how to call it.

    ``sha256`` is the hash of the library's bytes. One library may hold several kernels (compile
    batching): ``program`` says which symbols are this candidate's.
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


# --------------------------------------------------------------------------- what came out


@dataclass(frozen=True)
class Failure:
    """A trial without a time: its kind and one line for a person."""

    kind: FailureKind
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"failure": self.kind.value, "message": self.message}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Failure:
        return Failure(FailureKind(data["failure"]), data["message"])


@dataclass(frozen=True)
class Measurement(Json):
    """A checked and timed trial.

    ``seconds``: median time of one call. ``spread``: relative interquartile range of the samples.
    ``ratio``: median of paired time ratios to the reference kernel of that batch (below 1 is
    faster); ``None`` for the first kernel of a run. ``dropped``: timing stopped early because the
    kernel was clearly slower. ``cache_state``: ``warm``, ``cold``, or ``network`` (constants as other calls of their
    program leave them), never compared across.
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
    """A schedule to try, what the cost model expects of it, and who proposed it.

    ``prediction`` is a score, higher is better, comparable within a run; ``None`` without a model.
    """

    schedule: Schedule
    prediction: float | None = None
    origin: str = "random"


@dataclass(frozen=True)
class TrialRecord:
    """One trial as it is stored: number within the run, proposal, outcome, build time (seconds)."""

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
    """The trial with the least time, the first of equal ones; ``None`` where none succeeded."""
    timed = [r for r in records if r.seconds is not None]
    return min(timed, key=lambda r: (r.seconds, r.number), default=None)


@dataclass(frozen=True)
class Device:
    """A thing that runs kernels: ``cpu:0-1`` and what is known of it.

    ``model`` is the hardware's own name; a best kernel belongs to a model, not to a host.
    """

    name: str
    model: str
    kind: str = "cpu"
    facts: Pairs = field(default=())
