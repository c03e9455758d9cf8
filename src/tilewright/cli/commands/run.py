"""``tilewright run``: a whole model with tuned kernels, checked against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilewright.cli.commands.extract import size_option, sizes_of
from tilewright.cli.options import db_option, json_option
from tilewright.cli.output import console, emit_json, percent, say, seconds, table
from tilewright.core import UsageError


@click.command("run")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE.npz",
    help="Inputs by name; random unless given.",
)
@size_option
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(1), help="Threads of kernels and onnxruntime."
)
@click.option("--benchmark", type=click.IntRange(1), metavar="ROUNDS", help="Time it in turns with onnxruntime.")
@db_option
@json_option
def command(
    model: Path, source: Path | None, sizes: tuple[str, ...], threads: int, benchmark: int | None, db: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Run the ONNX model in MODEL with the kernels tuned for its tasks, and onnxruntime for the rest.

    The outputs are compared with onnxruntime's on the same inputs: no output may differ by more than 0.001 of its
    largest magnitude. Exit code 1 where one does.

    \b
    Examples:
      tilewright run resnet50.onnx
      tilewright run bert.onnx --size rows=128 --input inputs.npz --json
      tilewright run resnet50.onnx --threads 2 --benchmark 20
    """
    from tilewright.models.extract import extract
    from tilewright.models.network import TOLERANCE, Network, interleaved, largest_error, random_inputs, whole
    from tilewright.runtime import Library

    found = extract(model, sizes_of(sizes))
    inputs = random_inputs(found) if source is None else _read(source, found)
    with Library(db, threads=threads, missing_ok=True, count_misses=False) as library:
        network = Network(found, library, threads)
    alone = whole(found, threads)
    error = largest_error(network.run(inputs), alone(inputs))
    spent: list[float] = []
    network.run(inputs, spent)
    ours = sum(s for s, (p, _) in zip(spent, network.parts, strict=True) if p.ours)
    share = ours / sum(spent) if sum(spent) else 0.0
    data: dict[str, Any] = {
        "served": network.served, "left": network.left, "largest_error": error, "tolerance": TOLERANCE,
        "right": error <= TOLERANCE, "served_share_of_time": share, "parts": len(network.parts),
    }  # fmt: skip
    if benchmark is not None:
        data["seconds"] = interleaved({"tilewright": network.run, "onnxruntime": alone}, inputs, benchmark)
        data["speedup"] = data["seconds"]["onnxruntime"] / data["seconds"]["tilewright"]
    if as_json:
        emit_json(data)
    else:
        _show(data)
    return 0 if data["right"] else 1


def _read(source: Path, found: Any) -> dict[str, Any]:
    import numpy as np

    try:
        with np.load(source, allow_pickle=False) as file:
            given = {n: file[n] for n in file.files}
    except (OSError, ValueError, EOFError, KeyError) as e:
        raise UsageError(
            f"cannot read {source}: {e!s:.120}", "Write it with numpy.savez, an array for each input"
        ) from e
    for spec in found.imported.graph.inputs:
        array = given.get(spec.name)
        if array is None or array.shape != spec.shape or array.dtype.name != spec.dtype:
            is_now = "nothing" if array is None else f"{array.shape} {array.dtype}"
            raise UsageError(f"{source} has {is_now} for the input {spec.name}", f"It is {spec.shape} of {spec.dtype}")
    return given


def _show(data: dict[str, Any]) -> None:
    rows = table("computed by", "what", "calls", "why")
    for name, calls in data["served"].items():
        rows.add_row("tilewright", name, str(calls), "")
    for name, left in data["left"].items():
        rows.add_row("onnxruntime", name, str(left["calls"]), left["why"])
    out = console()
    out.print(rows)
    out.print(f"tuned kernels take {percent(data['served_share_of_time'])} of the time, in {data['parts']} part(s)")
    if "seconds" in data:
        times = ", ".join(f"{n} {seconds(s)}" for n, s in data["seconds"].items())
        out.print(f"a run: {times}; {data['speedup']:.3g} times as fast")
    verdict = "right" if data["right"] else "WRONG"
    out.print(f"largest error {data['largest_error']:.2g} of an output's magnitude: {verdict}")
    if not data["served"]:
        say("nothing was tuned for it: tilewright extract -o tasks.toml, then tilewright tune --tasks tasks.toml")
