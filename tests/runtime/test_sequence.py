"""Kernels as one call: values in each other's memory, inputs copied where they belong, weights rearranged once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from runtime_kernels import Built, random

from tilewright.backends.cpu.loader import LoadedKernel, load_bytes
from tilewright.core import Launch, LaunchProgram, Prepack, TensorSpec, UsageError
from tilewright.graph import BufferAssignment
from tilewright.runtime.sequence import KernelSequence
from tilewright.runtime.slots import Step

SIZES = {"x": 4, "y": 3, "z": 5, "joined": 8, "part": 4, "out": 2, "second": 3}
"""Elements of vectors by name."""


def product(built: Built, k: int, n: int, *, packed: bool = False, align: int = 1) -> LoadedKernel:
    """A vector of ``k`` elements by a matrix (k, n), which the kernel may rearrange."""
    names = ("m", "n", "k")
    packs = (Prepack(1, 4 * n * k, Launch("tw_t_turn", names)),) if packed else ()
    launch = Launch("tw_t_mm_trans" if packed else "tw_t_mm", names)
    program = LaunchProgram((launch,), align=align, prepack=packs)
    return LoadedKernel(load_bytes(built.data), program, {"m": 1, "n": n, "k": k}, 1)


def step(kernel: LoadedKernel, inputs: tuple[str, ...], output: str) -> Step:
    """A step of fixed sizes."""
    return Step(lambda sizes: kernel, inputs, output)


class Made:
    """A sequence of products of vectors by constant matrices, and what NumPy says of it."""

    def __init__(self, built: Built, products: Mapping[str, str], **how: Any) -> None:
        self.values = {n: TensorSpec(n, (1, size), "float32") for n, size in SIZES.items()}
        self.constants: dict[str, Any] = {}
        self.steps = []
        self.buffers = BufferAssignment(self.values)
        for seed, (output, source) in enumerate(products.items()):
            k, n = SIZES[source], SIZES[output]
            self.constants[f"w_{output}"] = random(k, n, seed=seed)
            self.values[f"w_{output}"] = TensorSpec(f"w_{output}", (k, n), "float32")
            self.steps.append(step(product(built, k, n, **how), (source, f"w_{output}"), output))

    def sequence(self, inputs: Sequence[str], outputs: Sequence[str]) -> KernelSequence:
        return KernelSequence(self.steps, self.values, self.constants, inputs, outputs, self.buffers)

    def times(self, source: Any, output: str) -> Any:
        return source @ self.constants[f"w_{output}"]


def joined(built: Built) -> Made:
    """``y`` and ``z`` are written into ``joined``, of which ``part`` is the middle."""
    made = Made(built, {"y": "x", "z": "x", "out": "joined", "second": "part"})
    assert made.buffers.join("joined", ["y", "z"])
    made.buffers.view("part", "joined", 2)
    return made


@pytest.mark.parametrize("outputs", [["out", "second"], ["y", "out", "joined", "second"]])
def test_kernels_write_and_read_parts_of_one_memory(built: Built, outputs: list[str]) -> None:
    made = joined(built)
    sequence = made.sequence(["x"], outputs)
    for seed in (0, 1):
        x = random(1, 4, seed=seed)
        whole = np.concatenate([made.times(x, "y"), made.times(x, "z")], 1)
        wanted = {
            "y": whole[:, :3],
            "joined": whole,
            "out": made.times(whole, "out"),
            "second": made.times(whole[:, 2:6], "second"),
        }
        got = sequence.run({"x": x})
        assert list(got) == outputs
        for name, array in got.items():
            np.testing.assert_allclose(array, wanted[name], rtol=1e-5, atol=1e-6)


def test_an_output_that_is_part_of_another_is_memory_of_its_own(built: Built) -> None:
    got = joined(built).sequence(["x"], ["y", "joined"]).run({"x": random(1, 4)})
    assert not np.shares_memory(got["y"], got["joined"])


@pytest.mark.parametrize("outputs", [["out"], ["out", "joined"]])
def test_an_input_is_copied_into_the_memory_that_it_lies_in(built: Built, outputs: list[str]) -> None:
    made = Made(built, {"z": "x", "out": "joined"})
    assert made.buffers.join("joined", ["y", "z"])
    sequence = made.sequence(["x", "y", "unread"], outputs)
    assert sequence.inputs == ("x", "y")
    for seed in (0, 1):
        x, y = random(1, 4, seed=seed), random(1, 3, seed=seed + 5)
        got = sequence.run({"x": x, "y": y})["out"]
        wanted = made.times(np.concatenate([y, made.times(x, "z")], 1), "out")
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", ["read-only", "other byte order", "strided", "unaligned"])
def test_inputs_may_lie_in_any_way(built: Built, how: str) -> None:
    made = Made(built, {"y": "x"})
    x = random(1, 4)
    given = {
        "read-only": x.copy(),
        "other byte order": x.astype(x.dtype.newbyteorder()),
        "strided": np.repeat(x, 2, axis=1)[:, ::2],
        "unaligned": np.frombuffer(b"-" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(1, 4),
    }[how]
    given.flags.writeable = False
    got = made.sequence(["x"], ["y"]).run({"x": given})
    np.testing.assert_allclose(got["y"], made.times(x, "y"), rtol=1e-5)


@pytest.mark.parametrize("wrong", [None, random(1, 5), random(1, 4, dtype="float64")])
def test_an_input_that_does_not_fit_is_refused(built: Built, wrong: Any) -> None:
    with pytest.raises(UsageError, match="the input x is"):
        Made(built, {"y": "x"}).sequence(["x"], ["y"]).run({} if wrong is None else {"x": wrong})


def test_a_weight_of_two_calls_is_rearranged_once(built: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(built, {"z": "part"}, packed=True)
    weight = ("w_z",)
    kernel = made.steps[0].kernel({})
    made.values |= {n: TensorSpec(n, (1, 5), "float32") for n in ("z2", "z3")}
    made.constants["other"], made.values["other"] = made.constants["w_z"] + 1, made.values["w_z"]
    made.steps += [step(kernel, ("x", *weight), "z2"), step(kernel, ("x", "other"), "z3")]
    packed: list[Any] = []
    pack = LoadedKernel.pack
    monkeypatch.setattr(LoadedKernel, "pack", lambda self, at: packed.append(at) or pack(self, at))
    sequence = made.sequence(["part", "x"], ["z", "z2", "z3"])
    assert len(packed) == 2
    part, x = random(1, 4, seed=7), random(1, 4, seed=8)
    got = sequence.run({"part": part, "x": x})
    for name, wanted in {
        "z": made.times(part, "z"),
        "z2": made.times(x, "z"),
        "z3": x @ made.constants["other"],
    }.items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-5, atol=1e-6)


def test_a_value_that_no_kernel_gives_is_refused(built: Built) -> None:
    with pytest.raises(UsageError, match="no kernel of the sequence computes part"):
        Made(built, {"y": "x"}).sequence(["x", "part"], ["part"])


def test_memory_that_does_not_begin_where_a_kernel_needs_it_is_refused(built: Built) -> None:
    made = Made(built, {"y": "x", "z": "x"}, align=16)
    assert made.buffers.join("joined", ["y", "z"])
    with pytest.raises(UsageError, match="z lies 12 bytes into joined"):
        made.sequence(["x"], ["joined"])
