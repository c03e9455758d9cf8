"""``tilewright extract``: what a model computes, as tasks to tune."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli.options import json_option
from tilewright.cli.output import console, emit_json, say, table
from tilewright.core import UsageError


def sizes_of(given: tuple[str, ...]) -> dict[str, int]:
    """``NAME=VALUE`` texts as sizes. Raises ``UsageError``."""
    out = {}
    for text in given:
        name, found, value = text.rpartition("=")
        if not found or not name or not value.isdecimal():
            raise UsageError(f"--size {text} is no size", "Write --size NAME=NUMBER, as in --size batch=1")
        out[name] = int(value)
    return out


size_option = click.option(
    "--size", "sizes", multiple=True, metavar="NAME=N", help="Size of a dynamic axis; may be given several times."
)


@click.command("extract")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the tasks here, for tune --tasks."
)
@size_option
@click.option("--threads", default=1, show_default=True, type=click.IntRange(1), help="Threads of the tasks written.")
@json_option
def command(model: Path, output: Path | None, sizes: tuple[str, ...], threads: int, as_json: bool) -> int:
    """List what the ONNX model in MODEL computes, each task once, with calls and operations.

    Operations that belong together are one task: a convolution with its norm, activation and residual sum, an
    attention, a norm, a chain of elementwise operations. What is not known is left to onnxruntime.

    \b
    Examples:
      tilewright extract resnet50.onnx
      tilewright extract bert.onnx --size batch=1 --size rows=128 -o bert.toml
      tilewright tune --tasks bert.toml --time-budget 20m
    """
    from tilewright.models.extract import extract, write_tasks

    found = extract(model, sizes_of(sizes))
    if output is not None:
        write_tasks(found.tasks, output, threads)
    if as_json:
        emit_json({**found.to_json(), "file": None if output is None else str(output)})
        return 0
    rows = table("task", "family", "calls", "operations", "share", "output")
    total = sum(t.calls * t.workload.flops for t in found.tasks) or 1
    for t in found.tasks:
        flops = t.calls * t.workload.flops
        shape = "x".join(map(str, t.workload.output.shape)) or "()"
        rows.add_row(t.workload.op, t.family, str(t.calls), f"{flops:.4g}", f"{flops / total:.1%}", shape)
    console().print(rows)
    for name, why in found.imported.left.items():
        say(f"left to onnxruntime: {name}: {why}")
    if output is not None:
        say(f"{output} holds {len(found.tasks)} tasks: tilewright tune --tasks {output} --time-budget 20m")
    return 0
