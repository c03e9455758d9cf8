"""A cost model for all tasks of a kind of target, on features that are comparable between tasks.

The package ships a model for each kind of target with recordings; a user's own trials train more trees on top.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.caching import cached_property
from tilewright.core import Schedule, TrialRecord
from tilewright.cost_model.base import CostModelError
from tilewright.cost_model.features import BESIDE, FeatureExtractor, Matrix, align
from tilewright.cost_model.pairs import PARAMS, Floats, Pairs, log_speeds, train, xgboost
from tilewright.cost_model.transferable import VERSION
from tilewright.cost_model.trees import Trees

FIRST, MORE = 200, 40
"""Numbers of trees of a new model, and of trees added to an old model."""
SHARED_PARAMS = {**PARAMS, "max_depth": 5, "eta": 0.1, "subsample": 0.8, "colsample_bytree": 0.5}

LEAST = 4
"""Least number of timed trials of a run that is used for training."""
MOST = 320
"""Largest number of a run's trials that are used for training: pairs grow with the square."""

Run = tuple[tuple[str, ...], Matrix, Pairs]
"""The trials of one run: names of the columns, features, pairs."""


@dataclass(frozen=True)
class TransferModel:
    """``names``: feature columns, of :data:`~tilewright.cost_model.transferable.FEATURES` and templates' own features.
    ``data``: the trees in XGBoost's format ``ubj``."""

    names: tuple[str, ...]
    data: bytes

    @cached_property
    def trees(self) -> Trees:
        return Trees(self.data)

    @property
    def booster(self) -> Any:
        """The trees in XGBoost's Python package, for training more trees on top."""
        return xgboost().Booster({"nthread": 1, "verbosity": 0}, model_file=bytearray(self.data))

    @classmethod
    def trained(cls, runs: Sequence[Run], seed: int = 0, on: TransferModel | None = None) -> TransferModel:
        """Train a model on one or more runs, on top of model ``on``, whose features it keeps."""
        names = on.names if on else tuple(dict.fromkeys(n for known, _, _ in runs for n in known))
        data = [(align(matrix, known, names), pairs) for known, matrix, pairs in runs]
        # More cycles of any kind must not predict a faster schedule: trials of few tasks may suggest it by accident.
        slower = tuple(-int(n.removeprefix(BESIDE).startswith("cycles.")) for n in names)
        params = {**SHARED_PARAMS, "monotone_constraints": slower}
        booster = train(data, MORE if on else FIRST, seed, None, params, on.booster if on else None)
        return cls(names, bytes(booster.save_raw("ubj")))

    def scores(self, names: Sequence[str], matrix: Matrix) -> Floats:
        """Scores of schedules of one task, higher is better. ``matrix``: columns called ``names``."""
        return self.trees.scores(align(matrix, names, self.names)) if len(matrix) else np.zeros(0)

    def save(self) -> bytes:
        """The model as bytes, with the header that :meth:`load` checks."""
        body = zlib.compress(self.data, 9)
        head = {"features": VERSION, "names": list(self.names), "sha256": sha256(body).hexdigest()}
        return json.dumps(head).encode() + b"\n" + body

    @classmethod
    def load(cls, data: bytes, what: str = "the saved cost model") -> TransferModel:
        """Raises ``CostModelError``, naming ``what``, for a damaged model or one with other features."""
        damaged = CostModelError(f"{what} is damaged", "Delete it; tuning continues without it")
        head, _, body = data.partition(b"\n")
        try:
            facts = json.loads(head)
            version, names = facts["features"], tuple(facts["names"])
            intact = facts["sha256"] == sha256(body).hexdigest()
        except (ValueError, KeyError, TypeError) as error:
            raise damaged from error
        if version != VERSION:
            raise CostModelError(
                f"{what} has features of version {version}, this is version {VERSION}",
                "Train it again (tilewright model train), or delete it",
            )
        if not intact:
            raise damaged
        try:
            model = cls(names, zlib.decompress(body))
            _ = model.trees
        except (ValueError, zlib.error) as error:
            raise damaged from error
        return model


@cache
def shipped(kind: str) -> TransferModel | None:
    """The model that the package ships for a kind of target, or ``None``."""
    path = Path(__file__).with_name("pretrained") / f"{kind}.model"
    return TransferModel.load(path.read_bytes(), f"the shipped cost model for {kind}") if path.is_file() else None


def usable(
    features: FeatureExtractor, records: Sequence[TrialRecord], most: int = MOST
) -> tuple[list[Schedule], Pairs] | None:
    """The trials that can be used for training, or ``None`` if they are too few.

    Of more than ``most`` trials: the fastest ``most / 2``, and ``most / 2`` spread evenly over the rest.
    """
    if len(records) > most:
        order = np.argsort(-log_speeds(records), kind="stable")
        spread = np.linspace(most // 2, len(order) - 1, most - most // 2).astype(int)
        records = [records[i] for i in np.sort(order[np.concatenate([np.arange(most // 2), spread])])]
    known = [r for r in records if features.known(r.schedule)]
    speeds = log_speeds(known)
    if np.isfinite(speeds).sum() < LEAST:
        return None
    return [r.schedule for r in known], Pairs(speeds)


def learned(features: FeatureExtractor, records: Sequence[TrialRecord], most: int = MOST) -> Run | None:
    """A run as training data for other tasks; ``None`` if its trials are too few. ``features``: of the run's task."""
    found = usable(features, records, most)
    return None if found is None else (features.shared_names, features.shared(found[0]), found[1])
