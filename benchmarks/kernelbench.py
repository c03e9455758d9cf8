"""KernelBench's problems: what of them tilewright takes, whether its results are right, and how fast it is.

    git clone https://github.com/ScalingIntelligence/KernelBench
    python benchmarks/kernelbench.py KernelBench/KernelBench --out coverage
    python benchmarks/kernelbench.py KernelBench/KernelBench --level 1 --check
    python benchmarks/kernelbench.py KernelBench/KernelBench --tune 15 --out benchmarks/results/kernelbench

The 250 problems of levels 1 to 3, in eval mode, on one thread, with sizes reduced until PyTorch's eager run takes 1 to
400 ms (``benchmarks/reduced.py``). A row says which operators of PyTorch's graph the backend takes, and which it
leaves to PyTorch and why; views, which compute nothing, count as neither. ``--check`` runs the problem with the first
kernel of each task, ``--tune`` with those found in so many seconds, and both compare the results with the module's own
in float64. ``--tune`` also times ours, PyTorch eager and ``torch.compile`` in turns, ``--rounds`` of them or as many as
fit into 3 seconds: a ratio is the median over rounds of the rival's time over ours in the same round (above 1: ours is
faster), with the interval of order statistics. The better rival of a problem is the one with the smaller ratio. In each
round a call of each is not timed, and the heap keeps what is freed.

Each problem has a process of its own; a crash or a time-out is a row. Rows go to NAME.jsonl as they come, and a run
that was cut short goes on where it ended; NAME.md is the table. Two problems need the package einops.
"""

from __future__ import annotations

import copy
import logging
import operator
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from children import budget, options, preload, run
from rows import Row
from suite import geomean
from tilewright.models.truth import compare
from turns import compared, in_turns, keep_heap, shown, summary

PRELOADED = (
    "tilewright.torch.optimize", "functorch.compile", "torch._dynamo.backends.common", "torch._functorch.partitioners",
    "torch._inductor.compile_fx", "torch.nn.attention.flex_attention", "torch.export._trace", "reduced", "kernelbench",
)  # fmt: skip
"""Modules that every child needs: imported once."""
SECONDS = 0.02
"""A run of PyTorch's is to take about so long."""
UNKNOWN = "no operation of ours"
RIVALS = ("eager", "torch.compile")
TIMING = 3.0
"""Seconds of timing of a problem, beyond which rounds become fewer."""
BEHIND = 0.97
"""Ratio below which a problem counts as slower."""
SHORT = 1e-3
"""Seconds of a rival's call below which the difference counts, not the ratio."""


# --------------------------------------------------------------------------- coverage


def covered(module: Any, arguments: Sequence[Any]) -> Row:
    """What of a module the backend takes, by PyTorch's operators: ``taken``, ``left`` with reasons, and ``views``."""
    import torch
    from torch._dynamo.utils import counters

    from tilewright.graph import tasks_of
    from tilewright.torch.backend import of_aten, prepared, run_eagerly, weights_of
    from tilewright.torch.captured import handing_on
    from tilewright.torch.importer import imported, name_of
    from tilewright.torch.recurrent import lowered

    found: dict[str, Counter[str]] = {"taken": Counter(), "left": Counter(), "views": Counter(), "why": Counter()}
    graphs = 0
    tasks: set[str] = set()

    def note(graph: Any, example: Sequence[Any]) -> Any:
        nonlocal graphs
        graphs += 1
        graph.graph.eliminate_dead_code()
        own = [n for n in graph.graph.nodes if n.op == "call_function"]  # prepared() adds to them
        known = imported(graph, weights_of(graph))
        placing, _ = prepared(graph, lambda *_: None, weights_of(graph), True, fuses=True)
        if placing is None or known is None:
            return run_eagerly(graph)
        tasks.update(t.workload.key for t in tasks_of(placing.channels, placing.placeable))
        fate = _fates(placing)
        for node in own:
            if node.target is operator.getitem:
                continue
            kind, why = _fate(node, fate, known.left.get(name_of(node), UNKNOWN))
            name = str(node.target).removeprefix("aten.")
            found[kind][name] += 1
            if kind == "left":
                found["why"][f"{name}: {why}"] += 1
        return run_eagerly(graph)

    counters.clear()
    made: Any = torch.compile(
        module,
        backend=lambda graph, inputs: of_aten(lowered(graph, inputs) or graph, inputs, note, note),
        dynamic=False,
    )
    with torch.no_grad(), handing_on():  # as optimize does
        made(*arguments)
    breaks: Counter[str] = Counter()
    for kind in ("graph_break", "unimplemented"):
        for text, count in counters[kind].items():
            breaks[text.partition("\n")[0]] += count
    if not graphs and not breaks:
        found["left"]["the whole module"] += 1
        found["why"]["the whole module: PyTorch makes no graph of it"] += 1
    return {
        "graphs": graphs, "tasks": len(tasks), "breaks": dict(breaks), "whole": not found["left"] and not breaks,
        **{k: dict(v.most_common()) for k, v in found.items()},
    }  # fmt: skip


def _fates(placing: Any) -> dict[str, tuple[str, str]]:
    """By value of the graph, whether a kernel may give it, and why not."""
    fate: dict[str, tuple[str, str]] = {}
    graph, channels = placing.graph, placing.channels
    outputs = {n.name: n.outputs for n in graph.nodes}
    unknown = {n.name for n in graph.nodes if n.opaque}
    for group in channels.groups:
        layouts = [g for g in (group, channels.last.get(group.output)) if g is not None and g.workload is not None]
        if group.family == "view":
            told = "views", ""
        elif not layouts:
            told = "left", UNKNOWN if unknown.intersection(group.nodes) else "no program states it"
        elif any(placing.placeable(g) for g in layouts):
            told = "taken", ""
        else:
            name = group.workload.op.rpartition("_")[0]
            told = "left", f"a kernel of the group {name} would not pay where it stands"
        for name in group.nodes:
            for value in outputs[name]:
                if fate.get(value, ("left",))[0] != "taken":
                    fate[value] = told
    return fate


def _fate(node: Any, fate: Mapping[str, tuple[str, str]], unknown: str) -> tuple[str, str]:
    values = [v for v in fate if v == node.name or v.startswith(f"{node.name}__")]
    for user in [] if values else node.users:  # of several results those that are read
        values += [user.name] if user.target is operator.getitem and user.name in fate else []
    told = [fate[v] for v in values]
    worst = next((t for kind in ("left", "taken") for t in told if t[0] == kind), told[0] if told else ("views", ""))
    if worst[0] == "left" and _is_view(node):
        return "views", ""
    return worst if worst[1] != UNKNOWN else ("left", f"{unknown}, for {_form(node)}")


def _is_view(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)


def _form(node: Any) -> str:
    """A call's arguments, short: tensors as dtype and number of axes."""

    def short(a: Any) -> str:
        value: Any = getattr(a, "meta", {}).get("val")
        if hasattr(value, "dtype"):
            return f"{str(value.dtype).removeprefix('torch.')} {value.dim()}d"
        return f"[{', '.join(map(short, a))}]" if isinstance(a, (list, tuple)) else str(a)

    names = [a.name for a in getattr(getattr(node.target, "_schema", None), "arguments", ())]
    given = [*zip(names, node.args, strict=False), *node.kwargs.items()]
    return ", ".join(short(a) if hasattr(a, "meta") else f"{n}={short(a)}" for n, a in given)[:160]


# --------------------------------------------------------------------------- results and times


def judged(module: Any, arguments: Sequence[Any], made: Any) -> Row:
    """Errors of a compiled module and of the module's own eager run, beside the module in float64.

    What is right is what ``tilewright run`` calls right: 4 times the other's error, or a share of the magnitude.
    """
    import torch

    def results(run: Any, given: Sequence[Any]) -> dict[str, Any]:
        with torch.no_grad():
            leaves = torch.utils._pytree.tree_leaves(run(*given))
        return {str(n): t.numpy() for n, t in enumerate(leaves) if isinstance(t, torch.Tensor)}

    wide = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in arguments]
    eager, truth = results(module, arguments), "float64"
    try:
        right = results(copy.deepcopy(module).double(), wide)
    except RuntimeError:  # it makes float32 tensors of its own
        right, truth = eager, "float32"
    found = compare(results(made, arguments), [eager], right)
    return {
        "truth": truth, "error": found.error, "eager_error": found.onnxruntime_error, "allowed": found.allowed,
        "right": found.right,
    }  # fmt: skip


def timed(module: Any, arguments: Sequence[Any], made: Any, rounds: int) -> Row:
    """Times of the compiled module, of PyTorch's eager run and of ``torch.compile``, in turns."""
    import torch

    compiled: Any = torch.compile(copy.deepcopy(module), dynamic=False)
    ways = {"tilewright": made, "eager": module, "torch.compile": compiled}
    with torch.no_grad():
        return compared(
            in_turns({n: partial(w, *arguments) for n, w in ways.items()}, rounds, time.thread_time, TIMING)
        )


# --------------------------------------------------------------------------- one problem


def measured(path: Path, tune: float, check: bool, rounds: int) -> Row:
    """A problem's row. Runs in a child."""
    import torch

    from reduced import load
    from tilewright.core import TilewrightError
    from tilewright.torch import optimize

    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    torch.set_num_threads(1)
    begin = time.monotonic()
    spent: Row = {}

    def lap(name: str) -> None:
        spent[name] = round(time.monotonic() - begin - sum(spent.values()), 1)

    problem = load(path, SECONDS)
    lap("load")
    row: Row = {"sizes": problem.sizes, "eager_ms": round(problem.seconds * 1e3, 3)}
    row |= covered(problem.module, problem.arguments)
    lap("cover")
    row["spent"] = spent
    if not (tune or check):
        return row
    torch._dynamo.reset()
    keep_heap()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        try:
            made = optimize(
                problem.module, problem.arguments, db=f"{folder}/kernels.db", compare=bool(tune), **budget(tune)
            )
        except TilewrightError as e:
            return row | {"right": False, "said": e.message}
        lap("optimize")
        row |= judged(problem.module, problem.arguments, made)
        lap("judge")
        if tune:
            row |= timed(problem.module, problem.arguments, made, rounds)
            lap("time")
            row["kept"] = made.comparison.kept if made.comparison else "not compared"
    return row


def problems(folder: Path, levels: Sequence[int], only: Sequence[str]) -> list[tuple[int, Path]]:
    """Level and file, in the suite's order. Ends the benchmark where there are none."""
    found = [
        (level, path)
        for level in levels
        for path in sorted(folder.glob(f"level{level}/*.py"), key=lambda p: int(p.name.partition("_")[0]))
    ]
    if not found:
        raise SystemExit(f"{folder} has no level1 to level3. Give the folder KernelBench of a checkout of KernelBench")
    return [(n, p) for n, p in found if not only or any(t in f"{n}/{p.stem}" for t in only)]


# --------------------------------------------------------------------------- the table


def ranking(rows: Sequence[Row]) -> list[tuple[str, int, int, str]]:
    """What is left, by the number of problems that have it: operator, problems, those it alone keeps, a reason."""
    having: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    why: dict[str, Counter[str]] = {}
    for row in rows:
        names = [*row.get("left", {}), *(f"no graph: {b}" for b in row.get("breaks", {}))]
        having.update(names)
        alone.update(names if len(names) == 1 else ())
        for text, count in row.get("why", {}).items():
            name, _, reason = text.partition(": ")
            why.setdefault(name, Counter())[reason] += count
    return [
        (name, count, alone[name], why[name].most_common(1)[0][0] if name in why else "")
        for name, count in having.most_common()
    ]


def better(rows: Sequence[Row]) -> str:
    """What timed rows come to beside the better of their rivals."""
    parts = []
    for name, some in {
        "all levels": rows,
        **{f"level {n}": [r for r in rows if r["level"] == n] for n in sorted({r["level"] for r in rows})},
    }.items():
        ratios = [min(r["ratios"].values()) for r in some]
        behind = sum(ratio[0] < BEHIND for ratio in ratios)
        clearly = sum(ratio[2] < BEHIND for ratio in ratios)
        mean = geomean([ratio[0] for ratio in ratios])
        parts.append(f"{name} **{mean:.2f}** of {len(some)}, {behind} below {BEHIND} ({clearly} of them clearly)")
    text = f"Beside the better of both, geometric means: {'; '.join(parts)}."
    short = [r["seconds"] for r in rows if min(r["seconds"].values()) < SHORT]
    if short:
        over = max((s["tilewright"] - s["torch.compile"]) * 1e6 for s in short)
        text += (
            f" Of {len(short)} below {SHORT * 1e3:.0f} ms ours takes at most {over:.1f} us more than `torch.compile`."
        )
    return text


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown, and what they come to."""
    lines = ["| level | problems | taken whole | operators taken | right | failed |", "|---|---|---|---|---|---|"]
    for level in sorted({r["level"] for r in rows}):
        some = [r for r in rows if r["level"] == level]
        taken = sum(sum(r.get("taken", {}).values()) for r in some)
        left = sum(sum(r.get("left", {}).values()) for r in some)
        share = f"{taken} of {taken + left} ({taken / (taken + left):.0%})" if taken + left else "-"
        checked = [r["right"] for r in some if "right" in r]
        lines.append(
            f"| {level} | {len(some)} | {sum(r.get('whole', False) for r in some)} | {share} | "
            f"{f'{sum(checked)} of {len(checked)}' if checked else '-'} | {sum('failed' in r for r in some)} |"
        )
    for rival in RIVALS:
        ratios = [r["ratios"][rival] for r in rows if "ratios" in r]
        lines += ["", summary(ratios, rival)] if ratios else []
    lines += ["", better([r for r in rows if "ratios" in r])] if any("ratios" in r for r in rows) else []
    spent = [r["spent"] for r in rows if "spent" in r]
    costs = {name: sum(s.get(name, 0.0) for s in spent) for name in (spent[0] if spent else ())}
    lines += ["", f"Seconds of all problems: {', '.join(f'{n} {t:.0f}' for n, t in costs.items())}."] if costs else []
    lines += ["", "| left to PyTorch | problems | of them with nothing else left | why |", "|---|---|---|---|"]
    lines += [f"| {name} | {count} | {alone} | {why} |" for name, count, alone, why in ranking(rows)]
    columns = ("problem", "eager", "taken", "left", "error (eager's)", *(f"over {r}" for r in RIVALS), "kept")
    lines += ["", f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(_cells(r))} |" for r in rows]
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    """A problem's line."""
    name = f"{row['level']}/{row['name']}"
    if "failed" in row:
        return [name, "-", "-", row["failed"], "-", *("-" for _ in RIVALS), "-"]
    left = [f"{n} x {c}" if c > 1 else n for n, c in row["left"].items()] + [f"no graph: {b}" for b in row["breaks"]]
    error = row.get("said", "-")
    if "error" in row:
        error = f"{row['error']:.2g} ({row['eager_error']:.2g}){'' if row['right'] else ': WRONG'}"
    ratios = [shown(row.get("ratios", {}).get(r)) for r in RIVALS]
    return [
        name,
        f"{row['eager_ms']:.1f} ms",
        str(sum(row["taken"].values())),
        ", ".join(left) or "nothing",
        error,
        *ratios,
        row.get("kept", "-"),
    ]


def main() -> None:
    """Run the problems that the options choose, and print and write the table."""
    parser = options(__doc__, "problem")
    parser.add_argument("folder", type=Path, help="the folder that holds level1, level2 and level3")
    parser.add_argument("--level", type=int, nargs="+", default=(1, 2, 3), choices=(1, 2, 3))
    args = parser.parse_args()
    preload(*PRELOADED)
    asked = [
        ({"level": n, "name": path.stem}, measured, (path, args.tune, args.check, args.rounds))
        for n, path in problems(args.folder, args.level, args.only)
    ]
    title = "KernelBench's problems in eval mode with reduced sizes, one thread"
    run(asked, ("level", "name"), args, title, table)


if __name__ == "__main__":
    main()
