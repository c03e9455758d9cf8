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
                                     "gemm_squares_2048", "gemm_zen4", "gemm_zen4_avx2", "gemm_zen4_two_threads")),
    "operators": ("Operators", ("ansor_suite", "ansor_zen4", "ansor_zen4_depthwise", "ansor_zen4_two_threads",
                                 "ansor_subgraphs", "operator_suite", "operators_zen4")),
    "accuracy": ("Accuracy", ("accuracy",)),
    "unusual": ("Unusual operators, and TVM", ("unusual", "unusual_large", "tvm_suite")),
    "networks": ("Whole networks, and sizes that change", ("networks", "onnx_light", "onnx_light_two_threads",
                                                            "onnx_files", "kernelbench", "ranges")),
    "calls": ("Calls and start-up", ("call_overhead", "gpu_call_overhead", "startup", "bundle", "replaced_kernels")),
    "tuning": ("Tuning", ("gain", "gain_busy", "search_live", "search_replay", "search_spread", "search_ablation",
                          "search_model", "gpu_model", "versions")),
    "farm": ("Farm, database and dashboard", ("farm_throughput", "farm_scale", "farm_faults", "farm_history",
                                              "farm_flood", "database_scale", "dashboard")),
    "cuda": ("CUDA kernels, without a GPU", ("cuda_schedules", "cuda_wgmma_schedules", "cuda_mutants",
                                             "cuda_wgmma_mutants",
                                             "cuda_sass", "cuda_compile_rate")),
    "gpu": ("On a GPU", ("gpu_h200",)),
}  # fmt: skip
"""Pages of docs/benchmarks: a title, and the results in their order."""

LONGEST = 24
"""Rows of a table that is shown at once; longer ones are opened by a click."""

TITLES = {
    "gemm_one_thread": "One thread", "gemm_one_thread_again": "The same kernels, compared once more",
    "gemm_two_threads": "Two threads", "gemm_squares": "Squares, eight kernels in the final",
    "gemm_squares_2048": "2048^3, eight kernels in the final", "ansor_suite": "Ansor's operators against PyTorch",
    "ansor_subgraphs": "Ansor's subgraphs against torch.compile",
    "gemm_zen4": "One thread of a core that has as many multiply-adds with AVX-512 as with AVX2",
    "gemm_zen4_avx2": "The same core, AVX2 alone", "gemm_zen4_two_threads": "Two of these cores",
    "operators_zen4": "Some of them on another core",
    "ansor_zen4": "Ansor's operators on a core with half the multiply-adds",
    "ansor_zen4_depthwise": "The depthwise convolutions again, whose large results go past the caches",
    "ansor_zen4_two_threads": "The same, batch 1, on two of these cores",
    "cuda_wgmma_schedules": "Random schedules for Hopper", "cuda_wgmma_mutants": "Planted mistakes in them",
    "operator_suite": "Rows, maps, 16-bit and int8, attention",
    "unusual": "Operators that libraries have no kernel for, against NumPy and PyTorch",
    "unusual_large": "Three of them in sizes whose parts share more than caches hold",
    "tvm_suite": "Against TVM MetaSchedule, at equal trials", "call_overhead": "Cost of a call on 4x4 matrices",
    "gpu_call_overhead": "Host time of a GPU call, on the emulator's driver", "startup": "Start-up",
    "bundle": "Start from a bundle", "replaced_kernels": "Kernels replaced under calls",
    "ranges": "One tuning for many sizes", "accuracy": "Errors against float64, beside NumPy and PyTorch",
    "gain": "What tuning gains, and how close 64 trials come to 1,000",
    "gain_busy": "What tuning gains over the default schedule, beside a busy core",
    "kernelbench": "KernelBench's 250 problems, beside PyTorch and torch.compile",
    "onnx_light": "The onnx package's light models after two minutes of tuning, beside onnxruntime",
    "onnx_light_two_threads": "The same on two threads, after 90 seconds of tuning",
    "onnx_files": "Files of published packages after a minute of tuning, beside onnxruntime",
    "networks": "Beside onnxruntime, PyTorch and torch.compile",
    "search_live": "Trials a second, and where the time goes",
    "farm_throughput": "Throughput of a farm", "farm_scale": "2,000 runners", "farm_faults": "Faults",
    "farm_flood": "A fuzzer with certificates",
    "farm_history": "Histories of a farm under faults",
    "database_scale": "A million trials",
    "search_replay": "Search strategies on recorded spaces",
    "search_spread": "The same, 200 trials: how far seeds differ",
    "search_ablation": "The default search without each of its parts",
    "search_model": "What the cost model foresees of tasks that it never saw",
    "gpu_model": "The same of the GPUs' model",
    "dashboard": "Pages at a million trials",
    "cuda_schedules": "Random schedules on the emulator", "cuda_mutants": "Planted mistakes",
    "cuda_sass": "Main loops in machine code, beside Triton's",
    "gpu_h200": "An H200",
    "cuda_compile_rate": "Compiling", "versions": "Kernels and tuner of two versions",
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
    """A result's Markdown under a heading of this page: its own headings become bold lines, long tables are folded."""
    bold = re.sub(r"^#+ (.*)$", r"**\1**", text, flags=re.MULTILINE)
    return re.sub(r"(?:^\|.*\n?)+", _folded, bold, flags=re.MULTILINE)


def _folded(table: re.Match[str]) -> str:
    rows = table[0].count("\n|") - 1
    if rows <= LONGEST:
        return table[0]
    return f"\n<details><summary>A table of {rows} rows</summary>\n\n{table[0]}\n</details>\n"


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
        Row(_named(r), {"reached / wanted": (r["value"] / w, r["low"] / w, r["high"] / w)})
        for r in data[1:]
        for w in [r["wanted"]]
    ]


def _named(row: Mapping[str, Any]) -> str:
    return str(row["what"]) + (" (before)" if row.get("version") == "before" else "")


RATIO = "rival's time / ours (above 1: ours is faster), median and quartiles"
FIGURES: dict[str, Any] = {
    "gemm_one_thread": lambda d: (_by_rival(d, "shape"), RATIO, 1.0),
    "gemm_two_threads": lambda d: (_by_rival(d, "shape"), RATIO, 1.0),
    "ansor_suite": lambda d: (
        _grouped(d), "PyTorch's time / ours: geometric mean, least and largest of an operator's cases", 1.0
    ),
    "ansor_subgraphs": lambda d: (_by_rival(d, "name"), RATIO, 1.0),
    "operator_suite": lambda d: (_by_rival(d, "name"), RATIO, 1.0),
    "gpu_h200": lambda d: (_gpu(d), "rival's time / ours", 1.0),
    "tvm_suite": lambda d: (_tvm(d), RATIO, 1.0),
    "farm_throughput": lambda d: (_farm(d), "reached / wanted (1: as wanted), and range", 1.0),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ tables


def _call_table(data: Sequence[Mapping[str, Any]]) -> str:
    lines = [f"{data[0]['device']}, Python {data[0]['python']}, NumPy {data[0]['numpy']}; paired in one process.\n"]
    lines += ["| call | NumPy's or PyTorch's time / ours | low | high |", "|---|---|---|---|"]
    lines += [f"| `{r['name']}` | {r['ratio']:.1f} | {r['low']:.1f} | {r['high']:.1f} |" for r in data[1:]]
    return "\n".join(lines)


TABLES = {"call_overhead": _call_table}
