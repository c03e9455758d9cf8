"""Stored CUDA kernels beside cuBLAS (through PyTorch) and Triton, interleaved in one process.

    python benchmarks/gpu_rivals.py --db tuned.db --out DIR [--seconds-each 4]

Every side runs the same rotated input sets (together at least three times the L2 cache) inside CUDA
graphs, so that neither pays for Python. The figure of a pair is the median of paired time ratios;
shares of the stated matrix peak stand beside it. Needs a GPU and PyTorch; Triton is compared where it
is installed.
"""

from __future__ import annotations

import argparse
import json
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
    """One rival on one workload: ``ratio`` is rival time over ours (above 1: ours is faster)."""

    m: int
    n: int
    k: int
    dtype: str
    rival: str
    ratio: float
    low: float
    high: float
    pairs: int
    our_us: float
    their_us: float
    peak_share: float | None
    error: float
    template: str
    clocks: dict[str, float]


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


def compare_one(torch: Any, library: Any, m: int, n: int, k: int, dtype: str, seconds: float, triton: Any) -> list[Row]:
    """Rows for one matmul whose kernel ``library`` holds."""
    kind = getattr(torch, dtype)
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    itemsize = torch.empty((), dtype=kind).element_size()
    sets = max(2, min(64, -(-3 * l2 // ((m * k + k * n + m * n) * itemsize))))
    gen = torch.Generator(device="cuda").manual_seed(0)

    def random(*shape: int) -> Any:
        if dtype == "int8":
            return torch.randint(-127, 128, shape, dtype=kind, device="cuda", generator=gen)
        return torch.randn(shape, device="cuda", generator=gen).to(kind)

    out_kind = torch.int32 if dtype == "int8" else kind
    a = [random(m, k) for _ in range(sets)]
    b = [random(k, n) for _ in range(sets)]
    c = [torch.empty((m, n), dtype=out_kind, device="cuda") for _ in range(sets)]
    explanation = library.explain_gpu("matmul", a[0], b[0])
    if explanation is None:
        return []

    def ours(i: int) -> None:
        library.matmul(a[i], b[i], out=c[i])

    ours(0)
    want = a[0].double() @ b[0].double()
    error = float((c[0].double() - want).norm() / want.norm())
    rivals: dict[str, Call] = {}
    if dtype != "int8":
        rivals["cublas"] = lambda i: torch.matmul(a[i], b[i], out=c[i])
    elif m > 16 and n % 8 == 0 and k % 8 == 0:
        rivals["cublas"] = lambda i: torch._int_mm(a[i], b[i], out=c[i])
    if triton is not None and dtype in ("float16", "bfloat16"):
        rivals["triton"] = lambda i: triton(a[i], b[i], c[i])
    seconds_guess = max(2 * m * n * k / 4e14, (m * k + k * n + m * n) * itemsize / 4e12, 3e-6)
    launches = max(sets, min(400, int(2e-3 / seconds_guess)))
    our_timer = graph_timer(torch, ours, sets, launches)
    peak = {
        "float32": "fp32_flops", "bfloat16": "fp16_tensor_flops", "float16": "fp16_tensor_flops",
        "int8": "int8_tensor_ops",
    }[dtype]  # fmt: skip
    limit = dict(explanation.get("limits", {})).get(peak)
    rows = []
    for name, call in rivals.items():
        try:
            call(0)
            samples = pairs_of(our_timer, graph_timer(torch, call, sets, launches), seconds)
        except Exception as e:  # a rival that cannot do this shape is reported, not fatal
            print(f"  {name} on {m}x{n}x{k} {dtype}: not measured ({type(e).__name__}: {e})", file=sys.stderr)
            continue
        ratio, low, high = interval([t / o for o, t in samples])
        mine = statistics.median(o for o, _ in samples)
        rows.append(
            Row(
                m,
                n,
                k,
                dtype,
                name,
                ratio,
                low,
                high,
                len(samples),
                mine * 1e6,
                statistics.median(t for _, t in samples) * 1e6,
                None if not limit else 2 * m * n * k / mine / float(limit),
                error,
                explanation["template"],
                {"sm_mhz": float(torch.cuda.clock_rate())} if hasattr(torch.cuda, "clock_rate") else {},
            )
        )
    return rows


def load_triton(folder: Path) -> Any:
    """The Triton product, or ``None`` where Triton is not installed."""
    import importlib.util

    if importlib.util.find_spec("triton") is None:
        return None
    path = folder / "triton_product.py"
    path.write_text(TRITON_SOURCE)
    spec = importlib.util.spec_from_file_location("triton_product", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["triton_product"] = module
    spec.loader.exec_module(module)
    return module.run


def compare_all(db: Path, cases: Sequence[tuple[int, int, int, str]], seconds: float, folder: Path) -> list[Row]:
    """Every case that has a stored kernel, each beside its rivals. Prints a line a row."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    import tilewright

    triton = load_triton(folder)
    rows: list[Row] = []
    with tilewright.Library(db, trust=True) as library:
        for m, n, k, dtype in cases:
            found = compare_one(torch, library, m, n, k, dtype, seconds, triton)
            if not found:
                print(f"  {m}x{n}x{k} {dtype}: no row")
            for r in found:
                share = "" if r.peak_share is None else f", {100 * r.peak_share:.0f}% of the stated peak"
                print(f"  {m}x{n}x{k} {dtype} vs {r.rival}: {r.ratio:.3f} ({r.low:.3f} to {r.high:.3f}){share}")
            rows += found
            torch.cuda.empty_cache()
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", type=Path, required=True, help="JSON list of [m, n, k, dtype]")
    parser.add_argument("--seconds-each", type=float, default=4.0)
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    cases = [tuple(c) for c in json.loads(options.cases.read_text())]
    rows = compare_all(options.db, cases, options.seconds_each, options.out)
    (options.out / "rivals.json").write_text(json.dumps([asdict(r) for r in rows], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
