"""The recordings that decide about the search: complete, loadable, and searched deterministically."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np
import pytest

from tilewright.backends.cuda.archs import target
from tilewright.core import IllegalSchedule, Schedule, Task, Value
from tilewright.cost_model import FeatureExtractor
from tilewright.kernels.operators import get_operator
from tilewright.kernels.templates import default_schedule
from tilewright.tuner.prepare import neighbours

SEARCH = Path(__file__).parents[1] / "benchmarks" / "search"
sys.path.insert(0, str(SEARCH))
import gpu_rows  # noqa: E402
import pretrain  # noqa: E402
import recordings  # noqa: E402


def script(name: str) -> ModuleType:
    """A script of the folder, under a name of its own: other tests have modules called "replay" and "model"."""
    spec = importlib.util.spec_from_file_location(f"search_{name}", SEARCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


replay = script("replay")
model = script("model")
gpu_model = script("gpu_model")
with patch.dict(sys.modules, {"replay": replay}):
    ablation = script("ablation")


@cache
def recording(name: str) -> recordings.Recording:
    """One alone: reading all takes two seconds."""
    return recordings.load(recordings.FOLDER / f"{name}.json.gz")


def test_every_recording_is_whole_and_of_todays_templates() -> None:
    every = pretrain.every()
    assert len(every) >= 12
    for name, r in every.items():
        assert len(r.outcomes) == r.space.size, name
        for schedule in list(r.outcomes)[::97]:
            r.space.check(schedule)
        assert r.default in r.outcomes
        assert r.machine["processor"]
        assert r.noise < 0.25
        assert sum(len(times) >= 3 for times in r.passes.values()) >= min(16, len(r.passes))


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    r = recording("rows")
    path = tmp_path / "rows.json.gz"
    recordings.save(path, r.task, r.space, r.passes, r.failures, r.machine)
    again = recordings.load(path)
    assert again.seconds == r.seconds
    assert path.read_bytes() == (recordings.FOLDER / "rows.json.gz").read_bytes()


def test_thinning_keeps_the_default_and_its_size() -> None:
    r = recording("rows")
    [space] = recordings.thinned_union(r.task, 40).spaces
    assert 10 < space.size <= 40
    space.check(r.default)
    with pytest.raises(IllegalSchedule):
        space.check(next(s for s in r.outcomes if s not in set(space)))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording to search and two small ones to learn from: learning from all takes five seconds."""
    every = {name: recording(name) for name in ("rows", "turned", "depthwise")}
    monkeypatch.setattr(pretrain, "every", lambda: every)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("who", ["evolutionary, untrained", "evolutionary", "random"])
def test_a_replay_is_deterministic_and_finds_the_best_in_the_end(who: str) -> None:
    r = recording("rows")
    features = FeatureExtractor(r.task, space=r.space)
    once, again = (
        replay.search(replay.CONTESTANTS[who](r, features, 3), r, trials, 4)
        for trials in (len(r.outcomes) if who == "random" else 40, 24)
    )
    assert again == once[:24]
    assert once == sorted(once, reverse=True)
    assert once[-1] < 1.05 if who != "random" else once[-1] == 1.0


def test_corrected_p_values_are_holms() -> None:
    assert replay.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert replay.worse_than([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert replay.worse_than([2.0] * 8, [1.0] * 8) < 0.05 < replay.worse_than([1.0] * 8, [2.0] * 8)


def rows_of(task: Task, schedules: list[Schedule], **more: object) -> list[str]:
    """Rows as an acceptance run writes them, one schedule slower than the one before it."""
    label, device = task.workload.label, "NVIDIA H200"
    return [
        json.dumps({"id": f"light/{label}/{n}", "us": 10.0 + n, "schedule": s.to_json(), "device": device, **more})
        for n, s in enumerate(schedules)
    ]


def changed(schedule: Schedule, **values: Value) -> Schedule:
    """A schedule as an older version may have written it."""
    knobs = {**schedule.values, **values}
    return replace(schedule, version=1, structure=tuple(knobs.items()), launch=())


def test_rows_of_gpus_are_schedules_of_today_or_counted(tmp_path: Path) -> None:
    task = Task(get_operator("matmul").workload(m=512, n=512, k=512, dtype="bfloat16"), target("sm_90a"))
    few = Task(get_operator("softmax").workload(shape=(64, 512)), target("sm_90a"))
    default, *others = [default_schedule(task), *neighbours(task, 4)]
    before = {k: v for k, v in default.values.items() if k != "SWAP"}  # a knob that came later, and is False before it
    lines = rows_of(task, [replace(default, version=1, structure=tuple(before.items()), launch=()), *others, default])
    lines += rows_of(task, [changed(default, WARMTH=3), changed(default, BM=7)])  # a knob, and a value, of another day
    lines += rows_of(few, [default_schedule(few)])
    lines += ['{"id": "light/x/done", "state": "done"}', *rows_of(task, [default], device="a GPU of tomorrow")]
    folder = tmp_path / "gpu_x"
    folder.mkdir()
    trials = {
        "version": 1,
        "knobs": [*default.values],
        "timed": [[*s.values.values(), 5.0] for s in (default, *others)],
    }
    row = {"id": f"tune/{task.workload.label}/trials", "device": "NVIDIA H200", "templates": {default.template: trials}}
    lines.append(json.dumps({**row, "shape": task.workload.label}))
    (folder / "rows.jsonl").write_text("\n".join(lines))
    [timed, tuned], left = gpu_rows.load([folder])
    assert list(tuned.seconds.items()) == [(s, pytest.approx(5e-6)) for s in (default, *others)]
    assert timed.task == task
    assert list(timed.seconds) == [default, *others]
    assert timed.seconds[default] == pytest.approx(10e-6)  # the least of its rows
    assert [r.seconds for r in timed.records] == pytest.approx([1e-6 * (10 + n) for n in range(5)])
    assert dict(left) == {"IllegalSchedule": 2, "few schedules of a shape": 1, "TilewrightError": 1}


def test_a_judge_of_gpu_schedules_is_right_wrong_or_without_an_opinion() -> None:
    speeds = -np.log([1.0, 1.02, 1.5, 2.0])
    right = gpu_model.judged(speeds, speeds)
    assert right == {"correlation": pytest.approx(1.0), "clear": 1.0, "top2": 1.0, "top1": 1.0}
    wrong = gpu_model.judged(-speeds, speeds)
    assert wrong == {
        "correlation": pytest.approx(-1.0),
        "clear": 0.0,
        "top2": pytest.approx(1.5),
        "top1": pytest.approx(2.0),
    }
    assert gpu_model.judged(np.zeros(4), speeds)["correlation"] == 0.0
    assert list(gpu_model.ranks(np.array([5.0, 1.0, 5.0]))) == [2.5, 1.0, 2.5]


def line(recording: str, best: dict[str, list[float]]) -> dict[str, object]:
    """What a strategy found with two seeds."""
    to = {"95%": [1, 1], "98%": [1, 1]}
    return {"recording": recording, "strategy": "evolutionary", "area": [0.1, 0.1], "ms_a_trial": [1.0, 1.0], "to": to,
            "best": best}  # fmt: skip


def test_seeds_that_differ_and_cold_starts_that_are_slow_break_promises() -> None:
    steady = {"8": [1.05, 1.05], "16": [1.0, 1.0], "32": [1.0, 1.0], "64": [1.0, 1.0], "200": [1.0, 1.0]}
    lines = [line("a", steady), line("b", steady)]
    random = [x | {"strategy": "random"} for x in lines]
    assert replay.broken(lines + random) == []
    said = replay.broken([line("a", steady | {"8": [1.2, 1.2], "64": [1.0, 1.04], "200": [1.0, 1.04]}), *random])
    assert [x.split(" on ")[0] for x in said] == [
        "within 10% after 8 trials", "seeds differ by 2.0%", "seeds differ by 2.0%", "the worst seed is 1.040",
    ]  # fmt: skip
    table = replay.table(lines, "two")
    assert "| spread at 64 | spread at 200 | worst at 200 |" in table
    assert "| 2 of 2 |" in table


def test_a_judge_that_knows_the_times_is_perfect_and_chance_is_chance() -> None:
    r = recording("rows")
    logs = np.log(list(r.seconds.values()))
    knows = model.judged(r, -logs, logs, 2)
    assert (knows["pairs"], knows["clear"], knows["top8"], knows["top1"]) == (1.0, 1.0, 1.0, 1.0)
    assert 1.0 <= knows["untried"] <= knows["default"]
    assert model.judged(r, logs, logs, 1)["pairs"] == 0.0
    chance = model.chance(r)
    assert 1.0 < chance["top8"] < chance["top1"] == pytest.approx(np.exp((logs - logs.min()).mean()))
    assert 0.5 < model.ceiling(r, 1)["pairs"] < 1.0
    found = [{"recording": "rows", "judge": j, "held_out_shape": True, "of_ceiling": v["pairs"], **v}
             for j, v in (("other operators", knows), ("other shapes", chance))]  # fmt: skip
    assert all(x.startswith("other shapes") for x in model.broken(found))
    assert "| other operators | 1.000 | 1.000 | 1.000 |" in model.table(found, "one")


def test_constants_of_a_part_are_put_back() -> None:
    part = ablation.PARTS["no crossover"]
    before = ablation.evolutionary.CROSSOVER
    with ablation.constants(part):
        assert ablation.evolutionary.CROSSOVER == 0.0
    assert ablation.evolutionary.CROSSOVER == before > 0.0


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "name", ["untrained", "no own trees", "random warm-up", "structures not spread", "batches of 16"]
)
def test_a_search_that_lacks_a_part_searches_otherwise(name: str) -> None:
    rows = [
        ablation.play(("rows", n, 1, 24, 4)) | {"strategy": n}
        for n in ("untrained" if name != "untrained" else "all", name)
    ]
    assert rows[0]["area"] != rows[1]["area"]
    lines = replay.grouped([rows[0] | {"strategy": "all"}, rows[1]])
    [(lacks, cost, p)] = ablation.compared(lines)
    assert (lacks, p > 0) == (name, True)
    assert cost == pytest.approx(rows[1]["area"] - rows[0]["area"], abs=1e-4)
    assert f"| {name} |" in ablation.table([(lacks, cost, p)])
