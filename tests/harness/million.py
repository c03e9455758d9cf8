"""Generates large, realistic databases in seconds, for tests of pages and for benchmarks.

Workloads, targets, schedules and kernel sources come from built-in operators. Times, failures and compiled code are
invented; a seed determines them.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, islice
from typing import Any

from sqlalchemy import Connection

from tilewright.backends.cpu.targets import parse_target
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.core import (
    Candidate,
    Device,
    Failure,
    FailureKind,
    Launch,
    LaunchProgram,
    Schedule,
    Target,
    Task,
    Value,
    canonical_json,
    digest,
)
from tilewright.database import Database, StoredArtifact, StoredKernel, rows, schema
from tilewright.database.location import locate
from tilewright.database.process import Process
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import full_source, get_template, templates_for
from tilewright.search_space import SearchSpace

BEGIN = 1_780_000_000.0  # start of the first run, in seconds since the epoch
STRATEGIES = ("evolutionary", "evolutionary", "evolutionary", "random", "grid")
ORIGINS = ("mutation", "mutation", "crossover", "sample", "random")
STATES = ("done",) * 44 + ("interrupted",) * 3 + ("failed",) * 2 + ("running",)

SHAPES: tuple[tuple[str, tuple[dict[str, Value], ...]], ...] = (
    ("matmul", tuple({"m": m, "n": n, "k": k} for m in (1, 64, 512) for n in (512, 1024) for k in (256, 1000))),
    ("conv2d", tuple({"n": 1, "ci": c, "h": s, "w": s, "co": 2 * c, "kh": 3, "kw": 3, "padding": 1}
                     for c, s in ((64, 56), (128, 28), (256, 14), (32, 112), (96, 35)))),
    ("softmax", tuple({"shape": s} for s in ("512,1024", "64,4096", "1024,1000"))),
    ("layer_norm", tuple({"shape": s} for s in ("512,768", "128,1024", "2048,512"))),
    ("batch_matmul", tuple({"b": b, "m": 128, "n": 128, "k": k} for b in (8, 96) for k in (64, 80))),
)  # fmt: skip

FAILURES = (
    Failure(FailureKind.RESOURCES, "the kernel needs 232448 bytes of shared memory; the device has 166912"),
    Failure(FailureKind.RESOURCES, "8 registers a thread are spilled: 262 of 255"),
    Failure(FailureKind.COMPILE, "kernel.cc:412:9: error: cannot convert 'tw_f32x16' to 'tw_f32x8' in assignment"),
    Failure(FailureKind.TIMEOUT, "one call took longer than 10 s"),
    Failure(
        FailureKind.WRONG_RESULT, "element [17, 255]: -0.8125, expected 1.0625 (bound 3.1e-05), input set 'cancel'"
    ),
    Failure(FailureKind.CRASH, "the kernel ended with signal 11 (SIGSEGV)"),
    Failure(FailureKind.LAUNCH, "the launch was refused: too many resources requested"),
    Failure(FailureKind.DEVICE_LOST, "the device went away; the runner was started again"),
)


@dataclass(frozen=True)
class Machine:
    """A machine that runs were measured on: target, device and compiler. ``flops``: peak operations per second."""

    target: Target
    device: Device
    compiler: str
    flags: tuple[str, ...]
    flops: float


@dataclass(frozen=True)
class Filled:
    """Identifiers of the generated runs: ``runs``, oldest first, and the long run, if any."""

    runs: tuple[str, ...]
    long_run: str | None


@dataclass(frozen=True)
class _Tuned:
    """A task on a machine, with its search space and the typical time of its kernels in seconds."""

    task: Task
    machine: Machine
    space: SearchSpace
    seconds: float

    @cached_property
    def size(self) -> int:
        """Number of combinations of the knobs' values."""
        return math.prod(len(k.values) for k in self.space.knobs)

    @cached_property
    def default(self) -> Schedule:
        return get_template(self.space.template).default(self.task)

    def schedule(self, number: int) -> Schedule:
        """Combination ``number``; consecutive numbers are spread over the space. It may violate the space's
        constraints."""
        place = number * _stride(self.size) % self.size
        halves: dict[str, list[tuple[str, Value]]] = {"structure": [], "launch": []}
        for knob in self.space.knobs:
            place, at = divmod(place, len(knob.values))
            halves[knob.half].append((knob.name, knob.values[at]))
        return Schedule(self.space.template, self.space.version, tuple(halves["structure"]), tuple(halves["launch"]))

    def described(self, trials: int) -> list[tuple[str, str, int, str]]:
        """Schedules of a run's trials, the default first, as rows of the table: key, template, version, schedule."""
        others = (s for s in map(self.schedule, range(self.size)) if s != self.default)
        return [
            (digest([self.task.key, s.key]), s.template, s.version, canonical_json(s.to_json()))
            for s in islice(chain([self.default], others), trials)
        ]


def fill(
    path_or_url: str | os.PathLike[str], runs: int = 5000, trials: int = 200, long_run: int = 0, seed: int = 0
) -> Filled:
    """Store ``runs`` runs of ``trials`` trials, one more run of ``long_run`` trials unless 0, and the best kernels.

    A database on a server must have its tables; no other process may have a database file open. About one run in fifty
    is still ``running``, on another host. Raises ``ValueError`` if no task has enough schedules for ``trials``.
    """
    noise = random.Random(seed)
    ids = tuple(f"{260101 + i // 1000}-{i % 1000:06d}-{noise.getrandbits(24):06x}" for i in range(runs))
    plan = [(run_id, _fitting(i * STRIDE, trials), trials) for i, run_id in enumerate(ids)]
    last = None
    if long_run:
        last = f"269999-000000-{noise.getrandbits(24):06x}"
        plan.append((last, _fitting(0, long_run), long_run))
    with Database.open(path_or_url) as db:
        db._write(lambda c: _describe(c, plan, random.Random(seed)))
    location = locate(path_or_url)
    columns = [c.name for c in schema.trial.columns]
    values = _trials(plan, noise)
    if location.path is not None:
        _copy_file(str(location.path), columns, values)
    else:
        assert location.url is not None
        _copy_server(location.url.set(drivername="postgresql").render_as_string(False), columns, values)
        with Database.open(path_or_url) as db:
            db.vacuum()  # the server does it only later
    return Filled(ids, last)


@cache
def _machines() -> tuple[Machine, ...]:
    cpu = ("-O2", "-ffp-contract=off", "-shared", "-fPIC")
    avx512, avx2 = (parse_target(f"cpu:{v}", threads=n, allow_foreign=True) for v, n in (("avx512", 8), ("avx2", 1)))
    return (
        Machine(avx512, Device("cpu:0-7", "AMD EPYC 9654"), "gcc 12.2.0", (*cpu, "-mavx512f"), 9e11),
        Machine(avx512, Device("cpu:0-7", "Intel Xeon Platinum 8480+"), "gcc 12.2.0", (*cpu, "-mavx512f"), 8e11),
        Machine(avx2, Device("cpu:0", "AMD Ryzen 7 5800X"), "clang 14.0.6", (*cpu, "-mavx2", "-mfma"), 1.3e11),
        Machine(
            cuda_target("sm_80"), Device("cuda:0", "NVIDIA A100-SXM4-80GB"), "nvrtc 12.4", ("-arch=sm_80",), 1.9e13
        ),
        Machine(cuda_target("sm_90a"), Device("cuda:0", "NVIDIA H200"), "nvrtc 12.4", ("-arch=sm_90a",), 6.7e13),
    )


_PLACES = tuple(
    (op, given, machine)
    for op, shapes in SHAPES
    for i, given in enumerate(shapes)
    for machine in range(5 if i % 3 == 0 else 3)  # a third of the shapes is on the GPUs too
)
"""Tasks: operator, parameters and index of the machine."""

STRIDE = 37
"""Distance in ``_PLACES`` between the tasks of consecutive runs, so that consecutive runs tune different operators."""


@cache
def _tuned(place: int) -> _Tuned:
    op, given, machine = _PLACES[place]
    workload = get_operator(op).workload(**given)
    found = _machines()[machine]
    task = Task(workload, found.target)
    return _Tuned(task, found, templates_for(task)[0].space(task), 5e-6 + workload.flops / (0.3 * found.flops))


def _fitting(place: int, trials: int) -> _Tuned:
    """The first task from ``place`` on that has more than ``trials`` schedules."""
    for i in range(len(_PLACES)):
        tuned = _tuned((place + i) % len(_PLACES))
        if tuned.size > trials:
            return tuned
    raise ValueError(f"no task has {trials} schedules")


def _describe(c: Connection, plan: list[tuple[str, _Tuned, int]], noise: random.Random) -> None:
    """Store everything except the trials: tasks, runs, and the best kernel of each task with its source."""
    host = Process("tuner-7", 4242, "||")
    newest: dict[tuple[str, str, str], tuple[str, _Tuned]] = {}
    described = []
    for i, (run_id, tuned, trials) in enumerate(plan):
        task, device = tuned.task, tuned.machine.device
        key = (task.workload.key, task.target.key, device.model)
        if key not in newest:
            rows.put_task(c, task)
        newest[key] = (run_id, tuned)
        row = rows.run_row(run_id, task, device, host, {"batch": 16, "cache_state": "warm"}, {"python": "3.11.7"})
        started = BEGIN + 600.0 * i
        state = "running" if i == len(plan) - 1 else STATES[noise.randrange(len(STATES))]
        described.append(row | {
            "strategy": STRATEGIES[noise.randrange(len(STRATEGIES))], "seed": i, "trials_wanted": trials,
            "state": state, "started": started, "finished": None if state == "running" else started + 1.5 * trials,
        })  # fmt: skip
    artifacts, kernels = [], []
    for run_id, tuned in newest.values():
        kernel, artifact = _kernel(run_id, tuned, noise)
        kernels.append(rows.kernel_row(kernel))
        artifacts.append(rows.artifact_row(artifact))
    for table, values in ((schema.run, described), (schema.artifact, artifacts), (schema.kernel, kernels)):
        if values:
            c.execute(table.insert(), values)


def _kernel(run_id: str, tuned: _Tuned, noise: random.Random) -> tuple[StoredKernel, StoredArtifact]:
    task, machine = tuned.task, tuned.machine
    candidate = Candidate(task, tuned.default)
    source = full_source(candidate)
    data = noise.randbytes(20_000)
    artifact = StoredArtifact(
        hashlib.sha256(data).hexdigest(), data, task.target, machine.compiler, machine.flags, source,
        hashlib.sha256(source.encode()).hexdigest(), BEGIN,
    )  # fmt: skip
    seconds = tuned.seconds * noise.uniform(0.8, 1.0)
    kernel = StoredKernel(
        task, machine.device.model, 1, candidate.schedule, LaunchProgram((Launch(candidate.symbol, ()),)), seconds,
        artifact.sha256, min(1.0, task.workload.flops / seconds / machine.flops), run_id, 0,
        updated=BEGIN + noise.uniform(0, 1e6),
    )  # fmt: skip
    return kernel, artifact


def _trials(plan: list[tuple[str, _Tuned, int]], noise: random.Random) -> Iterator[tuple[Any, ...]]:
    """Rows of the trials table. Times fall in the course of a run, and one trial in eight fails."""
    failures = [(f.kind.value, canonical_json(f.to_json())) for f in FAILURES]
    known: dict[tuple[str, int], list[tuple[str, str, int, str]]] = {}
    draw, gauss = noise.random, noise.gauss
    for i, (run_id, tuned, trials) in enumerate(plan):
        key = (tuned.task.key, trials)
        if key not in known:
            known[key] = tuned.described(trials)
        created = BEGIN + 600.0 * i
        luck = tuned.seconds * (0.9 + 0.2 * draw())
        for number, (candidate, template, version, schedule) in enumerate(known[key]):
            created += 1.5 * draw()
            chance = draw()
            factor = 1.0 + (8.0 / (1.0 + 0.05 * number) + 0.3) * chance * chance * draw()
            prediction = None if number < 16 else -math.log(luck * factor) + gauss(0.0, 0.2)
            origin = "default" if number == 0 else ORIGINS[int(5 * draw())] if number >= 16 else "random"
            if number and draw() < 0.125:
                status, outcome = failures[int(8 * draw() * draw())]
                seconds = None
            else:
                status, seconds = "ok", luck * factor
                outcome = (
                    '{"cache_state":"warm","dropped":false,"environment":{"clock_mhz":3695.0,"governor":"performance"},'
                    f'"measure_seconds":0.21,"ratio":{factor!r},"samples":15,"seconds":{seconds!r},'
                    f'"spread":{0.01 + 0.03 * chance!r},"verify_seconds":0.05}}'
                )
            yield (
                run_id, number, candidate, template, version, schedule, origin, prediction, status, seconds, outcome,
                0.4, created,
            )  # fmt: skip


def _stride(size: int) -> int:
    """A stride that is coprime to ``size`` and large, so that its multiples visit all numbers below ``size``."""
    step = max(1, int(0.6180339887 * size))
    while math.gcd(step, size) > 1:
        step += 1
    return step


def _copy_file(path: str, columns: list[str], values: Iterator[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" for _ in columns)
    with closing(sqlite3.connect(path)) as connection:
        # No journal: after a crash the file can be generated again.
        connection.execute("PRAGMA journal_mode=OFF").fetchone()
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA cache_size=-262144")
        with connection:
            connection.executemany(f"INSERT INTO trial ({', '.join(columns)}) VALUES ({marks})", values)
        connection.execute("PRAGMA journal_mode=WAL").fetchone()


def _copy_server(url: str, columns: list[str], values: Iterator[tuple[Any, ...]]) -> None:
    import psycopg

    target = f"COPY trial ({', '.join(columns)}) FROM STDIN"
    with psycopg.connect(url) as server, server.cursor() as cursor, cursor.copy(target.encode()) as copy:
        for row in values:
            copy.write_row(row)
