"""What is made of descriptions of devices that come from outside."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.backends.cuda import archs
from tilewright.farm.device import RunnerDevice
from tilewright.farm.errors import FarmError
from tilewright.measure.devices import describe_device, find

EXAMPLE = RunnerDevice(
    "cuda:0", "NVIDIA H200", "h200-141g-700w", "GPU-5ac9ce7b-1f1c-4d6c-8b5e-6d0a1f2b3c4d", archs.target("sm_90a"), 0,
    150109880320, "NVRTC 13.0", "NVIDIA 570.133.20 CUDA 13.0", "node-3",
    (("arch", "cuda"), ("power_limit_w", 700.0), ("persistence", True), ("slot", 3)),
)  # fmt: skip
CPU = replace(EXAMPLE, device="cpu:0-1", target=find("cpu", "cpu").target, cores=2)


@pytest.mark.parametrize("d", [EXAMPLE, CPU, replace(EXAMPLE, labels=(), compiler="", driver="", host="")])
def test_a_runners_device_is_read_back(d: RunnerDevice) -> None:
    assert RunnerDevice.from_json(json.loads(json.dumps(d.to_json()))) == d
    msgpack = pytest.importorskip("msgpack")
    assert RunnerDevice.from_json(msgpack.unpackb(msgpack.packb(d.to_json()))) == d


HOSTILE = {
    "device": ["", "cpu", "cuda:", "cuda:-1", "cuda:0,cuda:1", "cpu:0;rm", "cpu:" + "0," * 9999 + "1", "cuda:0\n", 0],
    "model": ["", "x" * 301, "a\nb", "\x1b[31m", "\u202eabc", None, 7, b"bytes"],
    "device_class": ["", "H200", "a b", "../x", "-a", "x" * 101, "é", None, ["h200"]],
    "uuid": ["GPU-\x00", "x" * 301, 1, None],
    "cores": [-1, 1 << 61, 1.0, "2", True, None],
    "memory": [-1, 1 << 61, float("nan"), "1", False, None],
    "compiler": ["g++\n", 3, None, "x" * 301],
    "driver": ["\x07", {}, None],
    "host": ["a\tb", [], None],
    "labels": [
        None, [], "x", {"a": math.inf}, {"a": math.nan}, {"a": None}, {"a": [1]}, {"a": {"b": 1}}, {"A b": 1},
        {"a": "x" * 301}, {"a": "\x1b"}, {"a": 1 << 70}, {f"l{n}": n for n in range(65)}, {1: 2}, {"": 1},
    ],
    "target": [None, "cuda:sm_90a", [], {}, {"kind": "cuda"}],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in HOSTILE.items() for v in values])
def test_a_field_that_is_not_as_it_must_be_is_named(name: str, value: Any) -> None:
    with pytest.raises(FarmError, match=name):
        RunnerDevice.from_json({**EXAMPLE.to_json(), name: value})


HOSTILE_TARGET = {
    "kind": ["gpu", "", None, 3, ["cpu"]],
    "variant": ["", "sm_90a -o x", "a" * 41, None],
    "arch": ["../..", 1],
    "isa": ["avx2", ["-march=native"], [1], [["a"]], ["a"] * 65, None, {"a": 1}],
    "vector_bytes": [0, -1, "16", 1.5, 1 << 61, True],
    "registers": [0, None],
    "threads": [0, -3, True, 1 << 20],
    "l1_bytes": [-1, 1 << 70, 0.5],
    "l2_bytes": [None],
    "l3_bytes": ["1"],
    "limits": [None, [], {"cc": math.nan}, {"a b": 1}, {"cc": [90]}],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in HOSTILE_TARGET.items() for v in values])
def test_a_field_of_a_target_is_named(name: str, value: Any) -> None:
    with pytest.raises(FarmError, match=f"target.{name}"):
        RunnerDevice.from_json({**EXAMPLE.to_json(), "target": {**EXAMPLE.target.to_json(), name: value}})


@pytest.mark.parametrize("name", sorted(EXAMPLE.to_json().keys() - {"labels"}))
def test_a_field_that_is_missing_is_named(name: str) -> None:
    data = EXAMPLE.to_json()
    del data[name]
    with pytest.raises(FarmError, match=f"lacks {name}"):
        RunnerDevice.from_json(data)


def test_a_field_too_many_is_refused() -> None:
    with pytest.raises(FarmError, match="flags"):
        RunnerDevice.from_json({**EXAMPLE.to_json(), "flags": "-fplugin=x"})
    with pytest.raises(FarmError, match="flags"):
        RunnerDevice.from_json({**EXAMPLE.to_json(), "target": {**EXAMPLE.target.to_json(), "flags": ["-fplugin=x"]}})
    with pytest.raises(FarmError, match=r"unknown field") as e:
        RunnerDevice.from_json({**EXAMPLE.to_json(), "\x1b[2J": 1})
    assert "\x1b" not in str(e.value)


def test_fields_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(FarmError, match="does not run on"):
        RunnerDevice.from_json({**EXAMPLE.to_json(), "device": "cpu:0", "cores": 1})
    with pytest.raises(FarmError, match="do not fit"):
        RunnerDevice.from_json({**CPU.to_json(), "cores": 0})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(list(EXAMPLE.to_json())), JSON)
def test_whatever_comes_is_refused_or_a_device(name: str, value: Any) -> None:
    try:
        d = RunnerDevice.from_json({**EXAMPLE.to_json(), name: value})
    except FarmError:
        return
    assert RunnerDevice.from_json(d.to_json()) == d


@given(JSON)
def test_whatever_comes_as_a_whole_is_refused(value: Any) -> None:
    with pytest.raises(FarmError):
        RunnerDevice.from_json(value)


@pytest.mark.parametrize("device", ["cpu", "emulator"])
def test_what_this_machine_says_of_itself_is_understood(device: str) -> None:
    said = describe_device(find(device))
    assert vars(RunnerDevice.from_json(json.loads(json.dumps(said.to_json())))) == vars(said)
