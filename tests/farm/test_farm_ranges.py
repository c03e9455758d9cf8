"""A range of sizes tuned through a farm: a real builder and a real runner, by a server of this process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright
from harness.farm import SimulatedFarm
from tilewright.backends.cache import ArtifactCache
from tilewright.cli.app import run
from tilewright.core import UsageError
from tilewright.database import Database
from tilewright.farm.link import Endpoint
from tilewright.farm.workers.builder import Builder
from tilewright.farm.workers.runner import Runner, local_bench
from tilewright.measure.devices import describe_device
from tilewright.measure.local_target import find_local_target
from tilewright.tuner import RangeResult, TunedTask, TuneTask, tune_tasks


@pytest.fixture(params=["cpu", "emulator"])
def farm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SimulatedFarm]:
    place = find_local_target("cuda:sm_90a", "emulator") if request.param == "emulator" else find_local_target("cpu")
    everywhere = os.sched_getaffinity(0)
    bench = local_bench(place, describe_device(place))  # keeps this process off the cores that it measures on
    with SimulatedFarm(tmp_path, []) as made:

        async def join() -> None:
            made._run(Runner(Endpoint(made.address, None, "runner"), "measures", bench, ArtifactCache(tmp_path / "r")))
            # The session's cache: what all kernels of a target are linked with is not compiled for each farm.
            made._run(Builder(Endpoint(made.address, None, "builder"), "builds", ArtifactCache()))
            for service in made.services:
                await service.connected.wait()

        made.call(join())
        yield made
    os.sched_setaffinity(0, everywhere)


def test_a_farm_builds_checks_and_times_at_many_sizes(
    farm: SimulatedFarm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    db = str(tmp_path / "t.db")
    asked = ["tune", "matmul", "m=1..4", "n=40", "k=24", "--portfolio", "1", "--trials", "2", "--cost-model", "random"]
    assert run([*asked, "--farm", farm.address, "--db", db, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(k["low"], k["high"]) for k in data["kernels"]] == [(1, 4)]
    assert data["sizes"] == [1, 3, 4]
    with Database.open(db) as database:
        (kernel,) = (k for k in database.kernels("matmul") if k.task.workload.ranges)
        code = database.artifact(kernel.artifact_sha256)
    assert kernel.task.workload.label == "matmul m=1..4 n=40 k=24"
    assert code is not None
    if kernel.task.target.kind == "cpu":
        a, b = (np.random.default_rng(0).standard_normal(s, np.float32) for s in ((3, 24), (24, 40)))
        library = tilewright.Library(db)
        np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
        assert library.stats().tiers["range"] == 1


@pytest.mark.parametrize("farm", ["cpu"], indirect=True)
def test_ranges_of_a_file_through_a_farm(farm: SimulatedFarm, tmp_path: Path) -> None:
    tasks = [TuneTask("softmax", {"shape": "1..4,40"}, portfolio=1), TuneTask("softmax", {"shape": "8,40"})]
    ranged, other = tune_tasks(tasks, trials=2, cost_model="random", farm=farm.address, db=tmp_path / "t.db")
    assert isinstance(ranged, RangeResult)
    assert isinstance(other, TunedTask)
    assert [(k.low, k.high) for k in ranged.kernels] == [(1, 4)]
    assert other.result.best is not None
    with pytest.raises(UsageError, match="the farm has no device class 'none-of-them'"):
        tune_tasks(tasks, farm=farm.address, device="none-of-them", db=tmp_path / "t.db")
