"""Train the cost model that is shipped, from the committed recordings.

    python benchmarks/search/pretrain.py    (a minute; writes src/tilewright/cost_model/pretrained/cpu.model)

The same recordings give the same bytes. What such a model foresees of tasks that it never saw: `model.py`.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

import recordings
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    OUT.mkdir(exist_ok=True)
    kinds = {n: r.task.target.kind for n, r in every().items()}
    for kind in sorted(set(kinds.values())):
        model = TransferModel.trained([run_of(n) for n in kinds if kinds[n] == kind])
        data = model.save()
        (OUT / f"{kind}.model").write_bytes(data)
        print(f"{kind}: {list(kinds.values()).count(kind)} recordings, {len(data)} bytes")


if __name__ == "__main__":
    main()
