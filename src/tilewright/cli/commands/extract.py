"""``tilewright extract``: lists the tasks of an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.declare import argument, declared, option, wants_json
from tilewright.cli.options import TARGET, target_of
from tilewright.cli.output import percent, report, say, table
from tilewright.core import UsageError
from tilewright.extent import text_of
from tilewright.size_ranges import span_of

if TYPE_CHECKING:
    from tilewright.models.model_file import Size


def sizes_of(given: tuple[str, ...]) -> dict[str, Size]:
    """Parses ``NAME=VALUE`` and ``NAME=LOW..HIGH`` texts as sizes. Raises ``UsageError``."""
    from tilewright.models.model_file import size_of

    out: dict[str, Size] = {}
    for text in given:
        name, found, value = text.rpartition("=")
        if not found or not name or (span_of(value) is None and not value.isdecimal()):
            raise UsageError(
                f"{text!r} is not KEY=VALUE with a size", "Write the axis and its size: batch=1, or batch=1..8"
            )
        out[name] = size_of(name, value)
    return out


AXES = argument(metavar="[KEY=VALUE]...")
SIZES = option("--size", metavar="KEY=VALUE", help="The same as the argument KEY=VALUE. May be repeated.")


@declared("extract")
def command(
    model: Path = argument(),
    axes: tuple[str, ...] = AXES,
    output: Path | None = option("-o", "--output", metavar="FILE", help="Write the tasks to FILE, for tune --tasks."),
    sizes: tuple[str, ...] = SIZES,
    target: str = TARGET,
    threads: int = option(
        low=1, default=1, envvar="TILEWRIGHT_THREADS", show_envvar=True, help="Threads of the tasks."
    ),
) -> int:
    """List the tasks of the ONNX model in MODEL, each once, with its calls and floating-point operations.

    KEY=VALUE gives a dynamic axis its size, or a range of sizes. Operators that are computed together are one task: a
    convolution with its norm, activation and residual sum, an attention, a norm, a chain of elementwise operators.
    Operators that Tilewright does not know stay with onnxruntime; the table says why. The column "operators" counts the
    model's operators in a task.

    \b
    Examples:
      tilewright extract resnet50.onnx
      tilewright extract bert.onnx batch=1 rows=1..128 -o bert.toml
      tilewright tune --tasks bert.toml --time-budget 20m
      tilewright extract resnet50.onnx --target cuda -o resnet50.toml

    Listing tasks for a GPU (--target cuda, cuda:sm_90a) needs no GPU. tune --tasks reads the target from the file.
    """
    from tilewright.models.coverage import KERNELS, NOTHING_TO_TUNE, RUNTIME, of_model
    from tilewright.models.extract import extract, write_tasks

    found = extract(model, sizes_of((*axes, *sizes)), target_of(target, threads))
    coverage = of_model(found)
    if output is not None:
        write_tasks(found.tasks, output, threads, target)
    lines = {line.what: line for line in coverage.lines if line.by != RUNTIME}
    total = sum(t.calls * t.workload.flops for t in found.tasks if t.workload.op in lines) or 1
    rows = []
    for t in found.tasks:
        flops = t.calls * t.workload.flops
        shape = "x".join(map(text_of, t.workload.output.shape)) or "()"
        line = lines.pop(t.workload.op, None)
        shares = ("-", "-") if line is None else (f"{line.operators} ({percent(line.share)})", percent(flops / total))
        rows.append((KERNELS, t.workload.op, t.family, t.calls, shares[0], f"{flops:.4g}", shares[1], shape))
    for line in [*lines.values(), *(x for x in coverage.lines if x.by == RUNTIME)]:
        stands_for = f"{line.operators} ({percent(line.share)})"
        rows.append((line.by, line.what, "-", line.calls, stands_for, "-", "-", line.why))
    columns = ("computed by", "what", "family", "calls", "operators", "FLOPs", "share", "output, or why not")
    file = None if output is None else str(output)
    data = {"target": found.target.name, **found.to_json(), **coverage.to_json(), "file": file}
    report(data, table(*columns, rows=rows))
    if not wants_json():
        say(taken_of(coverage.taken, coverage.operators))
        if not found.tasks:
            say(NOTHING_TO_TUNE)
        elif output is not None:
            say(f"wrote {len(found.tasks)} tasks. Tune them: tilewright tune --tasks {output} --time-budget 20m")
    return 0


def taken_of(taken: int, operators: int) -> str:
    """States the number and share of a model's operators that kernels compute."""
    share = percent(taken / operators) if operators else "none"
    return f"kernels compute {taken} of {operators} operators ({share})"
