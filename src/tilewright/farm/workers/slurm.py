"""A farm inside a Slurm allocation: the allocation's nodes and GPUs, and the command that starts runners on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.core import UsageError
from tilewright.farm.errors import FarmError


def nodes(environment: Mapping[str, str] = os.environ) -> int:
    """Number of nodes of the allocation that this process is in. Raises ``UsageError`` outside an allocation."""
    if not environment.get("SLURM_JOB_ID"):
        raise UsageError(
            "--slurm works only inside a Slurm allocation",
            "Submit deploy/slurm/tilewright-farm.sbatch with sbatch, or start it under salloc",
        )
    said = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES") or "1"
    return int(said) if said.isdecimal() else 1


def on_each_node(count: int, command: Sequence[str]) -> list[str]:
    """The command that runs ``command`` once on each node of the allocation. Raises ``FarmError`` without srun."""
    srun = shutil.which("srun")
    if srun is None:
        raise FarmError("srun is not on the path", "Load Slurm's commands, or start the runners without --slurm")
    # A task may use all of the job's resources on its node, beside other steps, and survives tasks on failing nodes.
    return [
        srun, "--overlap", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--cpu-bind=none",
        "--mpi=none", "--kill-on-bad-exit=0", "--wait=0", *command,
    ]  # fmt: skip


def visible_gpus(environment: Mapping[str, str] = os.environ) -> str:
    """``CUDA_VISIBLE_DEVICES`` of a task: the job's GPUs on the node, empty if the job has no GPUs."""
    given = (environment.get(name) for name in ("CUDA_VISIBLE_DEVICES", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"))
    return next((g for g in given if g is not None), "")


def check_certificates(certs: Path | None, count: int) -> None:
    """Raises ``UsageError`` if the farm's nodes would communicate without encryption."""
    if certs is None and count > 1:
        raise UsageError(
            f"a farm on {count} nodes needs certificates",
            "Make them with tilewright farm init DIR in a folder that all nodes see, and pass --certs DIR",
        )
