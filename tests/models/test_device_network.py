"""Models whose kernels run on a device: the emulated one, which tells what it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from networks_file import networks  # noqa: E402
from open_models import FLOAT, NODE, mlp, model, weight  # noqa: E402

from harness.default_kernels import default_kernels  # noqa: E402
from tilewright.backends.driver import OutOfMemory  # noqa: E402
from tilewright.backends.emulator.backend import EmulatorBackend  # noqa: E402
from tilewright.backends.emulator.driver import EmulatorContext, EmulatorDriver, EmulatorGraph  # noqa: E402
from tilewright.core import Task, UsageError, Workload  # noqa: E402
from tilewright.kernels.templates import templates_for  # noqa: E402
from tilewright.measure import comparing  # noqa: E402
from tilewright.models import InferenceSession  # noqa: E402
from tilewright.models.extract import Extracted, extract  # noqa: E402
from tilewright.models.forms import fastest  # noqa: E402
from tilewright.models.inputs import random_inputs  # noqa: E402
from tilewright.models.network import ALL, ALONE, GAINING, Network  # noqa: E402
from tilewright.models.parts import place_of  # noqa: E402
from tilewright.models.sessions import Session  # noqa: E402
from tilewright.models.truth import largest_error  # noqa: E402
from tilewright.runtime import Library  # noqa: E402

TARGET, DEVICE = place_of("emulator")
HALF = onnx.TensorProto.FLOAT16


class Watched(EmulatorContext):
    """The emulated device, telling what it is asked for; ``room``: bytes that it has."""

    def __init__(self, room: int | None = None) -> None:
        super().__init__(EmulatorDriver())
        self.asked: list[str] = []
        self._room = self._room if room is None else room

    def upload(self, address: int, data: Any) -> None:
        self.asked.append("upload")
        super().upload(address, data)

    def download(self, address: int, out: Any) -> None:
        self.asked.append("download")
        super().download(address, out)

    def launch(self, module: Any, symbol: str, shape: Any, arguments: Any) -> None:
        if self._captured is None:
            self.asked.append("launch")
        super().launch(module, symbol, shape, arguments)

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        if self._captured is None:
            self.asked.append("copy")
        super().copy(to, source, size, stream)

    def capture(self, work: Callable[[], None]) -> EmulatorGraph:
        self.asked.append("capture")
        return super().capture(work)

    @property
    def allocations(self) -> int:
        """How many there are now."""
        return len(self.memory_table())

    def told(self) -> dict[str, int]:
        """How often it was asked for each thing since the last time."""
        found = {what: self.asked.count(what) for what in dict.fromkeys(self.asked)}
        self.asked.clear()
        return found


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Watched:
    made = Watched()
    monkeypatch.setattr(EmulatorBackend, "open", lambda *_: made)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("device")
    made.chmod(0o700)
    return made


Wanted = Callable[[Workload], bool]


def tuned(folder: Path, name: str, made: Any, sizes: Any = None, wanted: Wanted = lambda w: True) -> Extracted:
    """A model's tasks, those that are wanted with default kernels in ``NAME.db``."""
    onnx.save(made, str(folder / f"{name}.onnx"))
    found = extract(folder / f"{name}.onnx", sizes, TARGET)
    default_kernels([t.workload for t in found.tasks if wanted(t.workload)], folder / f"{name}.db", "emulator")
    return found


def network(found: Extracted, db: Path, **how: Any) -> Network:
    with Library(db, threads=1) as library:
        return Network(found, library, device=DEVICE, **how)


def wrong(made: Mapping[str, Any], found: Extracted, inputs: Mapping[str, Any]) -> float:
    return largest_error(made, Session.of_file(found.imported.model).run(inputs))


def half(name: str, *shape: int) -> Any:
    array = onnx.numpy_helper.to_array(weight(name, *shape))
    return onnx.numpy_helper.from_array(array.astype(np.float16), name)


def fire() -> Any:
    """Convolutions of 16 bits, two of them with the same weight, and a concatenation that takes no kernel."""
    pads = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [
        NODE("Conv", ["x", "w1"], ["a"], **pads),
        NODE("Relu", ["a"], ["b"]),
        NODE("Conv", ["b", "w2"], ["c"], **pads),
        NODE("Conv", ["c", "w2"], ["d"], **pads),
        NODE("Concat", ["b", "d"], ["e"], axis=1),
        NODE("Conv", ["e", "w3"], ["y"], kernel_shape=[1, 1]),
    ]
    made = model(
        nodes, [half("w1", 8, 8, 3, 3), half("w2", 8, 8, 3, 3), half("w3", 8, 16, 1, 1)], [1, 8, 6, 6], {"y": 4}, HALF
    )
    made.graph.output[0].type.tensor_type.elem_type = HALF
    return made


def first(workload: Workload) -> bool:
    """Whether channels lie where the model has them."""
    return "nhwc" not in workload.op and "permute" not in workload.op


@pytest.fixture(scope="module")
def cnn(folder: Path) -> Extracted:
    return tuned(folder, "fire", fire(), wanted=first)


def test_a_network_on_a_device_has_one_allocation_and_rearranges_each_constant_once(
    device: Watched, folder: Path, cnn: Extracted
) -> None:
    made = network(cnn, folder / "fire.db")
    assert device.allocations == 1
    told = device.told()
    assert told["launch"] == 2  # of w1 and w2, of which the second is two convolutions' own
    assert told["upload"] == 3
    inputs = random_inputs(cnn.imported)
    assert wrong(made.run(inputs), cnn, inputs) < 2e-3
    (part,) = (p for p, _ in made.parts)
    launches = sum(u.group is not None and u.group.family != "view" for u in part.units)
    assert device.told()["launch"] >= launches
    for _ in range(3):
        assert wrong(made.run(inputs), cnn, inputs) < 2e-3
    assert device.allocations == 1


def test_the_second_run_captures_a_graph_that_later_ones_launch(
    device: Watched, folder: Path, cnn: Extracted, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = network(cnn, folder / "fire.db")
    device.told()
    replayed: list[EmulatorGraph] = []
    launch = EmulatorGraph.launch
    monkeypatch.setattr(EmulatorGraph, "launch", lambda graph: replayed.append(graph) or launch(graph))
    inputs = [random_inputs(cnn.imported, seed) for seed in range(4)]
    for given in inputs:
        assert wrong(made.run(given), cnn, given) < 2e-3
    told = device.told()
    assert (told["capture"], told["upload"], told["download"]) == (1, 4, 4)
    assert len(replayed) == 3
    assert len(set(map(id, replayed))) == 1


def test_a_driver_that_captures_nothing_queues_every_launch_of_each_run(
    device: Watched, folder: Path, cnn: Extracted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(device, "capture", asked.append)
    made = network(cnn, folder / "fire.db")
    inputs = random_inputs(cnn.imported)
    for _ in range(4):
        assert wrong(made.run(inputs), cnn, inputs) < 2e-3
    assert len(asked) == 1


@pytest.fixture(scope="module")
def some(folder: Path, cnn: Extracted) -> Path:
    """A database without kernels for the middle convolutions."""
    tasks = [t.workload for t in cnn.tasks if first(t.workload) and t.workload.inputs[0].shape != (1, 8, 6, 6)]
    tasks += [t.workload for t in cnn.tasks if first(t.workload) and "relu" in t.workload.op]
    default_kernels(tasks, folder / "some.db", "emulator")
    return folder / "some.db"


def test_values_cross_to_onnxruntime_and_back_only_where_it_gives_or_takes_them(
    device: Watched, some: Path, cnn: Extracted
) -> None:
    """The middle convolutions are onnxruntime's: ``b`` goes there and is not brought back."""
    made = network(cnn, some)
    assert [p.ours for p, _ in made.parts] == [True, False, True]
    device.told()
    inputs = random_inputs(cnn.imported)
    for _ in range(3):
        assert wrong(made.run(inputs), cnn, inputs) < 2e-3
        told = device.told()
        assert (told["upload"], told["download"]) == (2, 2)  # x and d; b and y
    every = made.values(inputs)
    _, last = made.parts[-1]
    alone = last.alone({**every, **inputs}, {})
    np.testing.assert_array_equal(alone["y"], every["y"])


def test_what_a_stage_leaves_for_a_later_one_is_not_copied_to_the_host(device: Watched, folder: Path) -> None:
    """Kernels compute ``a``, ``b`` and ``z``; between them onnxruntime reads ``a`` and gives ``t``."""
    nodes = [
        NODE("MatMul", ["x", "w"], ["a"]),
        NODE("MatMul", ["x", "u"], ["b"]),
        NODE("Trilu", ["a"], ["t"], domain="com.microsoft"),
        NODE("MatMul", ["t", "b"], ["z"]),
    ]
    kept = model(nodes, [weight("u", 8, 12), weight("w", 8, 8)], [8, 8], {"z": 2})
    kept.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    found = tuned(folder, "kept", kept)
    made = network(found, folder / "kept.db")
    device.told()
    inputs = random_inputs(found.imported)
    assert [p.ours for p, _ in made.parts] == [True, False, True]
    assert "b" in made.parts[0][0].outputs
    for _ in range(3):
        assert wrong(made.run(inputs), found, inputs) < 1e-5
        told = device.told()
        assert (told["upload"], told["download"]) == (2, 2)  # x and t; a and z


def test_a_value_that_begins_where_a_kernel_cannot_read_it_is_copied_on_the_device(
    device: Watched, folder: Path
) -> None:
    """A slice from the 13th byte on of a row: kernels read vectors of 16 bytes."""
    ends = [onnx.numpy_helper.from_array(np.array([n], np.int64), name) for n, name in ((3, "from"), (19, "to"))]
    ends.append(onnx.numpy_helper.from_array(np.array([1], np.int64), "axis"))
    nodes = [
        NODE("MatMul", ["x", "u"], ["a"]),
        NODE("Slice", ["a", "from", "to", "axis"], ["b"]),
        NODE("MatMul", ["b", "v"], ["y"]),
        NODE("Softmax", ["a"], ["z"]),
    ]
    found = tuned(
        folder, "slice", model(nodes, [weight("u", 8, 20), weight("v", 16, 16), *ends], [1, 8], {"y": 2, "z": 2})
    )
    made = network(found, folder / "slice.db")
    assert len(made.parts) == 1
    assert "slice" not in " ".join(made.served)
    device.told()
    for seed in range(3):
        inputs = random_inputs(found.imported, seed)
        assert wrong(made.run(inputs), found, inputs) < 1e-5
    assert device.told()["copy"] == 3


def test_a_transformer_runs_on_a_device_in_one_part(device: Watched, folder: Path) -> None:
    found = tuned(folder, "bert", networks().bert(True))
    made = network(found, folder / "bert.db")
    assert (made.left, len(made.parts)) == ({}, 1)
    assert "attention" in " ".join(made.served)
    for seed in range(3):
        inputs = random_inputs(found.imported, seed)
        assert wrong(made.run(inputs), found, inputs) < 1e-5
    assert device.allocations == 1


@pytest.fixture(scope="module")
def ranges(folder: Path) -> Extracted:
    return tuned(folder, "mlp", mlp(), {"batch": (1, 5)})


def test_an_open_batch_has_one_memory_and_a_graph_for_each_size(
    device: Watched, folder: Path, ranges: Extracted
) -> None:
    assert all(t.workload.ranges for t in ranges.tasks)
    made = network(ranges, folder / "mlp.db")
    assert made.left == {}
    device.told()
    for size in (1, 5, 3, 1, 3, 5, 1):
        inputs = random_inputs(ranges.imported, size, sizes={"batch": size})
        got = made.run(inputs)
        theirs = Session.of_file(ranges.imported.model.at({"batch": size})).run(inputs)
        assert got["y"].shape == (size, 10)
        assert largest_error(got, theirs) < 1e-5
    assert device.told()["capture"] == 3
    assert device.allocations == 1


def test_a_session_keeps_a_network_on_the_device_for_each_size(folder: Path, ranges: Extracted) -> None:
    file = folder / "mlp.onnx"
    session = InferenceSession(file, db=folder / "mlp.db", target="emulator")
    whole = InferenceSession(file, db=folder / "mlp.db", target="emulator", sizes={"batch": (1, 5)})
    theirs = onnxruntime.InferenceSession(str(file))
    for size in (2, 4, 2):
        x = np.random.default_rng(size).standard_normal((size, 8)).astype(np.float32)
        for own in (session, whole):
            np.testing.assert_allclose(own.run(None, {"x": x})[0], theirs.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
    assert session.network({"x": (2, 8)}).served
    assert "emulator" in session.network({"x": (2, 8)}).why


def test_forms_are_compared_with_device_and_border_within_their_times(
    device: Watched, folder: Path, cnn: Extracted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "emulated", False)
    forms: list[str] = []
    borders: list[dict[str, int]] = []

    def timed(runs: Mapping[str, Callable[[], Any]], **_: Any) -> comparing.Samples:
        for name, run in runs.items():
            device.told()
            run()
            forms.append(name)
            borders.append(device.told())
        kept = {ALL: 1.0, GAINING: 2.0, ALONE: 3.0}
        return {name: [kept[name]] * 12 for name in runs}

    monkeypatch.setattr(comparing, "in_turns", timed)
    with Library(folder / "fire.db", threads=1) as library:
        kept = fastest(cnn, library, device=DEVICE)
    assert kept.form == ALL
    assert forms == [ALL, ALONE]
    assert borders[0]["upload"] == borders[0]["download"] == 1
    assert borders[1] == {}


def test_a_part_of_kernels_is_timed_with_all_that_it_reads(
    device: Watched, some: Path, cnn: Extracted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmulatorBackend, "emulated", False)
    seen: list[Sequence[str]] = []

    def timed(runs: Mapping[str, Callable[[], Any]], **_: Any) -> comparing.Samples:
        for run in runs.values():
            run()
        seen.append(list(runs))
        seconds = {ALL: 1.0 if len(seen) == 1 else 3.0, GAINING: 1.0, ALONE: 2.0}
        return {name: [seconds[name]] * 12 for name in runs}

    monkeypatch.setattr(comparing, "in_turns", timed)
    with Library(some, threads=1) as library:
        kept = fastest(cnn, library, device=DEVICE)
    assert seen[-1] == [ALL, GAINING, ALONE]
    assert kept.form == GAINING
    inputs = random_inputs(cnn.imported)
    assert wrong(kept.run(inputs), cnn, inputs) < 2e-3


def test_a_device_without_room_is_named_with_what_the_plan_needs(
    folder: Path, cnn: Extracted, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Watched(room=4096)
    monkeypatch.setattr(EmulatorBackend, "open", lambda *_: full)
    with pytest.raises(OutOfMemory, match=r"the plan needs .* kB on the device \(.* of values, .* of constants") as e:
        network(cnn, folder / "fire.db")
    assert "smaller sizes" in e.value.hint


def test_a_database_of_another_target_leaves_the_model_to_onnxruntime(folder: Path, cnn: Extracted) -> None:
    db = folder / "processor.db"
    default_kernels([t.workload for t in cnn.tasks if first(t.workload)][-1:], db)
    with Library(db, threads=1) as library:
        made = fastest(cnn, library, device=DEVICE)
    assert (made.form, made.served) == (ALONE, {})
    assert "tuned only for cpu" in made.why
    with Library(folder / "fire.db", threads=1) as library:
        assert "tuned only for cuda:sm_90a" in fastest(cnn, library).why


def test_a_layer_that_no_template_of_the_device_computes_is_left_with_the_reason(folder: Path) -> None:
    nodes = [NODE("RNN", ["x", "w", "r"], ["s", "h"], hidden_size=4), NODE("Relu", ["s"], ["y"])]
    onnx.save(
        model(nodes, [weight("w", 1, 4, 4), weight("r", 1, 4, 4)], [3, 1, 4], {"y": 4}, FLOAT), str(folder / "rnn.onnx")
    )
    found = extract(folder / "rnn.onnx", target=TARGET)
    assert any("no template generates code" in why for why in found.left.values())
    assert all(templates_for(Task(t.workload, TARGET)) for t in found.tasks)


@pytest.mark.parametrize(
    ("target", "device", "said"),
    [("cudo", "auto", "unknown backend 'cudo'"), ("emulator:sm_1", "auto", "unknown CUDA architecture"),
     ("cuda", "cpu:0", "do not run on cpu:0"), ("opencl", "emulator", "the emulator runs no kernels for opencl")],
)  # fmt: skip
def test_a_place_that_is_none_is_named(target: str, device: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        place_of(target, device)
