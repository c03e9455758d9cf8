"""Stored CUDA kernels beside PyTorch's libraries (cuBLAS, cuDNN, its own) and Triton, interleaved in one process.

    python benchmarks/gpu_rivals.py --db tuned.db --out DIR [--seconds-each 4]

Every side runs the same rotated input sets (together at least three times the L2 cache) inside CUDA
graphs, so that neither pays for Python. Convolutions are compared contiguous and with channels last, inputs
converted beforehand. The figure of a pair is the median of paired time ratios; beside it stands the share of
the stated matrix peak (products), or of the stated bandwidth (everything else). Needs a GPU and PyTorch;
Triton is compared where it is installed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

Call = Callable[[int], None]
"""Queue the computation on input set number ``i``."""

TRITON_SOURCE = """
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_warps=w, num_stages=s)
    for bm, bn, bk, w, s in [
        (128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 64, 8, 3), (64, 256, 64, 4, 4),
        (128, 64, 64, 4, 4), (64, 64, 64, 4, 4), (16, 128, 64, 4, 5), (16, 64, 128, 4, 5), (32, 64, 128, 4, 4),
    ]
]


@triton.autotune(CONFIGS, key=["m", "n", "k"])
@triton.jit
def product(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    tile = tl.program_id(0)
    across, down = tl.cdiv(n, BN), tl.cdiv(m, BM)
    band = tile // (GROUP * across)
    height = min(down - band * GROUP, GROUP)
    row = band * GROUP + tile % height
    column = (tile % (GROUP * across)) // height
    i = row * BM + tl.arange(0, BM)
    j = column * BN + tl.arange(0, BN)
    r = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        x = tl.load(a + i[:, None] * k + (start + r)[None, :],
                    mask=(i[:, None] < m) & ((start + r)[None, :] < k), other=0.0)
        y = tl.load(b + (start + r)[:, None] * n + j[None, :],
                    mask=((start + r)[:, None] < k) & (j[None, :] < n), other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + i[:, None] * n + j[None, :], total.to(c.dtype.element_ty), mask=(i[:, None] < m) & (j[None, :] < n))


def run(a, b, c):
    m, k = a.shape
    n = b.shape[1]
    product[lambda z: (triton.cdiv(m, z["BM"]) * triton.cdiv(n, z["BN"]),)](a, b, c, m, n, k)
"""


@dataclass(frozen=True)
class Row:
    """One rival on one workload: ``ratio`` is rival time over ours (above 1: ours is faster).

    ``share`` of the stated peak ``of``; ``error``: ours from float64, norms.
    """

    op: str
    params: dict[str, Any]
    rival: str
    ratio: float
    low: float
    high: float
    pairs: int
    our_us: float
    their_us: float
    share: float | None
    of: str
    error: float
    template: str

    @property
    def label(self) -> str:
        return f"{self.op} {' '.join(f'{k}={v}' for k, v in self.params.items())}"


PRODUCTS = ("matmul", "batch_matmul", "attention", "capsule_conv2d")
"""Beside convolutions: what is measured against the arithmetic peak."""


def peak_of(op: str, dtype: str) -> str:
    """The target's limit that bounds an operator."""
    if op not in PRODUCTS and not op.startswith("conv"):
        return "bandwidth"
    return {"float32": "fp32_flops", "float64": "fp64_flops", "int8": "int8_tensor_ops"}.get(dtype, "fp16_tensor_flops")


def pairs_of(ours: Callable[[], float], theirs: Callable[[], float], seconds: float) -> list[tuple[float, float]]:
    """Interleaved samples of the two sides, the order alternating, for about ``seconds``."""
    for side in (ours, theirs, ours, theirs):
        side()
    samples: list[tuple[float, float]] = []
    end = time.monotonic() + seconds
    while len(samples) < 9 or (time.monotonic() < end and len(samples) < 201):
        if len(samples) % 2:
            b = theirs()
            samples.append((ours(), b))
        else:
            a = ours()
            samples.append((a, theirs()))
    return samples


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Median of the ratios and its 95% confidence interval by order statistics."""
    ordered = sorted(ratios)
    n = len(ordered)
    half = 0.98 * n**0.5
    low, high = max(0, int(n / 2 - half)), min(n - 1, int(n / 2 + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def graph_timer(torch: Any, call: Call, sets: int, launches: int) -> Callable[[], float]:
    """Seconds a call: ``launches`` calls over the input sets in one CUDA graph, between two events."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for i in range(sets):
            call(i)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            call(i % sets)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def sample() -> float:
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return float(start.elapsed_time(stop)) / 1e3 / launches

    return sample


def random_set(torch: Any, workload: Any, gen: Any) -> list[Any]:
    """Inputs on the device, normal where they are real."""
    found = []
    for spec in workload.inputs:
        kind = getattr(torch, spec.dtype)
        if spec.dtype == "bool":
            found.append(torch.rand(spec.shape, device="cuda", generator=gen) < 0.5)
        elif kind.is_floating_point:
            found.append(torch.randn(spec.shape, device="cuda", generator=gen).to(kind))
        else:
            found.append(torch.randint(-127, 128, spec.shape, dtype=kind, device="cuda", generator=gen))
    return found


def rivals_of(torch: Any, workload: Any, inputs: list[list[Any]], outputs: list[Any], triton: Any) -> dict[str, Call]:
    """Every rival on the input sets, by name."""
    from tilewright.baselines.pytorch import compared, variants_of

    params = dict(workload.params)
    dtype = workload.inputs[0].dtype
    plain = workload.op == "matmul" and len(workload.inputs) == 2 and not params.get("trans_a")
    plain = plain and not params.get("trans_b")
    if workload.op == "matmul" and dtype == "int8":
        m, n, k = (int(params[x]) for x in "mnk")
        if not (plain and m > 16 and n % 8 == 0 and k % 8 == 0):
            return {}
        return {"cublas": lambda i: torch._int_mm(*inputs[i], out=outputs[i])}
    found: dict[str, Call] = {}
    if plain:
        found["cublas"] = lambda i: torch.matmul(*inputs[i], out=outputs[i])
        if triton is not None and dtype in ("float16", "bfloat16"):
            found["triton"] = lambda i: triton(*inputs[i], outputs[i])
    elif compared(workload):
        every = [variants_of(workload, x) for x in inputs]
        for name in every[0]:
            found[f"torch {name}"] = lambda i, name=name: every[i][name].run(*every[i][name].tensors)  # type: ignore[misc]
    return found


def relative_error(torch: Any, workload: Any, inputs: list[Any], got: Any) -> float:
    """Ours from PyTorch in float64; NaN where it does not compute this."""
    from tilewright.baselines.pytorch import compared, variants_of

    if not compared(workload):
        return float("nan")
    try:
        variant = next(
            iter(variants_of(workload, [x.double() if x.is_floating_point() else x for x in inputs]).values())
        )
        want = variant.result(variant.run(*variant.tensors)).double()
        return float((got.double() - want).norm() / want.norm())
    except (RuntimeError, NotImplementedError):
        return float("nan")


def compare_one(torch: Any, library: Any, op: str, params: dict[str, Any], seconds: float, triton: Any) -> list[Row]:
    """Rows for one workload whose kernel ``library`` holds."""
    from tilewright.kernels.expression.expr import ITEMSIZE
    from tilewright.kernels.operators import get_operator

    workload = get_operator(op).workload(**params)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    specs = [*workload.inputs, workload.output]
    size = sum(math.prod(s.shape) * ITEMSIZE[s.dtype] for s in specs)
    sets = max(2, min(64, -(-3 * l2 // size)))
    gen = torch.Generator(device="cuda").manual_seed(0)
    inputs = [random_set(torch, workload, gen) for _ in range(sets)]
    out_kind = getattr(torch, workload.output.dtype)
    outputs = [torch.empty(workload.output.shape, dtype=out_kind, device="cuda") for _ in range(sets)]
    explanation = library.explain_gpu(op, *inputs[0], **params)
    if explanation is None:
        return []
    function = getattr(library, op)

    def ours(i: int) -> None:
        function(*inputs[i], out=outputs[i], **params)

    ours(0)
    error = relative_error(torch, workload, inputs[0], outputs[0])
    rivals = rivals_of(torch, workload, inputs, outputs, triton)
    guess = max(workload.flops / 4e14, size / 4e12, 3e-6)
    launches = max(sets, min(400, int(2e-3 / guess)))
    our_timer = graph_timer(torch, ours, sets, launches)
    peak = peak_of(op, workload.inputs[0].dtype)
    limit = dict(explanation.get("limits", {})).get(peak)
    work = size if peak == "bandwidth" else workload.flops
    rows = []
    for name, call in rivals.items():
        try:
            call(0)
            samples = pairs_of(our_timer, graph_timer(torch, call, sets, launches), seconds / len(rivals))
        except Exception as e:  # a rival that cannot do this shape is reported, not fatal
            print(f"  {name} on {workload.label}: not measured ({type(e).__name__}: {e})", file=sys.stderr)
            continue
        ratio, low, high = interval([t / o for o, t in samples])
        mine = statistics.median(o for o, _ in samples)
        rows.append(
            Row(
                op, params, name, ratio, low, high, len(samples), mine * 1e6,
                statistics.median(t for _, t in samples) * 1e6, None if not limit else work / mine / float(limit), peak,
                error, explanation["template"],
            )
        )  # fmt: skip
    return rows


def load_triton(folder: Path, name: str, source: str) -> Any:
    """A module of Triton kernels, from a file: it reads their source. ``None`` where Triton is not installed."""
    import importlib.util

    if importlib.util.find_spec("triton") is None:
        return None
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def compare_all(db: Path, cases: Sequence[tuple[str, dict[str, Any]]], seconds: float, folder: Path) -> list[Row]:
    """Every case that has a stored kernel, each beside its rivals. Prints a line a row."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    import tilewright

    kernels = load_triton(folder, "triton_product", TRITON_SOURCE)
    triton = kernels.run if kernels is not None else None
    rows: list[Row] = []
    with tilewright.Library(db, trust=True) as library:
        for op, params in cases:
            found = compare_one(torch, library, op, params, seconds, triton)
            if not found:
                print(f"  {op} {params}: no row")
            for r in found:
                share = "" if r.share is None else f", {100 * r.share:.0f}% of {r.of}"
                print(f"  {r.label} vs {r.rival}: {r.ratio:.3f} ({r.low:.3f} to {r.high:.3f}){share}")
            rows += found
            torch.cuda.empty_cache()
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", type=Path, required=True, help="JSON list of [operator, parameters]")
    parser.add_argument("--seconds-each", type=float, default=4.0)
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    cases = [(op, params) for op, params in json.loads(options.cases.read_text())]
    rows = compare_all(options.db, cases, options.seconds_each, options.out)
    (options.out / "rivals.json").write_text(json.dumps([asdict(r) for r in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
