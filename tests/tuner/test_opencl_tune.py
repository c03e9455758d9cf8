"""OpenCL end to end on whatever device is here (PoCL): tuned, stored, checked again, served, and through a farm."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tilewright
from harness.farm import SimulatedFarm
from tilewright.backends.cache import ArtifactCache
from tilewright.backends.opencl import devices
from tilewright.cli.app import run
from tilewright.core import Failure
from tilewright.database import Database
from tilewright.farm.link import Endpoint
from tilewright.farm.workers.builder import Builder, offers
from tilewright.farm.workers.runner import Runner, local_bench
from tilewright.measure.devices import describe_device
from tilewright.measure.local_target import find_local_target
from tilewright.tuner import TuneResult, tune
from tilewright.tuner.verify import verify

pytestmark = pytest.mark.needs("OpenCL")

SHAPE = (9, 40)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneResult, Path]:
    db = tmp_path_factory.mktemp("opencl") / "t.db"
    result = tune("softmax", trials=2, target="opencl", cost_model="gpu", db=db, params={"shape": "9,40"})
    return result, db


def test_an_opencl_task_is_tuned_and_stored(tuned: tuple[TuneResult, Path]) -> None:
    result, db = tuned
    assert result.trials == 2
    assert result.failed == {}
    assert result.best is not None
    assert result.best.template == "cuda_rows"
    assert result.best.peak_fraction is None
    assert result.device == f"opencl:{devices.find().index}"
    with Database.open(db) as database:
        assert database.task_kernels(result.task, devices.find().model)
        (again,) = verify(database)
    assert again.problem is None
    assert again.seconds is not None


def test_an_opencl_kernel_is_served_on_arrays_of_pyopencl(tuned: tuple[TuneResult, Path]) -> None:
    cl = pytest.importorskip("pyopencl")
    arrays = pytest.importorskip("pyopencl.array")
    queue = cl.CommandQueue(cl.Context([devices.find().handle]))
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    with tilewright.Library(tuned[1]) as library:
        given = arrays.to_device(queue, x)
        made = library.softmax(given)
        np.testing.assert_allclose(made.get(), expected, rtol=1e-5, atol=1e-6)
        out = arrays.zeros(queue, SHAPE, np.float32)
        assert library.softmax(given, out=out) is out
        np.testing.assert_allclose(out.get(), expected, rtol=1e-5, atol=1e-6)
        assert library.stats().tiers["exact"] == 2
        shared = cl.SVMAllocation(queue.context, x.nbytes, 0, cl.svm_mem_flags.READ_WRITE, queue=queue)
        in_shared = arrays.Array(queue, SHAPE, np.float32, data=shared)
        in_shared.set(x)
        np.testing.assert_allclose(library.softmax(in_shared).get(), expected, rtol=1e-5, atol=1e-6)
        with pytest.raises(TypeError, match="with_queue"):
            library.softmax(given.with_queue(None))
        with pytest.raises(ValueError, match="shares memory"):
            library.softmax(given, out=given)
        with pytest.raises(tilewright.UsageError, match="--target opencl"):
            library.matmul(given, given)
        with pytest.raises(TypeError, match="not an array on a GPU"):
            library.matmul(given, x)


def test_doctor_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)["opencl"]
    first = devices.find()
    assert found["problem"] is None
    assert found["devices"][first.index]["name"] == f"opencl:{first.index}"
    run(["doctor"])
    assert f"target opencl:{first.variant}" in " ".join(capsys.readouterr().out.split())


def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--target", "opencl:99"], ["--target", "opencl", "--device", "opencl:99"]):
        assert run(["tune", "softmax", "shape=9,40", *words]) == 2
        assert "There are: 0" in capsys.readouterr().err


def test_a_farm_builds_and_measures(tmp_path: Path) -> None:
    """A real builder and a real runner, by a server of this process."""
    place = find_local_target("opencl")
    device = describe_device(place)
    assert any(queue.startswith(f"build:opencl:{place.target.arch}:") for queue in offers())
    with SimulatedFarm(tmp_path, []) as farm:

        async def join() -> None:
            cache = ArtifactCache(tmp_path / "runner")
            farm._run(Runner(Endpoint(farm.address, None, "runner"), "measures", local_bench(place, device), cache))
            cache = ArtifactCache(tmp_path / "builder")
            farm._run(Builder(Endpoint(farm.address, None, "builder"), "builds", cache))
            for service in farm.services:
                await service.connected.wait()

        farm.call(join())
        result = tune(
            "elementwise", trials=2, farm=farm.address, db=tmp_path / "t.db", cost_model="gpu",
            params={"shape": "1000", "fn": "gelu(x)"},
        )  # fmt: skip
    assert result.failed == {}
    assert result.best is not None
    assert not isinstance(result.best, Failure)
    assert result.task.target.name == place.target.name
