"""Small records of a database, each identified by a number: tasks, trials, artifacts, kernels."""

from __future__ import annotations

import hashlib

from tilewright.core import (
    Candidate,
    Device,
    Failure,
    FailureKind,
    Launch,
    LaunchProgram,
    Measurement,
    Outcome,
    Proposal,
    Schedule,
    Target,
    Task,
    TensorSpec,
    TrialRecord,
    Workload,
)
from tilewright.database import StoredArtifact, StoredKernel

TARGET = Target("cpu", "avx2", "x86_64", ("avx2", "fma"), vector_bytes=32, registers=16)
DEVICE = Device("cpu:0", "Example CPU 3000")
SETTINGS = {"cache_state": "warm", "batch": 16}


def example_task(m: int = 8, n: int = 16, k: int = 32, target: Target = TARGET) -> Task:
    """Returns a matmul's task. Its program is only a label, because a database reads no more of it."""
    return Task(
        Workload(
            op="matmul",
            params=(("m", m), ("n", n), ("k", k), ("bias", False), ("dtype", "float32")),
            defaults=(("bias", False), ("dtype", "float32")),
            program=f'["matmul",{m},{n},{k}]',
            inputs=(TensorSpec("a", (m, k), "float32"), TensorSpec("b", (k, n), "float32")),
            output=TensorSpec("c", (m, n), "float32"),
            flops=2 * m * n * k,
        ),
        target,
    )


def example_schedule(number: int, template: str = "contraction", version: int = 3) -> Schedule:
    """Returns schedule ``number`` of a template."""
    return Schedule(
        template, version, (("MR", 6 + number % 2), ("pack", "a"), ("unroll", True)), (("KC", 64 + number),)
    )


def example_record(number: int, template: str = "contraction", version: int = 3) -> TrialRecord:
    """Returns trial ``number``: every fifth one failed, every seventh has no prediction."""
    outcome: Outcome = Measurement(
        seconds=1e-3 / (1 + number),
        spread=0.02,
        samples=15,
        ratio=0.97 if number else None,
        dropped=number % 3 == 1,
        environment=(("clock_mhz", 4050.5), ("governor", "performance")),
    )
    if number % 5 == 4:
        kinds = tuple(FailureKind)
        outcome = Failure(kinds[number // 5 % len(kinds)], f"trial {number}: [bold]it\x1b[31m failed")
    return TrialRecord(
        number,
        Proposal(example_schedule(number, template, version), None if number % 7 == 6 else 0.5 * number, "mutation"),
        outcome,
        build_seconds=0.08,
        created=1.7e9 + number,
    )


def example_artifact(content: bytes, target: Target = TARGET) -> StoredArtifact:
    """Returns an artifact that holds ``content``."""
    source = "// " + content.decode("latin-1").replace("\0", " ")  # PostgreSQL stores no NUL in texts
    return StoredArtifact(
        hashlib.sha256(content).hexdigest(),
        content,
        target,
        "gcc 12.2.0",
        ("-O2", "-mavx2"),
        source,
        hashlib.sha256(source.encode()).hexdigest(),
        created=1.7e9,
    )


def example_kernel(task: Task, number: int, artifact: StoredArtifact, run_id: str | None = None) -> StoredKernel:
    """The kernel of ``example_schedule(number)``."""
    schedule = example_schedule(number)
    symbol = Candidate(task, schedule).symbol
    return StoredKernel(
        task=task,
        device_model=DEVICE.model,
        rank=1,
        schedule=schedule,
        program=LaunchProgram((Launch(symbol, ("KC",)),), workspace=["*", "KC", 4], align=4),
        seconds=1e-3 / (1 + number),
        artifact_sha256=artifact.sha256,
        peak_fraction=0.5,
        run_id=run_id,
        trial_number=number,
        compiler=artifact.compiler,
    )
