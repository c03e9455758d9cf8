"""Programs of several results: how they are normalised, split into parts and cut; those of one are as they were."""

from __future__ import annotations

import json

import numpy as np
import pytest
from every_program import every_program

from tilewright.backends import parse_target
from tilewright.backends.cuda.archs import target
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.anonymous import from_program
from tilewright.kernels.expression.expr import const
from tilewright.kernels.expression.program import Program, Stage
from tilewright.kernels.families.parts import inlinable, reductions
from tilewright.kernels.operator import operator
from tilewright.kernels.operators import OPERATORS, get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import TEMPLATES, get_template, templates_for
from tilewright.kernels.templates.partition.segments import cuts
from tilewright.testing.kernels import check, compile_kernels, launch_values, random_arrays, run_outputs, task_of
from tilewright.testing.programs import halves, standardised
from tilewright.testing.template import portable_target


def test_results_are_named_in_the_order_in_which_they_are_returned() -> None:
    program = standardised()
    assert program.results == ("s2", "s0", "s3")
    assert [t.shape for t in program.outputs] == [(7, 37), (7,), (7,)]
    assert [t.dtype for t in program.outputs] == ["float32", "float32", "int64"]
    assert Program.loads(program.dumps()).dumps() == program.dumps()
    with pytest.raises(ValueError, match="3 results"):
        _ = program.output


def test_a_tuple_of_one_is_that_one() -> None:
    x = te.input("x", (4,))
    y = te.compute((4,), lambda i: x[i] * 2.0)
    one, same = te.program(y)[0], te.program((y,))[0]
    assert one.dumps() == same.dumps()
    assert one.of_each() == (one,)


def test_the_order_of_results_is_part_of_the_identity() -> None:
    x = te.input("x", (4,))
    y, z = te.compute((4,), lambda i: x[i] * 2.0), te.compute((4,), lambda i: x[i] * 3.0)
    texts = {te.program(outputs)[0].dumps() for outputs in ((y, z), (z, y), (y,), (z,))}
    a, b = (te.program(outputs)[0] for outputs in ((y, z), (z, y)))
    assert len(texts) == 4
    assert a.results == b.results == ("s0", "s1")  # stages are numbered as they are returned


def test_each_result_alone_computes_what_the_interpreter_says() -> None:
    program = standardised()
    (x,) = random_arrays(program)
    y, mean, at = (evaluate(one, [x]) for one in program.of_each())
    np.testing.assert_allclose(mean, x.mean(1), rtol=1e-6, atol=1e-7)
    x = x.astype(np.float64)
    np.testing.assert_allclose(y, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-3), rtol=1e-5)
    np.testing.assert_array_equal(at, x.argmax(1))
    assert [len(one.stages) for one in program.of_each()] == [3, 1, 1]


def test_what_is_returned_is_neither_inlined_nor_given_an_epilogue() -> None:
    program = standardised()
    assert inlinable(program) == ()
    assert reductions(program) == ("s1",)
    assert not set(inlinable(halves())) & set(halves().results)


def test_a_result_that_is_read_ends_its_segment() -> None:
    found = cuts(task_of(standardised(), portable_target(TEMPLATES["cpu_partition"])))
    assert found
    for cut in found:
        assert {"s0", "s2", "s3"} <= {s.result for s in cut}


def test_templates_of_one_result_leave_them_alone() -> None:
    for program in (standardised(), halves()):
        for where in (portable_target(TEMPLATES["cpu_generic"]), target("sm_80")):
            task = task_of(program, where)
            matching = {n for n, t in TEMPLATES.items() if where.kind in t.kinds and t.matches(task)}
            assert matching == {f"{where.kind}_generic", f"{where.kind}_partition"}
            assert [t.name for t in templates_for(task)] == [f"{where.kind}_partition"]


ONE = {n: p for n, p in every_program().items() if not p.results and p.varying is None}
"""Programs of one result."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", ONE)
def test_templates_of_one_result_leave_a_constant_beside_it_alone(name: str) -> None:
    program = ONE[name]
    constant = Stage("one", (3,), (), (const(1.5, "float32"),), "float32")
    beside = Program(program.inputs, (constant, *program.stages), ("one", program.stages[-1].name))
    for where in (portable_target(TEMPLATES["cpu_generic"]), target("sm_90a")):
        task = task_of(beside, where)
        matching = {n for n, t in TEMPLATES.items() if where.kind in t.kinds and t.matches(task)}
        assert matching <= {f"{where.kind}_generic", f"{where.kind}_partition"}


def test_an_operator_of_a_program_gives_the_same_workload() -> None:
    program = standardised()
    made = from_program("again", program.dumps()).workload()
    assert made.program == program.dumps()
    assert [s.shape for s in made.outputs] == [t.shape for t in program.outputs]


def test_an_operator_may_use_one_of_several_outputs() -> None:
    @operator
    def spread(n: int) -> te.TensorRef:
        var, _ = get_operator("var_mean")(shape=(3, n), dim=1)
        return te.compute((3,), lambda i: te.sqrt(var[i]))

    assert not spread.workload(n=5).more


KEYS = {
    "matmul": "6fbc0b151f365151",
    "conv2d": "614f780c1c666227",
    "softmax": "4962c80e0f459d1b",
    "layer_norm": "a556a36b8392fa91",
    "attention": "b1e80f8e70e5e9ea",
    "argmax": "9dfb43e6875feea2",
    "cumsum": "324d0dc8ebc1fb3c",
    "elementwise": "b1e29eacf4b29f72",
}
"""Of examples, from before there were several outputs: what databases and bundles know kernels by."""


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_one_output_are_as_they_were(name: str) -> None:
    op = get_operator(name)
    assert op.workload(**op.example).key[:16] == KEYS[name]


@pytest.mark.parametrize("name", OPERATORS)
def test_one_output_leaves_no_trace_in_json(name: str) -> None:
    op = get_operator(name)
    workload = op.workload(**op.example)
    assert len(json.loads(workload.program)) == (3 if workload.more else 2)
    assert ("more" in workload.to_json()) == bool(workload.more) == (name == "var_mean")


def _beside_a_scan(kind: str) -> Program:
    n, m = 9, 5
    x = te.input("x", (n, m))
    c = te.compute((n, m), lambda i, j: te.scan("sum", i, x[i, j]))
    doubled = te.compute((n, m), lambda i, j: c[i, j] * 2.0)
    rows = te.compute((n,), lambda i: te.sum(m, lambda k: c[i, k]))
    along = te.compute((m,), lambda j: te.max(n, lambda k: c[k, j]))
    back = te.compute((n, m), lambda i, j: te.scan("max", j, x[i, j]))
    found = {
        "map and rows": (doubled, rows), "scan and map": (c, doubled), "two scans": (c, back),
        "scan, along it and a map of the input": (c, along, te.compute((m, n), lambda j, i: x[i, j] + 1.0)),
        "reductions": (rows, along),
    }  # fmt: skip
    return te.program(found[kind])[0]


@pytest.mark.parametrize(
    "kind",
    ["map and rows", "scan and map", "two scans", "scan, along it and a map of the input", "reductions"],
)
def test_scans_stand_beside_other_results(kind: str) -> None:
    p = _beside_a_scan(kind)
    machine = parse_target("cpu:portable")
    task = task_of(p, machine)
    candidates = [Candidate(task, t.default(task)) for t in (*templates_for(task), get_template("cpu_generic"))]
    kernels = [get_template(c.schedule.template).lower(c) for c in candidates]
    library, inputs = compile_kernels(kernels, machine), random_arrays(p)
    for candidate, kernel in zip(candidates, kernels, strict=True):
        got = run_outputs(library, kernel, launch_values(candidate), inputs, task.workload.outputs)
        for one, part in zip(got, p.of_each(), strict=True):
            check(part, inputs, one)
