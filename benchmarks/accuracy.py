"""The error of every template's sums, norms, softmax, products and scans against float64, beside NumPy's and PyTorch's.

    python benchmarks/accuracy.py --out benchmarks/results/accuracy

Each case is computed by the template's default and by sampled schedules on one thread, and on the same values by the
operator's NumPy function and by PyTorch, eager. Errors are in units in the last place of the result's type, where a
result is smaller than their root mean square, of that; of the schedules' the largest counts. Nothing is timed, so a
busy machine does no harm.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as f

from tilewright.backends import parse_target
from tilewright.backends.cpu import loader
from tilewright.backends.cpu.device import device_model
from tilewright.building.builder import Builder
from tilewright.core import Artifact, Candidate, Task, Workload
from tilewright.dtypes import DTYPES as RECORDS
from tilewright.dtypes import numpy_dtype
from tilewright.kernels.expression.expr import FLOATS
from tilewright.kernels.expression.numerics import decode, encode
from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.kernels.reference import evaluate
from tilewright.kernels.templates import get_template

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float16", "bfloat16")
DATA = ("normal", "positive", "shifted")
"""Normal values; uniform ones around 1; normal ones around 100, whose variance is small next to their mean."""
FLOOR = 0.5
"""Units in the last place: what one rounding may be off by. A rival is not credited with less."""
T = torch.Tensor
Run = Callable[[Sequence[Array]], list[Array]]


@dataclass(frozen=True)
class Case:
    """An operator at some sizes, computed by one template; ``single``: in float32 only."""

    template: str
    op: str
    params: Mapping[str, Any]
    single: bool = False


def cases() -> Iterator[Case]:
    """Each template with what it sums, from 512 to a million terms."""
    for n, m in ((512, 256), (65536, 16), (1 << 20, 4)):
        rows, columns = {"shape": f"{m},{n}", "dim": 1}, {"shape": f"{n},{m}", "dim": 0}
        for op in ("sum", "mean", "var_mean", "norm", "logsumexp"):
            yield Case("cpu_rows", op, rows)
            yield Case("cpu_generic", op, rows, single=True)
            yield Case("cpu_generic", op, columns)
        for op in ("layer_norm", "rms_norm", "softmax", "log_softmax"):
            yield Case("cpu_rows", op, {"shape": f"{m},{n}"})
        yield Case("cpu_generic", "layer_norm", {"shape": f"{m},{n}"}, single=True)
        yield Case("cpu_scan", "cumsum", rows)
        yield Case("cpu_scan", "cumsum", columns)
    for k in (512, 8192, 262144):
        m = 64 if k < 262144 else 16
        yield Case("cpu_contraction", "matmul", {"m": m, "n": m, "k": k})
        yield Case("cpu_generic", "matmul", {"m": 16, "n": 16, "k": k}, single=True)
        if k < 262144:
            yield Case("cpu_grouped", "grouped_matmul", {"m": 64, "n": 32, "k": k, "groups": 4}, single=True)
    for dtype in DTYPES[1:]:
        for k in (512, 8192):
            yield Case("cpu_dot", "matmul", {"m": 64, "n": 64, "k": k, "dtype": dtype})
    for lk in (512, 8192):
        yield Case("cpu_attention", "attention", {"b": 1, "h": 2, "lq": 32, "lk": lk, "d": 64})
    conv = {"n": 1, "h": 8, "w": 8, "co": 32, "kh": 3, "kw": 3, "padding": 1}
    for ci in (64, 512):
        yield Case("cpu_contraction", "conv2d", {**conv, "ci": ci}, single=True)
        yield Case("cpu_winograd", "conv2d", {**conv, "ci": ci, "layout": "NHWC"}, single=True)
    for size in (7, 31):
        window = {"n": 1, "ci": 8, "h": 128, "w": 128, "co": 8, "kh": size, "kw": size, "groups": 8}
        yield Case("cpu_stencil", "conv2d", window, single=True)
    for lk in (512, 8192):
        yield Case("cpu_partition", "attention", {"b": 1, "h": 2, "lq": 32, "lk": lk, "d": 64}, single=True)


def _dim(params: Mapping[str, Any]) -> int:
    return int(params["dim"])


def _convolved(p: Mapping[str, Any], x: T, w: T) -> T:
    last = p.get("layout") == "NHWC"
    if last:
        x, w = x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1)
    y = f.conv2d(x, w, padding=int(p.get("padding", 0)), groups=int(p.get("groups", 1)))
    return y.permute(0, 2, 3, 1) if last else y


TORCH: dict[str, Callable[..., Any]] = {
    "sum": lambda p, x: x.sum(_dim(p)),
    "mean": lambda p, x: x.mean(_dim(p)),
    "var_mean": lambda p, x: torch.var_mean(x, _dim(p)),
    "norm": lambda p, x: torch.linalg.vector_norm(x, 2, _dim(p)),
    "logsumexp": lambda p, x: torch.logsumexp(x, _dim(p)),
    "layer_norm": lambda p, x, w, b: f.layer_norm(x, w.shape, w, b),
    "rms_norm": lambda p, x, w: f.rms_norm(x, w.shape, w, 1e-6),
    "softmax": lambda p, x: torch.softmax(x, -1),
    "log_softmax": lambda p, x: torch.log_softmax(x, -1),
    "cumsum": lambda p, x: torch.cumsum(x, _dim(p)),
    "matmul": lambda p, a, b: a @ b,
    "attention": lambda p, q, k, v: f.scaled_dot_product_attention(q, k, v),
    "conv2d": _convolved,
}


def drawn(program: Program, data: str, seed: int) -> list[Array]:
    """Inputs, as they are passed: the first one as ``data`` says, all others normal; whole ones in range."""
    rng = np.random.default_rng(seed)
    values = []
    for n, t in enumerate(program.inputs):
        if t.dtype not in FLOATS:
            values.append(rng.integers(0, 4, t.shape).astype(t.dtype))
            continue
        x = rng.standard_normal(t.shape)
        if n == 0 and data != "normal":
            x = rng.random(t.shape) + 0.5 if data == "positive" else 100.0 + x
        values.append(encode(x.astype(np.float32), t.dtype))
    return values


@dataclass(frozen=True)
class Error:
    """Largest and root mean square error, in units in the last place."""

    largest: float
    rms: float

    @staticmethod
    def of(got: Sequence[Array], exact: Sequence[Array], dtypes: Sequence[str]) -> Error:
        """The worst of several results."""
        found = []
        for x, right, dtype in zip(got, exact, dtypes, strict=True):
            size = np.maximum(np.abs(right), np.sqrt(np.mean(np.square(right))))
            unit = np.exp2(np.floor(np.log2(np.maximum(size, 1e-30))) + 1 - RECORDS[dtype].digits)
            off = np.abs(decode(x, dtype).astype(np.float64) - right) / unit
            found.append((float(off.max()), float(np.sqrt(np.mean(np.square(off))))))
        return Error(*(max(x) for x in zip(*found, strict=True)))

    def row(self) -> list[float]:
        return [float(f"{self.largest:.3g}"), float(f"{self.rms:.3g}")]


def kernels(case: Case, workload: Workload, samples: int, builder: Builder) -> list[Run]:
    """The template's kernels of a workload: the default schedule, and sampled ones."""
    task = Task(workload, builder.target)
    template = get_template(case.template)
    if not template.matches(task):
        return []
    space = template.space(task)
    schedules = [template.default(task), *(space.sample(random.Random(n)) for n in range(samples))]
    candidates = [Candidate(task, s) for s in dict.fromkeys(schedules)]
    program = Program.loads(workload.program)
    found: list[Run] = []
    for c, built in zip(candidates, builder.build(candidates), strict=True):
        if not isinstance(built, Artifact):
            raise SystemExit(f"{case}: {built}")
        launch = {n: int(v) for n, v in c.schedule.launch}
        kernel = loader.load_path(built.path, built.sha256).kernel(built.program, launch, 1)

        def run(values: Sequence[Array], kernel: Any = kernel) -> list[Array]:
            given = [np.ascontiguousarray(v) for v in values]
            outs = [np.empty(t.shape, numpy_dtype(t.dtype)) for t in program.outputs]
            kernel.run([x.ctypes.data for x in (*given, *outs)])
            return outs

        found.append(run)
    return found


def as_list(result: Any) -> list[Any]:
    """One result or several, as a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


def by_torch(case: Case, program: Program, values: Sequence[Array]) -> list[Array] | None:
    """PyTorch's results, as they are passed; ``None`` where the case has no function of its own there."""
    if case.op not in TORCH:
        return None
    given = []
    for t, v in zip(program.inputs, values, strict=True):
        given.append(torch.from_numpy(v).view(torch.bfloat16) if t.dtype == "bfloat16" else torch.from_numpy(v))
    result = TORCH[case.op](case.params, *given)
    if result is None:
        return None
    return [(x.contiguous().view(torch.uint16) if x.dtype == torch.bfloat16 else x).numpy() for x in as_list(result)]


def measure(case: Case, dtype: str, samples: int, builder: Builder) -> Iterator[dict[str, Any]]:
    """A row for each kind of data."""
    operator = get_operator(case.op)
    workload = operator.workload(**{"dtype": dtype, **case.params})
    program = Program.loads(workload.program)
    runs = kernels(case, workload, samples, builder)
    if not runs:
        return
    dtypes = [t.dtype for t in program.outputs]
    for data in DATA:
        if data != "normal" and case.op in ("attention",):
            continue
        values = drawn(program, data, 0)
        exact = [evaluate(p, values) for p in program.of_each()]
        ours = [Error.of(run(values), exact, dtypes) for run in runs]
        row = {
            "template": case.template, "op": case.op, "params": dict(case.params), "dtype": dtype, "data": data,
            "schedules": len(runs), "ours": Error(max(e.largest for e in ours), max(e.rms for e in ours)).row(),
        }  # fmt: skip
        rivals = {}
        if operator.numpy is not None:
            given = as_list(operator.numpy(*values, **dict(workload.params)))
            rivals["numpy"] = Error.of(given, exact, dtypes)
        theirs = by_torch(case, program, values)
        if theirs is not None:
            rivals["torch"] = Error.of(theirs, exact, dtypes)
        row |= {name: e.row() for name, e in rivals.items()}
        better = min((e.rms for e in rivals.values()), default=FLOOR)
        row["ratio"] = float(f"{max(e.rms for e in ours) / max(better, FLOOR):.3g}")
        if math.isfinite(row["ratio"]):  # else a sum is beyond the type
            yield row


def table(record: Mapping[str, Any]) -> str:
    """The rows as Markdown."""
    head = (
        f"{record['device']}, {record['date']}; NumPy {record['numpy']}, PyTorch {record['torch']}. Largest and root "
        "mean square error in units in the last place of the result's type, one thread; of the default and "
        f"{record['samples']} sampled schedules the worst. The ratio is of root mean squares, ours to the better "
        f"rival's, which counts as {FLOOR} at least.\n\n"
        "| template | operator | sizes | type | data | ours | NumPy | PyTorch | ratio |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for r in record["rows"]:
        sizes = " ".join(f"{k}={v}" for k, v in r["params"].items() if k != "dtype")
        errors = (f"{r[n][0]:g}, {r[n][1]:g}" if n in r else "-" for n in ("ours", "numpy", "torch"))
        cells = (r["template"], r["op"], sizes, r["dtype"], r["data"], *errors, f"{r['ratio']:.2f}")
        lines.append("| " + " | ".join(cells) + " |\n")
    return head + "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to write NAME.json and NAME.md")
    parser.add_argument("--samples", type=int, default=2, help="sampled schedules of each case, beside the default")
    parser.add_argument("--only", default="", help="templates to measure, by part of the name")
    args = parser.parse_args()
    torch.set_num_threads(1)
    builder = Builder(parse_target("cpu", 1), workers=1)
    rows: list[dict[str, Any]] = []
    for case in cases():
        if args.only not in case.template:
            continue
        for dtype in (str(case.params.get("dtype", "float32")),) if case.single or "dtype" in case.params else DTYPES:
            for row in measure(case, dtype, args.samples, builder):
                rows.append(row)
                print(json.dumps(row), flush=True)
    record = {
        "date": time.strftime("%Y-%m-%d"), "device": device_model(), "numpy": np.__version__,
        "torch": torch.__version__, "samples": args.samples, "rows": rows,
    }  # fmt: skip
    worst = max(rows, key=lambda r: float(r["ratio"]))
    print(f"{len(rows)} rows; the largest ratio is {worst['ratio']} ({worst['template']} {worst['op']})")
    if args.out:
        args.out.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
        args.out.with_suffix(".md").write_text(table(record))


if __name__ == "__main__":
    main()
