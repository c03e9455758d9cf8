"""The catalogue of example programs: what is entered under a label is found by it."""

from __future__ import annotations

import pytest

from tilewright.core import UsageError
from tilewright.testing import catalogue, contractions, programs
from tilewright.testing.catalogue import enter, examples


def test_programs_are_selected_by_any_of_their_labels() -> None:
    assert examples("language") == programs.PROGRAMS
    both = examples("language", "contraction")
    assert both == {**programs.PROGRAMS, **contractions.CONTRACTIONS}
    assert examples("contraction")["matmul"] is programs.matmul
    with pytest.raises(UsageError, match="no program has the label 'contractions'"):
        examples("contractions")


def test_a_label_takes_each_name_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "CATALOGUE", {})
    enter("products", {"matmul": programs.matmul})
    enter("products", {"dot": programs.int8_dot})
    assert list(catalogue.examples("products")) == ["matmul", "dot"]
    with pytest.raises(UsageError, match="'products' has a program 'dot' already"):
        enter("products", {"dot": programs.matmul})
