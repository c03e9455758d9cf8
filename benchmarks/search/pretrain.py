"""Train the cost models that are shipped: for CPUs from the committed recordings, for GPUs from the committed rows.

    python benchmarks/search/pretrain.py          (two minutes; writes src/tilewright/cost_model/pretrained/*.model)
    python benchmarks/search/pretrain.py cuda     (the one for GPUs)

The same recordings and rows give the same bytes. What such a model foresees of tasks that it never saw: `model.py`,
`gpu_model.py`.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import gpu_rows
import recordings
from gpu_rows import Timed
from recordings import Recording

from tilewright.core import Proposal, TrialRecord
from tilewright.cost_model import FeatureExtractor
from tilewright.cost_model.transfer import Run, TransferModel, learned

OUT = Path(__file__).parents[2] / "src" / "tilewright" / "cost_model" / "pretrained"


def trials(recording: Recording) -> list[TrialRecord]:
    """Every schedule as a trial."""
    return [TrialRecord(i, Proposal(s), o) for i, (s, o) in enumerate(recording.outcomes.items())]


@functools.cache
def every() -> dict[str, Recording]:
    """All recordings by name."""
    return {r.name: r for r in recordings.load_all()}


@functools.cache
def run_of(name: str) -> Run:
    recording = every()[name]
    run = learned(FeatureExtractor(recording.task, space=recording.space), trials(recording))
    assert run is not None, name
    return run


def without(name: str, operator: bool) -> TransferModel:
    """The model that knows all recordings but one, or but all of its operator."""
    task = every()[name].task
    left = [
        n for n, r in every().items()
        if n != name and r.task.target.kind == task.target.kind
        and not (operator and r.task.workload.op == task.workload.op)
    ]  # fmt: skip
    return _trained(tuple(left))


@functools.cache
def _trained(names: tuple[str, ...]) -> TransferModel:
    return TransferModel.trained([run_of(n) for n in names])


def gpu_runs() -> list[tuple[Timed, Run]]:
    """What each run on a GPU teaches."""
    timed, left = gpu_rows.load()
    print(f"cuda: {sum(len(t.seconds) for t in timed)} schedules in {len(timed)} runs; left out: {dict(left) or 0}")
    made = ((t, learned(FeatureExtractor(t.task), t.records)) for t in timed)
    return [(t, run) for t, run in made if run is not None]


RUNS: dict[str, Callable[[], Sequence[Run]]] = {
    "cpu": lambda: [run_of(n) for n in every()],
    "cuda": lambda: [run for _, run in gpu_runs()],
}
"""What the model of each kind of target is trained on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", choices=[[], *RUNS], help="kinds of targets (all)")
    args = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    for kind in args.kind or RUNS:
        runs = RUNS[kind]()
        data = TransferModel.trained(runs).save()
        (OUT / f"{kind}.model").write_bytes(data)
        print(f"{kind}: {len(runs)} runs, {len(data)} bytes")


if __name__ == "__main__":
    main()
