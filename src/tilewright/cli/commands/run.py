"""``tilewright run``: a whole model with tuned kernels, checked against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilewright.cli.commands.extract import size_option, sizes_of, taken_of
from tilewright.cli.options import db_option, json_option
from tilewright.cli.output import console, emit_json, percent, say, seconds, table


@click.command("run")
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--input",
    "sources",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A .npz file of inputs by name, or NAME=FILE.npy for one; the others are drawn. May be given several times.",
)
@size_option
@click.option(
    "--threads", default=1, show_default=True, type=click.IntRange(1), help="Threads of kernels and onnxruntime."
)
@click.option("--benchmark", type=click.IntRange(1), metavar="ROUNDS", help="Time it in turns with onnxruntime.")
@db_option
@json_option
def command(
    model: Path, sources: tuple[str, ...], sizes: tuple[str, ...], threads: int, benchmark: int | None, db: str | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Run the ONNX model in MODEL with the kernels tuned for its tasks, and onnxruntime for the rest.

    The outputs are compared with those of float64 on the same inputs, and so are onnxruntime's, of the file as it is.
    An output may be wrong by 4 times onnxruntime's error, or by 0.0001 of its largest magnitude where it is float32.
    Exit code 1 where one is wrong by more.

    \b
    Examples:
      tilewright run resnet50.onnx
      tilewright run resnet50.onnx --input image=photo.npy
      tilewright run bert.onnx --size rows=128 --input inputs.npz --json
      tilewright run resnet50.onnx --threads 2 --benchmark 20
    """
    from tilewright.models.coverage import of_run
    from tilewright.models.extract import extract
    from tilewright.models.inputs import given_inputs, random_inputs
    from tilewright.models.network import Network, interleaved
    from tilewright.models.sessions import NoKernel, Session
    from tilewright.models.truth import Truth, compare
    from tilewright.runtime import Library

    found = extract(model, sizes_of(sizes))
    imported = found.imported
    inputs = random_inputs(imported, given=given_inputs(sources, imported))
    with Library(db, threads=threads, missing_ok=True, count_misses=False) as library:
        network = Network(found, library, threads)
        kernels = {t.workload.key: k.seconds for t in found.tasks if (k := library.tuned(t.workload)) is not None}
    try:
        sessions = [Session.of_file(imported.model, threads, optimised=optimised) for optimised in (True, False)]
    except NoKernel:
        if benchmark is not None:
            raise
        sessions = []
    truth = Truth(imported)
    theirs = [s.run(inputs) for s in sessions]
    compared = compare(network.run(inputs), theirs, truth.run(inputs), truth.narrow)
    spent: list[float] = []
    network.run(inputs, spent)
    ours = sum(s for s, (p, _) in zip(spent, network.parts, strict=True) if p.ours)
    coverage = of_run(found, [p for p, _ in network.parts], spent, kernels)
    data: dict[str, Any] = {
        "served": network.served, "left": network.left, **coverage.to_json(), **compared.to_json(),
        "served_share_of_time": ours / sum(spent) if sum(spent) else 0.0, "parts": len(network.parts),
    }  # fmt: skip
    if benchmark is not None:
        data["seconds"] = interleaved({"tilewright": network.run, "onnxruntime": sessions[0].run}, inputs, benchmark)
        data["speedup"] = data["seconds"]["onnxruntime"] / data["seconds"]["tilewright"]
    if as_json:
        emit_json(data)
    else:
        _show(data)
    return 0 if compared.right else 1


def _show(data: dict[str, Any]) -> None:
    rows = table("computed by", "what", "calls", "operators", "time", "why")
    for line in data["computed"]:
        stands_for = f"{line['operators']} ({percent(line['share'])})"
        time = f"{'at most ' if line['at_most'] else ''}{percent(line['time_share'])}"
        rows.add_row(line["by"], line["what"], str(line["calls"]), stands_for, time, line["why"])
    out = console()
    out.print(rows)
    out.print(
        f"{taken_of(data['taken'], data['operators'])} in {percent(data['served_share_of_time'])} of the time, in "
        f"{data['parts']} part(s)"
    )
    if "seconds" in data:
        times = ", ".join(f"{n} {seconds(s)}" for n, s in data["seconds"].items())
        out.print(f"a run: {times}; {data['speedup']:.3g} times as fast")
    verdict = "right" if data["right"] else "WRONG"
    rival = "no kernel" if data["onnxruntime_error"] is None else f"{data['onnxruntime_error']:.2g}"
    errors = f"largest error {data['largest_error']:.2g} (onnxruntime: {rival})"
    out.print(f"{errors} of {data['output']}, from {data['truth']}; allowed is {data['allowed_error']:.2g}: {verdict}")
    if not data["served"]:
        say("nothing was tuned for it: tilewright extract -o tasks.toml, then tilewright tune --tasks tasks.toml")
