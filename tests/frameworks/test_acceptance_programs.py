"""The programs of GPU acceptance: their modules, and the rows that ways to run them become. Ways are plain calls here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.waiting import hang

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from acceptance import programs
from acceptance.modules import PROGRAMS
from acceptance.rows import SPOILT, Teller

WORLD: Any = SimpleNamespace(emulated=True)
NAME = "programs/llama_decode_1/forward"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_answers_alike_in_bfloat16_and_in_float32(name: str, tmp_path: Path) -> None:
    for training in (False, True)[: 1 + PROGRAMS[name].trained]:
        one = programs.subject(WORLD, name, training, tmp_path, 1.0)
        off = programs._distance(one.run(one.module)(), programs._wide(one))
        assert off < (0.6 if training else 0.05)  # gradients of a few numbers


def test_passes_are_named_with_forward_passes_first() -> None:
    found = list(programs.names())
    assert found[0] == "programs/bert_8x512/forward"
    assert [n.rpartition("/")[2] for n in found] == sorted(
        (n.rpartition("/")[2] for n in found), key=programs.PASSES.index
    )
    assert "programs/llama_decode_1/training" not in found


def rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path,
    ways: Callable[[programs.Subject], dict[str, Any]], known: list[dict[str, Any]],
) -> dict[str, dict[str, Any]]:  # fmt: skip
    monkeypatch.setattr(programs, "_ways", ways)
    monkeypatch.setattr(programs, "TURNS", 0.01)
    monkeypatch.setattr(programs, "SAMPLE", 1e-4)
    programs.measured(WORLD, Teller(known), NAME, folder, 1.0, known)
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {r["id"].removeprefix(f"{NAME}/"): r for r in said if "id" in r}


def test_ways_that_answer_right_take_turns_and_a_wrong_one_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def ways(one: programs.Subject) -> dict[str, Any]:
        def broken() -> Any:
            raise ValueError("no such kernel")

        right, wrong = one.run(one.module), one.run(lambda *a: 2 * one.module(*a))
        return {"eager": lambda: right, "compile": broken, "tilewright": lambda: right, "max-autotune": lambda: wrong}

    known: list[dict[str, Any]] = []
    found = rows(monkeypatch, capsys, tmp_path, ways, known)
    assert {way: r["state"] for way, r in found.items()} == {
        "eager": "measured", "compile": "refused", "tilewright": "measured", "max-autotune": "wrong_result",
        "beside": "measured",
    }  # fmt: skip
    assert (found["beside"]["best"], found["beside"]["fastest"]) == ("tilewright", "eager")
    assert found["beside"]["low"] <= found["beside"]["speedup"] <= found["beside"]["high"]
    again = rows(monkeypatch, capsys, tmp_path, ways, [{**r, "id": f"{NAME}/{way}"} for way, r in found.items()])
    assert "max-autotune" not in again
    assert programs.summary([{**found["beside"]}]).startswith("forward: ")


def test_a_way_that_is_late_ends_the_child_with_its_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def ways(one: programs.Subject) -> dict[str, Any]:
        def waits() -> Any:
            try:
                hang()
            except Exception:  # as tuners and compilers do
                return one.run(one.module)

        return {"eager": waits}

    monkeypatch.setattr(programs, "READY", 0.005)
    with pytest.raises(SystemExit) as e:
        rows(monkeypatch, capsys, tmp_path, ways, [])
    assert e.value.code == SPOILT
    assert '"state": "refused", "message": "not ready within' in capsys.readouterr().out


def test_nan_is_far_from_any_answer() -> None:
    one = torch.ones(3)
    assert programs._distance([one, one * float("nan")], [one, one]) == float("inf")
    assert programs._distance([one * 1.5], [one]) == 0.5
