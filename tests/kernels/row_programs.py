"""Programs that work row by row, and how tests run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness import gpu_programs
from harness.gpu_programs import log_softmax, softmax
from tilewright.backends.cpu.targets import parse_target
from tilewright.core import Candidate
from tilewright.kernels import te
from tilewright.kernels.expression import monoids
from tilewright.kernels.expression.program import Program
from tilewright.kernels.templates import get_template
from tilewright.testing.catalogue import enter
from tilewright.testing.kernels import Array, compile_kernels, launch_values, run_kernel, task_of
from tilewright.testing.programs import PROGRAMS


def program_of(out: te.TensorRef) -> Program:
    return te.program(out)[0]


def _wide(dtype: str) -> Callable[[te.Expr], te.Expr]:
    return lambda e: te.cast(e, "float32") if "16" in dtype else e


def masked_softmax(b: int = 2, h: int = 3, n: int = 21) -> Program:
    """Causal, with a mask for each batch element: rows are of two axes, and axes occur in conditions."""
    x, keep = te.input("x", (b, h, n, n)), te.input("keep", (b, n), "bool")
    shape = (b, h, n)

    def score(p: te.Expr, q: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        return te.select((j <= i) & (keep[p, j] | (j < 1)), x[p, q, i, j] * 0.125, -1e30)

    top = te.compute(shape, lambda p, q, i: te.max(n, lambda r: score(p, q, i, r)))
    e = te.compute((*shape, n), lambda p, q, i, j: te.exp(score(p, q, i, j) - top[p, q, i]))
    total = te.compute(shape, lambda p, q, i: te.sum(n, lambda r: e[p, q, i, r]))
    return program_of(te.compute((*shape, n), lambda p, q, i, j: e[p, q, i, j] / total[p, q, i]))


def logsumexp(m: int = 5, n: int = 130) -> Program:
    x = te.input("x", (m, n))
    top = te.compute((m,), lambda i: te.max(n, lambda r: x[i, r]))
    total = te.compute((m,), lambda i: te.sum(n, lambda r: te.exp(x[i, r] - top[i])))
    return program_of(te.compute((m,), lambda i: te.log(total[i]) + top[i]))


def layer_norm(m: int, n: int, dtype: str = "float32", residual: bool = False) -> Program:
    real = _wide(dtype)
    x, w, b = te.input("x", (m, n), dtype), te.input("w", (n,), dtype), te.input("b", (n,), dtype)
    z = te.input("z", (m, n), dtype) if residual else None

    def value(i: te.Expr, j: te.Expr) -> te.Expr:
        return real(x[i, j]) if z is None else real(x[i, j]) + real(z[i, j])

    mean = te.compute((m,), lambda i: te.sum(n, lambda r: value(i, r) * (1.0 / n)))
    var = te.compute((m,), lambda i: te.sum(n, lambda r: (value(i, r) - mean[i]) ** 2 * (1.0 / n)))

    def normed(i: te.Expr, j: te.Expr) -> te.Expr:
        return te.cast((value(i, j) - mean[i]) * te.rsqrt(var[i] + 1e-5) * real(w[j]) + real(b[j]), dtype)

    return program_of(te.compute((m, n), normed))


def group_norm(b: int = 2, groups: int = 3, c: int = 4, n: int = 19) -> Program:
    """The weight of a channel is shared by its positions: a row is walked by two axes."""
    x, w = te.input("x", (b, groups * c, n)), te.input("w", (groups * c,))
    count = 1.0 / (c * n)

    def at(p: te.Expr, g: te.Expr, k: te.Expr, j: te.Expr) -> te.Expr:
        return x[p, g * c + k, j]

    mean = te.compute((b, groups), lambda p, g: te.sum((c, n), lambda k, r: at(p, g, k, r) * count))
    var = te.compute((b, groups), lambda p, g: te.sum((c, n), lambda k, r: (at(p, g, k, r) - mean[p, g]) ** 2 * count))
    return program_of(
        te.compute(
            (b, groups, c, n),
            lambda p, g, k, j: (at(p, g, k, j) - mean[p, g]) / te.sqrt(var[p, g] + 1e-5) * w[g * c + k],
        )
    )


def norm(b: int, m: int, n: int, dtype: str = "float32") -> Program:
    x = te.input("x", (b, m, n), dtype)
    squares = te.compute((b,), lambda i: te.sum((m, n), lambda r, s: x[i, r, s] ** 2))
    return program_of(te.compute((b,), lambda i: te.sqrt(squares[i])))


def kept_dims(m: int = 4, n: int = 33) -> Program:
    x = te.input("x", (m, n))
    low = te.compute((m, 1), lambda i, _: te.min(n, lambda r: x[i, r]))
    high = te.compute((m, 1), lambda i, _: te.max(n, lambda r: x[i, r]))
    return program_of(te.compute((m, n), lambda i, j: (x[i, j] - low[i, 0]) / (high[i, 0] - low[i, 0] + 1e-3)))


def single_row(n: int = 70) -> Program:
    """The root mean square of one row, written out with the axis of one point kept: it is read at the number 0."""
    x, w = te.input("x", (1, 1, n)), te.input("w", (n,))
    square = te.compute((1, 1, n), lambda a, b, j: x[a, b, j] * x[a, b, j])
    total = te.compute((1, 1, 1), lambda a, b, _: te.sum(n, lambda j: square[a, b, j]))
    root = te.compute((1, 1, 1), lambda a, b, c: te.sqrt(total[a, b, c] / n + 1e-5))
    scaled = te.compute((1, 1, n), lambda a, b, j: x[a, b, j] / root[a, b, 0])
    return program_of(te.compute((1, 1, n), lambda a, b, j: scaled[a, b, j] * w[j]))


def argmax(m: int = 6, n: int = 100, dtype: str = "float32", least: bool = False) -> Program:
    x = te.input("x", (m, n), dtype)
    pick = te.argmin if least else te.argmax
    return program_of(te.compute((m,), lambda i: pick(n, lambda r: x[i, r])))


def backwards(m: int = 4, n: int = 70) -> Program:
    """argmax of positions counted from the end: of equals the last column wins."""
    x = te.input("x", (m, n))
    rows = te.compute((m,), lambda i: te.reduce(
        monoids.arg("argmax", "float32"), n, lambda r: (x[i, r], te.cast(n - 1 - r, "int64"))
    ))  # fmt: skip
    return program_of(rows)


def _merge(a: tuple[te.Expr, ...], b: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
    count, delta = a[0] + b[0], b[1] - a[1]
    share = te.select(count > 0.0, b[0] / count, 0.0)
    return count, a[1] + delta * share, a[2] + b[2] + delta * delta * a[0] * share


def welford(m: int = 5, n: int = 70, dtype: str = "float32") -> Program:
    x = te.input("x", (m, n), dtype)
    monoid = te.monoid("welford", (0.0, 0.0, 0.0), _merge, lambda count, mean, m2: m2 / count, dtype)
    return program_of(te.compute((m,), lambda i: te.reduce(monoid, n, lambda r: (1.0, x[i, r], 0.0))))


def any_above(m: int = 5, n: int = 40) -> Program:
    x = te.input("x", (m, n))
    monoid = te.monoid("any", (False,), lambda a, b: (a[0] | b[0],), lambda a: a, "bool")
    return program_of(te.compute((m,), lambda i: te.reduce(monoid, n, lambda r: x[i, r] > 1.5)))


def whole(m: int = 5, n: int = 50) -> Program:
    x = te.input("x", (m, n), "int8")
    return program_of(te.compute((m,), lambda i: te.sum(n, lambda r: te.cast(x[i, r], "int32") * 3)))


def double_product(m: int = 3, n: int = 41) -> Program:
    x = te.input("x", (m, n), "float64")
    return program_of(te.compute((m,), lambda i: te.prod(n, lambda r: 1.0 + 0.1 * te.tanh(x[i, r]))))


def picked(m: int = 3, n: int = 37, k: int = 4) -> Program:
    """Along each row elements of the rows that a map chooses, but where its input says none."""
    labels, x = te.input("labels", (m, n), "int64"), te.input("x", (m, k, n))
    chosen = te.compute((m, n), lambda i, j: te.select(labels[i, j] != 2, labels[i, j], 0))

    def read(i: te.Expr, j: te.Expr) -> te.Expr:
        return x[i, te.minimum(te.maximum(te.cast(chosen[i, j], "index"), 0), k - 1), j]

    loss = te.compute((m, n), lambda i, j: te.select(labels[i, j] != 2, -read(i, j), 0.0))
    return program_of(te.compute((m,), lambda i: te.sum(n, lambda r: loss[i, r])))


def matvec(m: int = 7, n: int = 53) -> Program:
    x, y = te.input("x", (m, n)), te.input("y", (n,))
    return program_of(te.compute((m,), lambda i: te.sum(n, lambda r: x[i, r] * y[r])))


ROWS: dict[str, Callable[[], Program]] = {
    **{f"softmax_{n}": lambda n=n: softmax(5, n) for n in (1, 15, 16, 17, 1000)},  # type: ignore[misc]
    "softmax_bfloat16": lambda: softmax(3, 70, "bfloat16"),
    "softmax_float16": lambda: softmax(3, 45, "float16"),
    "softmax_float64": lambda: softmax(4, 37, "float64"),
    "masked_softmax": masked_softmax,
    "log_softmax": lambda: log_softmax(9, 100),
    "logsumexp": logsumexp,
    "layer_norm": lambda: layer_norm(6, 129),
    "layer_norm_residual": lambda: layer_norm(3, 48, residual=True),
    "layer_norm_bfloat16": lambda: layer_norm(3, 65, "bfloat16", True),
    "group_norm": group_norm,
    "norm": lambda: norm(3, 5, 70),
    "norm_of_one": lambda: norm(1, 9, 16, "float64"),
    "kept_dims": kept_dims,
    "single_row": single_row,
    "argmax": argmax,
    "argmax_backwards": backwards,
    "argmin_int32": lambda: argmax(4, 33, "int32", True),
    "argmax_int64": lambda: argmax(4, 20, "int64"),
    "welford": welford,
    "any_above": any_above,
    "whole": whole,
    "double_product": double_product,
    "matvec": matvec,
    "picked": picked,
    "total": PROGRAMS["total"],
    "gathered": gpu_programs.gathered_rows,
}  # fmt: skip
enter("rows", ROWS)


def run_rows(program: Program, inputs: list[Array], variant: str = "auto", threads: int = 1, **knobs: Any) -> Array:
    """The output of the default schedule with some knobs set."""
    return next(run_each(program, inputs, [knobs], variant, threads))


def run_each(
    program: Program, inputs: list[Array], knobs: list[dict[str, Any]], variant: str = "auto", threads: int = 1
) -> Iterator[Array]:
    """The outputs of several such schedules, compiled together."""
    target = parse_target(f"cpu:{variant}" if variant != "auto" else variant, threads)
    task, template = task_of(program, target), get_template("cpu_rows")
    space, default = template.space(task), template.default(task)
    candidates = [Candidate(task, space.schedule({**default.values, **k}) if k else default) for k in knobs]
    kernels = [template.lower(c) for c in candidates]
    library = compile_kernels(kernels, target)
    for candidate, kernel in zip(candidates, kernels, strict=True):
        yield run_kernel(library, kernel, launch_values(candidate), inputs, task.workload.output, threads)
