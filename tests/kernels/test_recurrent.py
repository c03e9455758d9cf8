"""Recurrent layers: what they mean, how far roundings carry, and who computes them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from recurrent_programs import GATES, PROGRAMS, layer
from test_range_axes import problem_at

from tilewright.backends import get_backend
from tilewright.backends.cuda.archs import target as cuda_target
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, OperatorError, Task, UsageError
from tilewright.extent import Extent
from tilewright.kernels import te
from tilewright.kernels.anonymous import from_program
from tilewright.kernels.expression.program import Program
from tilewright.kernels.families.recurrence import recurrent
from tilewright.kernels.nn import recurrent as nn
from tilewright.kernels.ranges import at
from tilewright.kernels.reference import evaluate, evaluate_block
from tilewright.kernels.templates import TEMPLATES, templates_for
from tilewright.testing.kernels import random_arrays, task_of
from tilewright.testing.template import TemplateContract
from tilewright.verifying.verify import Verifier

Array = np.ndarray[Any, Any]


class TestRecurrentLayers(TemplateContract):
    templates = ("cpu_recurrent",)
    programs = PROGRAMS


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def by_hand(kind: str, arrays: list[Array], dtype: type, reverse: bool = False, reset_after: bool = True) -> Array:
    """A layer with bias and first state, step by step, in a type."""
    gates, weight, bias, *state = (np.asarray(a, dtype) for a in arrays)
    h, c, n = state[0], state[-1], weight.shape[1]
    u, v, w = (slice(k * n, (k + 1) * n) for k in range(3))
    out = np.empty((len(state), *gates.shape[:2], n), dtype)
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        x, inner = gates[t], h @ weight.T + bias
        if kind == "rnn":
            h = np.tanh(x + inner)
        elif kind == "gru":
            r, z = sigmoid(x[:, u] + inner[:, u]), sigmoid(x[:, v] + inner[:, v])
            new = r * inner[:, w] if reset_after else (r * h) @ weight[w].T + bias[w]
            h = (1 - z) * np.tanh(x[:, w] + new) + z * h
        else:
            i, f, g, o = np.split(x + inner, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        out[:, t] = np.stack((h, c)[: len(state)])
    return out


FORMS = [("rnn", {}), ("gru", {}), ("gru", {"reset_after": False}), ("lstm", {}), ("lstm", {"reverse": True})]


@pytest.mark.parametrize(("kind", "attributes"), FORMS)
def test_the_interpreter_steps_through_a_layer_and_gives_any_block(kind: str, attributes: dict[str, Any]) -> None:
    program = layer(kind, 70, 3, 6, dtype="float64", **attributes)
    arrays = random_arrays(program, 0)
    want = by_hand(kind, arrays, np.float64, **attributes)
    np.testing.assert_allclose(evaluate(program, arrays), want, rtol=1e-12, atol=1e-14)
    block = (slice(0, 1), slice(50, 67), slice(1, 3), slice(2, 5))
    np.testing.assert_allclose(evaluate_block(program, arrays, block), want[block], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_layers_text_is_read_back_and_stated_again(name: str) -> None:
    text = PROGRAMS[name]().dumps()
    assert Program.loads(text).dumps() == text
    assert from_program("again", text).workload().program == text


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_the_template_of_recurrent_layers_takes_one(name: str) -> None:
    program = PROGRAMS[name]()
    assert recurrent(program) is not None
    for target in (get_backend("cpu").targets(1)[0], cuda_target("sm_90a")):
        taking = [n for n, t in TEMPLATES.items() if target.kind in t.kinds and t.matches(task_of(program, target))]
        assert taking == (["cpu_recurrent"] if target.kind == "cpu" else [])


def test_a_gpu_has_one_clear_error_for_a_layer() -> None:
    with pytest.raises(UsageError, match="no template generates code") as info:
        templates_for(task_of(PROGRAMS["lstm"](), cuda_target("sm_90a")))
    assert info.value.hint == "Kernels compute a recurrent layer on CPUs, without operations around it"


STEPS, ROWS = Extent(9, 1, "steps"), Extent(7, 1, "rows")
OPEN: dict[str, Callable[[], Program]] = {
    "gru": lambda: layer("gru", STEPS, ROWS, 17),
    "gru_of_steps": lambda: layer("gru", STEPS, 3, 32, reset_after=False, bias=False, first=False),
    "lstm_backwards": lambda: layer("lstm", STEPS, ROWS, 20, reverse=True, constant=False),
    "tanh_of_rows": lambda: layer("rnn", 4, ROWS, 33),
}


@pytest.mark.parametrize("name", OPEN)
def test_one_kernel_computes_layers_of_any_number_of_steps_and_rows(name: str) -> None:
    target = get_backend("cpu").targets(2)[0]
    task = task_of(OPEN[name](), target)
    (template,) = templates_for(task)
    found = []
    for share in (0.0, 0.5, 1.0):
        sizes = {n: e.low + round(share * (e.high - e.low)) for n, e in task.workload.ranges.items()}
        space = template.space(Task(at(task.workload, sizes), target))
        found.append(Candidate(task, space.sample(random.Random(name)).at(sizes)))
    with Builder(target) as builder:
        built = builder.build(found)
    for candidate, artifact in zip(found, built, strict=True):
        assert isinstance(artifact, Artifact), artifact
        for turn, (steps, rows) in enumerate(((1, 1), (2, 7), (9, 4), (5, 5), (8, 6))):
            sizes = {n: {"steps": steps, "rows": rows}[n] for n in task.workload.ranges}
            assert problem_at(candidate, artifact, sizes, turn) is None, sizes


def test_a_layer_with_an_open_number_of_features_is_refused() -> None:
    features = Extent(9, 1, "features")
    weight = te.input("weight", (features, features))
    program = te.program(nn.rnn(te.input("gates", (3, 2, features)), weight))[0]
    with pytest.raises(UsageError, match=r"features=1\.\.9"):
        templates_for(task_of(program, get_backend("cpu").targets(1)[0]))


def test_operations_around_a_layer_are_refused() -> None:
    states = nn.rnn(te.input("gates", (3, 2, 8)), te.input("weight", (8, 8)))
    program = te.program(te.compute((3, 2), lambda t, b: te.sum(8, lambda j: states[0, t, b, j])))[0]
    with pytest.raises(UsageError, match="no template generates code"):
        templates_for(task_of(program, get_backend("cpu").targets(1)[0]))


@pytest.mark.parametrize(("kind", "attributes"), FORMS)
def test_honest_roundings_pass_and_others_do_not(kind: str, attributes: dict[str, Any]) -> None:
    verifier = Verifier(layer(kind, 40, 2, 24, **attributes))
    for n, recipe in enumerate(verifier.recipes):
        data = verifier.input_set(n)
        arrays = [np.array(g.array) for g in data.inputs]
        (out,) = data.outputs
        out.array[...] = by_hand(kind, arrays, np.float32, **attributes)
        assert verifier.problem(data) is None, recipe
        arrays[1][-1, -1] += np.float32(1e-3)  # one weight of all is off
        out.array[...] = by_hand(kind, arrays, np.float32, **attributes)
        assert verifier.problem(data) is not None, recipe


def test_a_large_layer_is_checked_whole_since_any_part_takes_all_steps() -> None:
    program = layer("gru", 10, 48, 512)
    (expected,) = Verifier(program).input_set(0).expected
    assert [i.block for i in expected.intervals] == [tuple(slice(0, n) for n in program.output.shape)]


def test_threads_share_the_steps_of_large_layers_alone() -> None:
    for features, tasks in ((64, 1), (256, 4)):
        task = task_of(layer("lstm", 2, 2, features), get_backend("cpu").targets(4)[0])
        (template,) = templates_for(task)
        assert template.default(task).values["tasks"] == tasks


def test_weights_are_tried_at_the_size_at_which_a_layer_is_stable() -> None:
    program = layer("gru", 2, 1, 16)
    assert (program.inputs[1].low, program.inputs[1].high) == (-0.25, 0.25)
    assert all(t.low is None for n, t in enumerate(program.inputs) if n != 1)


def test_programs_without_recurrences_say_nothing_of_them() -> None:
    x = te.input("x", (4, 3))
    program = te.program(te.compute((4, 3), lambda i, j: te.scan("sum", i, x[i, j])))[0]
    stage = json.loads(program.dumps())[1][0]
    assert stage[-1] == 0  # the axis of the scan


@pytest.mark.parametrize("kind", GATES)
def test_tensors_of_a_layer_that_do_not_fit_are_named(kind: str) -> None:
    wide = GATES[kind] * 8
    function = getattr(nn, kind)
    weight, bias = te.input("weight", (wide, 8)), te.input("bias", (wide,))
    with pytest.raises(OperatorError, match=f"{kind} of gates, weight and bias"):
        function(te.input("gates", (3, 2, wide + 1)), weight)
    with pytest.raises(OperatorError, match=f"{kind} of gates, weight and bias"):
        function(te.input("gates", (3, 2, wide)), weight, te.input("bias", (wide - 1,)))
    with pytest.raises(OperatorError, match=f"{kind}'s first h is"):
        function(te.input("gates", (3, 2, wide)), weight, bias, te.input("h0", (3, 8)))
    with pytest.raises(OperatorError, match="all float32"):
        function(te.input("gates", (3, 2, wide)), te.input("weight", (wide, 8), "float16"))


def test_an_rnn_of_another_function_is_refused() -> None:
    with pytest.raises(OperatorError, match="knows no 'gelu'"):
        nn.rnn(te.input("gates", (3, 2, 8)), te.input("weight", (8, 8)), nonlinearity="gelu")
