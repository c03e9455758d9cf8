"""The results that the repository holds, with figures drawn from the same data."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import figures
from figures import Row

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from acceptance.rows import read
from acceptance.status import TRITON, best

TOPICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "products": ("Matrix products", ("gemm_one_thread", "gemm_one_thread_again", "gemm_two_threads", "gemm_squares",
                                     "gemm_squares_2048")),
    "products_zen4": ("Matrix products on Zen 4", ("gemm_zen4", "gemm_zen4_avx2", "gemm_zen4_two_threads")),
    "operators": ("Operators", ("ansor_suite", "ansor_subgraphs", "operator_suite")),
    "operators_zen4": ("Operators on Zen 4", ("ansor_zen4", "ansor_zen4_depthwise", "ansor_zen4_two_threads",
                                              "operators_zen4")),
    "accuracy": ("Accuracy", ("accuracy",)),
    "unusual": ("Unusual operators and TVM", ("unusual", "unusual_large", "tvm_suite")),
    "networks": ("Networks and ranges", ("networks", "onnx_light", "onnx_light_two_threads", "onnx_open",
                                                            "onnx_files", "onnx_voice", "kernelbench", "ranges")),
    "calls": ("Calls and start-up", ("call_overhead", "gpu_call_overhead", "startup", "bundle", "replaced_kernels")),
    "tuning": ("Tuning", ("gain", "gain_busy", "search_live", "versions")),
    "search": ("Search strategies", ("search_replay", "search_spread", "search_ablation")),
    "cost_model": ("Cost models", ("search_model", "gpu_model")),
    "farm": ("Farms, databases and pages", ("farm_throughput", "farm_scale", "farm_faults", "farm_history",
                                              "farm_flood", "database_scale", "dashboard")),
    "cuda": ("CUDA kernels without a GPU", ("cuda_schedules", "cuda_wgmma_schedules", "cuda_mutants",
                                             "cuda_wgmma_mutants",
                                             "cuda_sass", "cuda_compile_rate")),
    "gpu": ("On a GPU", ("gpu_h200",)),
}  # fmt: skip
"""Pages of docs/benchmarks: a title, and the results in their order."""

LONGEST = 12
"""Rows of a table, or items of a list, that are shown at once; longer ones are opened by a click."""

TITLES = {
    "gemm_one_thread": "One thread", "gemm_one_thread_again": "One thread, the same kernels measured again",
    "gemm_two_threads": "Two threads", "gemm_squares": "Square products, eight finalists",
    "gemm_squares_2048": "2048^3, eight finalists",
    "gemm_zen4": "One thread of Zen 4, whose AVX-512 does as many multiply-adds a cycle as its AVX2",
    "gemm_zen4_avx2": "One thread of Zen 4, AVX2 only", "gemm_zen4_two_threads": "Two threads of Zen 4",
    "ansor_suite": "Ansor's operators against PyTorch", "ansor_subgraphs": "Ansor's subgraphs against torch.compile",
    "ansor_zen4": "Ansor's operators on Zen 4",
    "ansor_zen4_depthwise": "Depthwise convolutions on Zen 4, large results stored past the caches",
    "ansor_zen4_two_threads": "Ansor's operators, batch 1, on two threads of Zen 4",
    "operator_suite": "Row reductions, elementwise operators, 16-bit and int8 products, attention",
    "operators_zen4": "Operators on Zen 4",
    "accuracy": "Errors against float64, beside NumPy and PyTorch",
    "unusual": "Operators that libraries have no kernel for, against NumPy and PyTorch",
    "unusual_large": "Unusual operators whose intermediate results exceed the caches",
    "tvm_suite": "Against TVM MetaSchedule, at equal trials",
    "networks": "Networks beside onnxruntime, PyTorch and torch.compile",
    "onnx_light": "Light models of the onnx package after two minutes of tuning, beside onnxruntime",
    "onnx_light_two_threads": "Light models on two threads, after 90 seconds of tuning",
    "onnx_open": "Light models with open heights and widths, beside sessions of one size",
    "onnx_files": "Models of published packages after a minute of tuning, beside onnxruntime",
    "onnx_voice": "Voice models whose steps are small, beside onnxruntime",
    "kernelbench": "KernelBench's 250 problems, beside PyTorch and torch.compile",
    "ranges": "One tuning for a range of sizes",
    "call_overhead": "Cost of a call on 4x4 matrices",
    "gpu_call_overhead": "Host time of a GPU call, on the emulator's driver", "startup": "Start-up",
    "bundle": "Start from a bundle", "replaced_kernels": "Kernels replaced while they are called",
    "gain": "Gain of tuning, and how close 64 trials come to 1,000",
    "gain_busy": "Gain of tuning beside a busy core",
    "search_live": "Trials per second, and where the time goes",
    "search_replay": "Search strategies on recorded spaces",
    "search_spread": "Search strategies after 200 trials, over seeds",
    "search_ablation": "The default search without each of its parts",
    "search_model": "Predictions of the cost model for unseen tasks",
    "gpu_model": "Predictions of the GPU cost model for unseen tasks",
    "versions": "Kernels and search of two versions",
    "farm_throughput": "Throughput of a farm", "farm_scale": "2,000 runners", "farm_faults": "Faults",
    "farm_history": "Histories of a farm under faults", "farm_flood": "A fuzzer with certificates",
    "database_scale": "A database of a million trials", "dashboard": "Dashboard pages at a million trials",
    "cuda_schedules": "Random schedules on the emulator", "cuda_wgmma_schedules": "Random schedules for Hopper",
    "cuda_mutants": "Planted mistakes in kernels", "cuda_wgmma_mutants": "Planted mistakes in kernels for Hopper",
    "cuda_sass": "Main loops in machine code, beside Triton's", "cuda_compile_rate": "Compile rate",
    "gpu_h200": "NVIDIA H200",
}  # fmt: skip


def markdown(docs: Path) -> str:
    """The pages by topic, as a list."""
    known = {name for _, names in TOPICS.values() for name in names}
    unknown = {p.stem for p in (docs.parent / "benchmarks" / "results").iterdir()} - known
    if unknown:
        raise ValueError(f"docs/_ext/benchmark_pages.py has no page for {', '.join(sorted(unknown))}")
    lines = [
        f"- [{title}](benchmarks/{topic}.md): " + "; ".join(TITLES[name] for name in names)
        for topic, (title, names) in TOPICS.items()
    ]
    pages = "\n".join(f"benchmarks/{topic}" for topic in TOPICS)
    return "\n".join(lines) + "\n\n```{toctree}\n:hidden:\n\n" + pages + "\n```\n"


def topic(docs: Path, name: str) -> str:
    """One topic's results, each with a target by its name: ``#result-NAME``."""
    results = docs.parent / "benchmarks" / "results"
    return "\n".join(line for one in TOPICS[name][1] for line in _one(docs, results, one))


def _one(docs: Path, results: Path, name: str) -> Iterator[str]:
    yield f"(result-{name})=\n## {TITLES[name]}\n"
    data = _load(results, name)
    if name in FIGURES:
        rows, axis, unit = FIGURES[name](data)
        caption = f"{TITLES[name]}. {machine(data)}"
        yield figures.draw(docs / "_generated", name, rows, axis, unit, caption)
    text = results / f"{name}.md"
    yield _plain(text.read_text(encoding="utf-8")) if text.exists() else TABLES[name](data)
    yield ""


def _load(results: Path, name: str) -> list[dict[str, Any]]:
    """The machine's record, then the rows; of a folder the rows of all its files."""
    path = results / f"{name}.json"
    if (folder := results / name).is_dir():
        return [r for p in sorted(folder.iterdir()) for r in read(p)]
    if not path.exists():
        return [json.loads(line) for line in (results / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = data.get("rows", [])
    return [data, *(rows if isinstance(rows, list) else ({"name": k} | v for k, v in rows.items()))]


def machine(data: Sequence[Mapping[str, Any]]) -> str:
    """Where and when, as the data says."""
    first = data[0]
    where = first.get("device") or first.get("host") or first.get("machine")
    return ", ".join(str(v) for v in (where, first.get("date")) if v) + "."


def _plain(text: str) -> str:
    """A result's Markdown below a heading: its own headings become bold lines, long tables and lists are folded."""
    bold = re.sub(r"^#+ (.*)$", r"**\1**", text, flags=re.MULTILINE)
    tables = re.sub(r"(?:^\|.*\n?)+", lambda m: _folded(m[0], m[0].count("\n|") - 1, "rows"), bold, flags=re.MULTILINE)
    return re.sub(r"(?:^- .*\n?)+", lambda m: _folded(m[0], m[0].count("\n"), "items"), tables, flags=re.MULTILINE)


def _folded(text: str, count: int, of: str) -> str:
    if count <= LONGEST:
        return text
    return f"\n<details><summary>Show {count} {of}</summary>\n\n{text}\n</details>\n\n"


# ------------------------------------------------------------------------------------------------ figures


def _by_rival(data: Sequence[Mapping[str, Any]], label: str) -> list[Row]:
    return [
        Row(str(r[label]), {k: (v[0], v[1], v[2]) for k, v in r["ratios"].items()}) for r in data[1:] if r.get("ratios")
    ]


def _grouped(data: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Geometric means of each group and batch, from the least to the largest ratio of its cases."""
    cases: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for r in data[1:]:
        batch = "batch " + r["name"].rpartition(" b")[2]
        cases[r["group"]][batch].append(r["ratios"]["torch"][0])
    return [
        Row(group, {b: (math.exp(sum(map(math.log, v)) / len(v)), min(v), max(v)) for b, v in batches.items()})
        for group, batches in sorted(cases.items())
    ]


def _tvm(data: Sequence[Mapping[str, Any]]) -> list[Row]:
    return [Row(r["name"], {"TVM MetaSchedule": tuple(r["ratio"])}) for r in data[1:]]


def _gpu(data: Sequence[Mapping[str, Any]]) -> list[Row]:
    """By shape the fastest library beside the best kernel that was timed beside libraries, and Triton."""
    found = []
    for shape, rivals in best(data).items():
        libraries = [r for r in rivals if r["rival"] != TRITON]
        shown = [("the fastest library", min(libraries, key=lambda r: float(r["ratio"])))]
        shown += [("Triton", r) for r in rivals if r["rival"] == TRITON]
        values = {name: (r["ratio"], r["low"], r["high"]) for name, r in shown}
        found.append(Row(re.sub(r"\w+=", "", shape), values))
    return found


def _farm(data: Sequence[Mapping[str, Any]]) -> list[Row]:
    return [
        Row(_named(r), {"reached / required": (r["value"] / w, r["low"] / w, r["high"] / w)})
        for r in data[1:]
        for w in [r["wanted"]]
    ]


def _named(row: Mapping[str, Any]) -> str:
    return str(row["what"]) + (" (before)" if row.get("version") == "before" else "")


RATIO = "speed-up over a rival (above 1: Tilewright is faster), median and quartiles"
FIGURES: dict[str, Any] = {
    "gemm_one_thread": lambda d: (_by_rival(d, "shape"), RATIO, 1.0),
    "gemm_two_threads": lambda d: (_by_rival(d, "shape"), RATIO, 1.0),
    "ansor_suite": lambda d: (
        _grouped(d), "speed-up over PyTorch: geometric mean, least and largest of an operator's cases", 1.0
    ),
    "ansor_subgraphs": lambda d: (_by_rival(d, "name"), RATIO, 1.0),
    "operator_suite": lambda d: (_by_rival(d, "name"), RATIO, 1.0),
    "gpu_h200": lambda d: (_gpu(d), "speed-up over a rival", 1.0),
    "tvm_suite": lambda d: (_tvm(d), RATIO, 1.0),
    "farm_throughput": lambda d: (_farm(d), "reached / required (1: as required), and range", 1.0),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ tables


def _call_table(data: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{data[0]['device']}, Python {data[0]['python']}, NumPy {data[0]['numpy']}; paired in one process.\n"]
    lines += ["| call | speed-up over NumPy or PyTorch | low | high |", "|---|---|---|---|"]
    lines += [f"| `{r['name']}` | {r['ratio']:.1f} | {r['low']:.1f} | {r['high']:.1f} |" for r in data[1:]]
    return "\n".join(lines)


TABLES = {"call_overhead": _call_table}
