"""Index expressions as sums, positions in flat tensors, conditions that extents decide, axes walked as one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.kernels import te
from tilewright.kernels.expression.expr import INDEX, Expr, axis, binary, cast, load
from tilewright.kernels.expression.program import Tensor
from tilewright.kernels.families.flatten import Linearizer, collapsed, flattened, linear, position, unconditional
from tilewright.kernels.te import maximum, minimum, select

A, J, K = axis("i"), axis("j"), axis("k")
T = Tensor("x", (6, 20), "float32")


@pytest.mark.parametrize(
    ("index", "const", "steps"),
    [
        ((A, J), 0, {"i": 20, "j": 1}),
        ((A - 1, J * 2 + 3), -17, {"i": 20, "j": 2}),
        (((A * 8 + J) // 20, (A * 8 + J) % 20), 0, {"i": 8, "j": 1}),
        (((A * 8 + J) // 20, (A * 8 + J) % 20 - 1), -1, {"i": 8, "j": 1}),
        ((A // 2, (A % 2) * 10 + J), 0, {"i": 10, "j": 1}),
    ],
)
def test_positions_of_reads_are_linear_forms(index: tuple[Expr, Expr], const: int, steps: dict[str, int]) -> None:
    found = position(load("x", "float32", index), T)
    assert found.const == const
    assert not found.rest
    assert {a: found.of(a) for a in steps} == steps


def test_positions_that_are_no_linear_form_keep_their_terms() -> None:
    table = load("t", "int32", (A,))
    found = position(load("x", "float32", (minimum(maximum(cast(table, "index"), 0), 5), J)), T)
    assert found.step("j") == 1
    assert found.step("i") is None
    ((_, step),) = found.rest
    assert step == 20
    assert linear((A + J) % 7).step("i") is None


def test_axes_that_every_read_fuses_are_one() -> None:
    tensors = {"x": T, "y": Tensor("y", (6, 20), "float32"), "t": Tensor("t", (6, 20), "int32")}
    axes = (("i", 6), ("j", 20))
    reads = load("x", "float32", (A, J)) + load("y", "float32", (A, J))
    (merged,), (found,) = collapsed((reads,), tensors, (axes,))
    assert found == (("j", 120),)
    assert repr(merged) == "(x[j] + y[j])"
    (kept,), (found,) = collapsed((select(A < J, reads, 0.0),), tensors, (axes,))
    assert found == axes
    assert kept.axes() == {"i", "j"}
    gathered = load("x", "float32", (cast(load("t", "int32", (A, J)), "index"), K))
    _, (found,) = collapsed((gathered,), tensors, ((*axes, ("k", 20)),))
    assert found == (("j", 120), ("k", 20))
    (single,), (found,) = collapsed((load("x", "float32", (A, K)),), tensors, ((("i", 1), ("k", 20)),))
    assert (repr(single), found) == ("x[k]", (("k", 20),))


def test_conditions_that_the_extents_decide_are_gone() -> None:
    x = load("x", "float32", (A, J))
    lin = Linearizer.below({"i": 6, "j": 20})
    for inside, left in ((J < 20, "x[((i * 20) + j)]"), (J >= 20, "0.0"), ((A < 3) & (J < 20), "select((i < 3), ")):
        assert repr(flattened(select(inside, x, 0.0), {"x": T}, lin)).startswith(left)


@pytest.mark.parametrize("seed", range(20))
def test_sums_equal_the_expressions_they_come_from(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {"i0": rng.randint(1, 9), "i1": rng.randint(1, 12), "i2": rng.randint(1, 7)}

    def grow(depth: int) -> object:
        if depth == 0:
            return axis(rng.choice(list(sizes))) if rng.random() < 0.8 else rng.randint(-9, 9)
        op = rng.choice(["add", "sub", "mul", "floordiv", "mod", "min", "max"])
        right = rng.randint(1, 12) if op in ("mul", "floordiv", "mod") else grow(depth - 1)
        return binary(op, te.cast(grow(depth - 1), INDEX), right)  # type: ignore[arg-type]

    def value(e: te.Expr, at: dict[str, int]) -> int:
        if e.op in ("const", "axis"):
            return int(e.value) if e.op == "const" else at[str(e.value)]  # type: ignore[arg-type]
        a = [value(x, at) for x in e.args]
        ops = {"add": sum, "mul": np.prod, "min": min, "max": max}
        if e.op in ops:
            return int(ops[e.op](a))  # type: ignore[operator]
        return {"sub": lambda: a[0] - a[1], "floordiv": lambda: a[0] // a[1], "mod": lambda: a[0] % a[1]}[e.op]()

    lin = Linearizer({a: (0, n - 1) for a, n in sizes.items()})
    for _ in range(40):
        e = te.cast(grow(4), INDEX)  # type: ignore[arg-type]
        found = lin.of(e).expr()
        for _ in range(6):
            at = {a: rng.randrange(n) for a, n in sizes.items()}
            assert value(e, at) == value(found, at), f"{e!r} became {found!r}"


def test_what_both_branches_of_a_choice_read_is_always_read() -> None:
    x, y, z = (load(name, "float32", (J,)) for name in "xyz")
    chosen = select(A < 3, select(load("c", "bool", (J,)), x * y, -x), x + z)
    assert [e.value for e in unconditional(chosen)] == ["x"]
    assert [e.value for e in unconditional(select(load("c", "bool", (J,)), x, y))] == ["c"]
