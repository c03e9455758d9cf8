"""Gradient-boosted trees that rank schedules (XGBoost).

The objective compares pairs of trials of one task: with scores ``s`` and log-speeds ``y``, it pulls
``sigmoid(s_i - s_j)`` towards ``sigmoid((y_i - y_j) / temperature)``, so only differences within a task
matter and tasks of very different size train one model. Pairs with a fast member weigh more, a failure
loses against every success, and two failures are not compared.

There are three ensembles: *shared* learns from other tasks (or is loaded), *own* corrects it for this
task's trials, and *quick* knows this task's knobs only, which cost nothing to compute, to screen
thousands. Before there is anything to learn from, an analytic model answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from copy import copy
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core import Schedule, Task, TrialRecord
from tilewright.cost_model.base import CostModel, CostModelError, Scores
from tilewright.cost_model.features import FEATURE_VERSION, FeatureExtractor, Matrix, align
from tilewright.cost_model.gpu_prior import analytic_prior

ROUNDS = 40
PARAMS = {
    "tree_method": "hist",
    "max_depth": 4,
    "eta": 0.2,
    "lambda": 1.0,
    "min_child_weight": 0.0,
    "max_bin": 32,
    "colsample_bytree": 0.8,
    "base_score": 0.0,
    "nthread": 1,
    "verbosity": 0,
    "disable_default_eval_metric": 1,
}
TEMPERATURE = 0.1
"""Log-speed difference that one unit of score stands for."""
TOP_WEIGHT = 0.5
"""A pair weighs (time of the task's best / time of its faster member) to this power."""
LEAST = 8
"""Timed trials below which a task teaches nothing."""
MOST = 320
"""Trials of this task that are learned from: pairs grow with the square."""
MOST_OTHER = 96
"""Trials of another task that are learned from: their features must be computed first."""
REFIT = 4
"""Trials that must arrive before the model is fitted again."""

Floats = NDArray[np.float64]


def _xgboost() -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise CostModelError(
            "the cost model 'xgboost' needs the package xgboost, which is not installed",
            "Run: pip install 'tilewright[tune]'",
        ) from error
    return xgboost


def log_speeds(records: Sequence[TrialRecord]) -> Floats:
    """``-log(seconds)`` of each trial; ``-inf`` for a failure."""
    return np.array([-math.log(r.seconds) if r.seconds else -math.inf for r in records], np.float64)


class Group:
    """The trials of one task as pairs: features, wanted order, weights."""

    def __init__(self, matrix: Matrix, speeds: Floats) -> None:
        self.matrix = matrix
        self.speeds = speeds
        timed = np.isfinite(speeds)
        filled = np.where(timed, speeds, -np.inf)
        gap = np.zeros((len(speeds), len(speeds)))
        both = timed[:, None] & timed[None, :]
        with np.errstate(invalid="ignore"):
            np.subtract(filled[:, None], filled[None, :], out=gap, where=both)
        wanted = 1.0 / (1.0 + np.exp(-np.clip(gap / TEMPERATURE, -30.0, 30.0)))
        wanted[timed[:, None] & ~timed[None, :]] = 1.0
        wanted[~timed[:, None] & timed[None, :]] = 0.0
        share = np.where(timed, np.exp(filled - speeds[timed].max()), 0.0) ** TOP_WEIGHT
        weight = np.maximum(share[:, None], share[None, :])
        weight[~timed[:, None] & ~timed[None, :]] = 0.0
        weight /= weight.sum(axis=1).mean()
        self.wanted = wanted.astype(np.float32)
        self.weight = weight.astype(np.float32)

    def narrowed(self, width: int) -> Group:
        """The same pairs with the first ``width`` features only."""
        other = copy(self)
        other.matrix = self.matrix[:, :width]
        return other

    def gradient(self, scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """First and second derivative of the pair loss by each score."""
        chance = 1.0 / (1.0 + np.exp(np.clip(scores[None, :] - scores[:, None], -30.0, 30.0)))
        first = (self.weight * (chance - self.wanted)).sum(axis=1)
        second = (self.weight * chance * (1.0 - chance)).sum(axis=1) + 1e-6
        return first, second


def train(groups: Sequence[Group], margins: Sequence[Floats] | None, seed: int, start: Any = None) -> Any:
    """A booster fitted to the groups, on top of given ``margins`` (per group) or of ``start``."""
    xgb = _xgboost()
    data = xgb.DMatrix(np.concatenate([g.matrix for g in groups]), nthread=1)
    data.set_label(np.concatenate([np.where(np.isfinite(g.speeds), g.speeds, 0.0) for g in groups]))
    if margins is not None:
        data.set_base_margin(np.concatenate(margins))
    edges = np.cumsum([len(g.speeds) for g in groups])[:-1]

    def objective(scores: NDArray[np.float32], _: Any) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        parts = [g.gradient(s) for g, s in zip(groups, np.split(scores, edges), strict=True)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    return xgb.train({**PARAMS, "seed": seed}, data, ROUNDS, obj=objective, xgb_model=start)


def margin(booster: Any, matrix: Matrix) -> Floats:
    return np.asarray(booster.inplace_predict(matrix, predict_type="margin"), np.float64)


class XGBoostCostModel:
    """Ranks by boosted trees; see the module's text.

    ``prior`` answers before there are enough trials; ``extractor`` makes the features of other tasks.
    """

    def __init__(
        self,
        task: Task,
        *,
        seed: int = 0,
        features: FeatureExtractor | None = None,
        prior: CostModel | None = None,
        extractor: Callable[[Task], FeatureExtractor] = FeatureExtractor,
    ) -> None:
        _xgboost()
        self.task = task
        self.seed = seed
        self.features = features or FeatureExtractor(task)
        self.prior = prior or analytic_prior(task, self.features)
        self._extractor = extractor
        self._records: list[TrialRecord] = []
        self._fitted: tuple[int, str] = (0, "")
        self._own: Any = None
        self._scale = (TEMPERATURE, 0.0)
        self._quick: Any = None
        self._others: dict[str, tuple[tuple[str, ...], Group]] = {}
        self._loaded: Any = None
        self._loaded_names: tuple[str, ...] = ()
        self._shared: Any = None
        self._shared_names: tuple[str, ...] = ()
        self._stale = False

    # ------------------------------------------------------------------ learning

    def update(self, records: Sequence[TrialRecord], task: Task | None = None) -> None:
        if task is None or task.key == self.task.key:
            self._records = list(records)
            return
        features = self._extractor(task)
        group = _group(features, records, MOST_OTHER)
        if group is not None:
            self._others[task.key] = (features.names, group)
            self._stale = True

    def _refresh(self) -> None:
        if self._stale:
            self._shared_names, self._shared = self._pool(list(self._others.values()))
            self._stale = False
            self._fitted = (-1, "")
        count = len(self._records) // REFIT * REFIT
        mark = (count, self._records[count - 1].schedule.key if count else "")
        if mark == self._fitted:
            return
        self._fitted = mark
        group = _group(self.features, self._records[:count])
        self._own, self._quick, self._scale = None, None, (TEMPERATURE, 0.0)
        if group is None:
            return
        base = self._base(group.matrix)
        self._own = train([group], None if base is None else [base], self.seed)
        self._scale = _calibrate(self._raw(group.matrix), group.speeds)
        width = len(self.features.space.feature_names)
        self._quick = train([group.narrowed(width)], None, self.seed) if width else None

    def _pool(self, groups: list[tuple[tuple[str, ...], Group]]) -> tuple[tuple[str, ...], Any]:
        """One ensemble for several tasks, on top of the loaded one (whose columns it keeps)."""
        if self._loaded is not None:
            names = self._loaded_names
        else:
            names = tuple(dict.fromkeys(n for ns, _ in groups for n in ns))
        aligned = [Group(align(g.matrix, ns, names), g.speeds) for ns, g in groups]
        return names, train(aligned, None, self.seed, self._loaded)

    # ------------------------------------------------------------------ answering

    def predict(self, schedules: Sequence[Schedule]) -> Scores:
        self._refresh()
        if self._own is None and self._shared is None:
            return self.prior.predict(schedules)
        if not schedules:
            return np.zeros(0)
        factor, offset = self._scale
        return factor * self._raw(self.features.matrix(schedules)) + offset

    def screen(self, schedules: Sequence[Schedule]) -> Scores:
        self._refresh()
        if self._quick is None or not schedules:
            return np.zeros(len(schedules))
        return margin(self._quick, self.features.knobs(schedules))

    def _base(self, matrix: Matrix) -> Floats | None:
        if self._shared is None:
            return None
        return margin(self._shared, align(matrix, self.features.names, self._shared_names))

    def _raw(self, matrix: Matrix) -> Floats:
        base = self._base(matrix)
        if self._own is None:
            assert base is not None
            return base
        own = margin(self._own, matrix)
        return own if base is None else own + base

    # ------------------------------------------------------------------ keeping

    def save(self) -> bytes:
        groups = list(self._others.values())
        own = _group(self.features, self._records)
        if own is not None:
            groups.append((self.features.names, own))
        if groups:
            names, booster = self._pool(groups)
        elif self._loaded is not None:
            names, booster = self._loaded_names, self._loaded
        else:
            return b""
        body = bytes(booster.save_raw("ubj"))
        head = {"features": FEATURE_VERSION, "names": list(names), "sha256": sha256(body).hexdigest()}
        return json.dumps(head).encode() + b"\n" + body

    def load(self, data: bytes) -> None:
        if not data:
            return
        damaged = CostModelError("the saved cost model is damaged", "Delete it; tuning trains a new one")
        head, _, body = data.partition(b"\n")
        try:
            facts = json.loads(head)
            version, names = facts["features"], tuple(facts["names"])
            intact = facts["sha256"] == sha256(body).hexdigest()
        except (ValueError, KeyError, TypeError) as error:
            raise damaged from error
        if version != FEATURE_VERSION:
            raise CostModelError(
                f"the saved cost model has features of version {version}, this is version {FEATURE_VERSION}",
                "Delete it; tuning trains a new one",
            )
        if not intact:
            raise damaged
        xgb = _xgboost()
        booster = xgb.Booster({"nthread": 1, "verbosity": 0})
        try:
            booster.load_model(bytearray(body))
        except xgb.core.XGBoostError as error:
            raise damaged from error
        self._loaded, self._loaded_names = booster, names
        self._shared, self._shared_names = booster, names
        self._stale = bool(self._others)
        self._fitted = (-1, "")


def _group(features: FeatureExtractor, records: Sequence[TrialRecord], most: int = MOST) -> Group | None:
    """The trials that can be learned from, or ``None`` if they are too few.

    Of more than ``most``, the fastest half of that, and as many spread evenly over the slower ones.
    """
    if len(records) > most:
        order = np.argsort(-log_speeds(records), kind="stable")
        spread = np.linspace(most // 2, len(order) - 1, most - most // 2).astype(int)
        records = [records[i] for i in np.sort(order[np.concatenate([np.arange(most // 2), spread])])]
    usable = [r for r in records if features.known(r.schedule)]
    speeds = log_speeds(usable)
    if np.isfinite(speeds).sum() < LEAST:
        return None
    return Group(features.matrix([r.schedule for r in usable]), speeds)


def _calibrate(raw: Floats, speeds: Floats) -> tuple[float, float]:
    """Factor and offset that turn scores into log-speeds; the factor is positive, so ranks stay."""
    timed = np.isfinite(speeds)
    x, y = raw[timed], speeds[timed]
    spread = float(((x - x.mean()) ** 2).sum())
    factor = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    if factor <= 0:
        factor = TEMPERATURE
    return factor, float(y.mean() - factor * x.mean())
