"""The model of all tasks: its bytes, what it refuses, and that it keeps what it was trained on."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tilewright.cost_model import CostModelError
from tilewright.cost_model.pairs import Pairs
from tilewright.cost_model.transfer import Run, TransferModel, shipped
from tilewright.testing.cost_model import chance_of_order


def run(seed: int, names: tuple[str, ...] = ("a", "b", "c"), away: float = 0.0) -> Run:
    """Trials whose speed is ``a``, on a scale of the run's own."""
    matrix = np.random.default_rng(seed).random((80, len(names))).astype(np.float32)
    return names, matrix, Pairs(matrix[:, names.index("a")].astype(np.float64) * 3.0 + away)


def foreseen(model: TransferModel, seed: int = 9, names: tuple[str, ...] = ("a", "b", "c")) -> float:
    _, matrix, pairs = run(seed, names)
    return chance_of_order(list(model.scores(names, matrix)), list(pairs.speeds))


def test_runs_of_different_scale_and_columns_teach_one_model() -> None:
    model = TransferModel.trained([run(1), run(2, ("x", "a"), away=50.0)])
    assert model.names == ("a", "b", "c", "x")
    assert foreseen(model) > 0.95
    assert foreseen(model, names=("c", "a")) > 0.9
    assert model.scores(("a",), np.zeros((0, 1), np.float32)).shape == (0,)


def test_more_trees_on_top_keep_the_columns_and_what_was_learned() -> None:
    old = TransferModel.trained([run(1)])
    new = TransferModel.trained([run(2, ("a", "y"))], on=old)
    assert new.names == old.names
    assert foreseen(new) > 0.9
    assert new.booster.num_boosted_rounds() > old.booster.num_boosted_rounds()


def test_bytes_and_back() -> None:
    model = TransferModel.trained([run(1)])
    data = model.save()
    again = TransferModel.load(data)
    names, matrix, _ = run(3)
    assert (again.scores(names, matrix) == model.scores(names, matrix)).all()
    assert again.save() == data


def test_scores_are_those_of_xgboosts_package() -> None:
    rng = np.random.default_rng(4)
    for model in (TransferModel.trained([run(1)]), shipped("cpu"), shipped("cuda")):
        assert model is not None
        matrix = rng.normal(scale=10.0, size=(300, len(model.names))).astype(np.float32)
        matrix[rng.random(matrix.shape) < 0.1] = np.nan
        wanted = model.booster.inplace_predict(matrix, predict_type="margin")
        for given in (matrix, np.asfortranarray(matrix)):
            assert (model.scores(model.names, given) == wanted).all()


def test_what_it_refuses_by_name() -> None:
    data = TransferModel.trained([run(1)]).save()
    head, _, body = data.partition(b"\n")
    facts = json.loads(head)
    newer = json.dumps({**facts, "features": facts["features"] + 1}).encode() + b"\n" + body
    with pytest.raises(CostModelError, match=r"here\.model has features of version"):
        TransferModel.load(newer, "here.model")
    for damaged in (b"", b"not a model", data[: len(data) // 2], data[:-1], head):
        with pytest.raises(CostModelError, match=r"here\.model is damaged"):
            TransferModel.load(damaged, "here.model")
