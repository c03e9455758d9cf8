"""What each part of the default search brings: the same search without it, on recorded spaces.

    python benchmarks/search/ablation.py --seeds 5 --out benchmarks/results/search_ablation     (ten minutes, two cores)
    python benchmarks/search/ablation.py --only skinny tall --strategies all "no own trees"
    python benchmarks/search/ablation.py --check         (exits with 1 where a part does harm)

`all` is the search of `replay.py` that knows the other recordings. Every other contestant lacks one part. Those about
templates differ only on recordings of several. The first table says by how much a search without the part has more area
under its curve, in the mean, with the p-value of a one-sided sign-rank test over recordings and seeds.

It writes OUT.jsonl and OUT.md as `replay.py` does.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pretrain
import replay
from recordings import Recording
from replay import Job, Make
from report import settle

from tilewright.core import Schedule, TrialRecord
from tilewright.cost_model import FeatureExtractor, xgb
from tilewright.cost_model.base import Scores
from tilewright.cost_model.xgb import XGBoostCostModel
from tilewright.search_space import union
from tilewright.tuner.strategies import evolutionary
from tilewright.tuner.strategies.base import Strategy
from tilewright.tuner.strategies.evolutionary import Draw, EvolutionaryStrategy, Ranked

HARM = 0.01
"""A part does harm where the search has less area without it, with a p-value below this."""


@dataclass(frozen=True)
class Part:
    """How the search is made that lacks it. ``constants``: modules' values while it runs, by module and name."""

    make: Make
    constants: Mapping[tuple[Any, str], object] = field(default_factory=dict)
    batch: int | None = None


class Unseeded(XGBoostCostModel):
    """Has no opinion before the search breeds, so that its first proposals are random."""

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        return super().predict(schedules) if len(self._records) >= evolutionary.WARM_UP else np.zeros(len(schedules))


class Even(EvolutionaryStrategy):
    """Draws every template as often as the others."""

    def _draw(self, history: Sequence[TrialRecord]) -> Draw:
        live = self.space.live

        def draw(rng: random.Random) -> Schedule:
            return live[rng.randrange(len(live))].sample(rng)

        return draw


def best(ranked: Ranked, count: int, *_: Any, **__: Any) -> Ranked:
    """The best of them, whatever their structures."""
    return ranked[:count]


def searching(
    strategy: type[EvolutionaryStrategy] = EvolutionaryStrategy,
    model: type[XGBoostCostModel] = XGBoostCostModel,
    start: bool = True,
) -> Make:
    """The search of ``replay.py`` that knows the other recordings, of other parts."""

    def make(recording: Recording, features: FeatureExtractor, seed: int) -> Strategy:
        judge = model(recording.task, seed=seed, features=features, transfer=pretrain.without(recording.name, False))
        initial = replay.first(recording) if start else ()
        return strategy(recording.space, seed=seed, cost_model=judge, initial=initial)

    return make


PARTS: dict[str, Part] = {
    "all": Part(replay.ours("tasks")),
    "no default": Part(searching(start=False)),
    "untrained": Part(replay.ours("nothing")),
    "no model": Part(replay.CONTESTANTS["evolutionary, no model"]),
    "no own trees": Part(searching(), {(xgb, "ROUNDS"): 0}),
    "trust not weighed": Part(searching(), {(xgb, "TRUST"): (1.0,)}),
    "random warm-up": Part(searching(model=Unseeded)),
    "no random proposals": Part(searching(), {(evolutionary, "EPSILON"): 0.0}),
    "no crossover": Part(searching(), {(evolutionary, "CROSSOVER"): 0.0}),
    "one generation": Part(searching(), {(evolutionary, "GENERATIONS"): 1}),
    "structures not spread": Part(searching(), {(evolutionary, "diverse"): best}),
    "templates drawn evenly": Part(searching(Even)),
    "no mutation across templates": Part(searching(), {(union, "ACROSS"): 0.0}),
    "batches of 16": Part(searching(), batch=16),
}
"""The search without each part, by what it lacks."""


@contextmanager
def constants(part: Part) -> Iterator[None]:
    """Modules' values as the part wants them."""
    with ExitStack() as stack:
        for (module, name), value in part.constants.items():
            stack.enter_context(patch.object(module, name, value))
        yield


def play(job: Job) -> dict[str, Any]:
    """One contestant on one recording with one seed: a row."""
    name, contestant, seed, trials, batch = job
    part = PARTS[contestant]
    with constants(part):
        made = (name, contestant, seed, trials, part.batch or batch)
        return replay.play(made, {contestant: part.make})


def compared(lines: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, float]]:
    """What each contestant lacks, the area that this costs in the mean, and how likely that is if it costs nothing."""
    whole = {x["recording"]: x["area"] for x in lines if x["strategy"] == "all"}
    out = []
    for name in dict.fromkeys(x["strategy"] for x in lines if x["strategy"] != "all"):
        own = [x for x in lines if x["strategy"] == name]
        pairs = [(math.exp(a), math.exp(b)) for x in own for a, b in zip(x["area"], whole[x["recording"]], strict=True)]
        cost = statistics.fmean(math.log(a / b) for a, b in pairs)
        out.append((name, cost, replay.worse_than([a for a, _ in pairs], [b for _, b in pairs])))
    return out


def table(found: Sequence[tuple[str, float, float]]) -> str:
    """What each part brings."""
    out = ["| without | area more | p-value |", "|---|---:|---:|"]
    return "\n".join([*out, *(f"| {name} | {cost:+.4f} | {p:.2g} |" for name, cost, p in found)]) + "\n"


def main() -> None:
    parser = replay.arguments(__doc__, PARTS, list(PARTS))
    parser.add_argument("--check", action="store_true", help="exit with 1 where a part does harm")
    args = parser.parse_args()
    if "all" not in args.strategies:
        parser.error("--strategies needs 'all', with which the others are compared")
    lines = replay.replayed(args, play)
    found = compared(lines)
    print(table(found))
    if args.out:
        path = args.out.with_suffix(".md")
        path.write_text(table(found) + "\n" + path.read_text())
    # How likely a search without the part would be as good or better, were the part worth nothing.
    harmful = [name for name, cost, p in found if cost < 0 and p > 1 - HARM]
    settle([f"the search is better: {name}" for name in harmful], args.check)


if __name__ == "__main__":
    main()
