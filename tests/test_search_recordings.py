"""The recordings that decide about the search: complete, loadable, and searched deterministically."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tilewright.core import IllegalSchedule
from tilewright.cost_model import FeatureExtractor

SEARCH = Path(__file__).parents[1] / "benchmarks" / "search"
sys.path.insert(0, str(SEARCH))
import pretrain  # noqa: E402
import recordings  # noqa: E402

# Other tests have a module called "replay".
_spec = importlib.util.spec_from_file_location("search_replay", SEARCH / "replay.py")
assert _spec is not None
assert _spec.loader is not None
replay = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(replay)


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
    r = pretrain.every()["turned"]
    path = tmp_path / "turned.json.gz"
    recordings.save(path, r.task, r.space, r.passes, r.failures, r.machine)
    again = recordings.load(path)
    assert again.seconds == r.seconds
    assert path.read_bytes() == (recordings.FOLDER / "turned.json.gz").read_bytes()


def test_thinning_keeps_the_default_and_its_size() -> None:
    r = pretrain.every()["rows"]
    [space] = recordings.thinned_union(r.task, 40).spaces
    assert 10 < space.size <= 40
    space.check(r.default)
    with pytest.raises(IllegalSchedule):
        space.check(next(s for s in r.outcomes if s not in set(space)))


@pytest.mark.parametrize("who", ["evolutionary, untrained", "evolutionary", "random"])
def test_a_replay_is_deterministic_and_finds_the_best_in_the_end(who: str) -> None:
    r = pretrain.every()["rows"]
    features = FeatureExtractor(r.task, space=r.space)
    once, again = (
        replay.search(replay.CONTESTANTS[who](r, features, 3), r, len(r.outcomes) if who == "random" else 40, 4)
        for _ in range(2)
    )
    assert once == again
    assert once == sorted(once, reverse=True)
    assert once[-1] < 1.05 if who != "random" else once[-1] == 1.0


def test_corrected_p_values_are_holms() -> None:
    assert replay.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})
    assert replay.worse_than([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert replay.worse_than([2.0] * 8, [1.0] * 8) < 0.05 < replay.worse_than([1.0] * 8, [2.0] * 8)
