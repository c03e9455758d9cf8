"""``tilewright run``: runs a whole model with tuned kernels and compares it with onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tilewright.cli.commands.extract import AXES, SIZES, sizes_of, taken_of
from tilewright.cli.declare import argument, declared, option, wants_json
from tilewright.cli.options import DB, DEVICE, TARGET
from tilewright.cli.output import percent, report, say, seconds, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.models.model_file import Model
    from tilewright.models.network import Network
    from tilewright.models.truth import Comparison


@declared("run")
def command(
    model: Path = argument(),
    axes: tuple[str, ...] = AXES,
    sources: tuple[str, ...] = option(
        "--input",
        metavar="[NAME=]FILE",
        help="A .npz file with inputs by name, or NAME=FILE.npy for one. May be repeated. [default: random inputs]",
    ),
    sizes: tuple[str, ...] = SIZES,
    target: str = TARGET,
    device: str = DEVICE,
    threads: int = option(
        low=1, default=1, envvar="TILEWRIGHT_THREADS", show_envvar=True, help="Threads of kernels and of onnxruntime."
    ),
    no_compare: bool = option(help="Use every tuned kernel, without timing which form of the model is fastest."),
    benchmark: int | None = option(low=1, metavar="ROUNDS", help="Time ROUNDS runs in turns with onnxruntime."),
    db: str | None = DB,
) -> int:
    """Run the ONNX model in MODEL: its tuned tasks with kernels, the other operators with onnxruntime.

    The command first times three forms of the model in turns: with all kernels, with the kernels that gain, and with
    onnxruntime alone. It then runs the fastest form.

    With --target cuda or --device cuda:1, kernels run on a GPU, and onnxruntime runs on the processor.

    KEY=VALUE gives a dynamic axis its size, or a range. Of a range the command runs the smallest size, the largest and
    some between, or the sizes of the given inputs; the table is for the largest.

    The command compares all outputs with float64 outputs of the same inputs. An error may be 4 times that of
    onnxruntime; in float32 also 0.0001 of the output's largest magnitude. Exit code 1 if an error is larger.

    \b
    Examples:
      tilewright run resnet50.onnx
      tilewright run resnet50.onnx --input image=photo.npy
      tilewright run bert.onnx rows=128 --input inputs.npz --json
      tilewright run bert.onnx rows=1..128
      tilewright run resnet50.onnx --threads 2 --benchmark 20
      tilewright run resnet50.onnx --target cuda
    """
    from tilewright.models.coverage import of_run
    from tilewright.models.extract import extract
    from tilewright.models.forms import fastest
    from tilewright.models.inputs import given_inputs
    from tilewright.models.parts import place_of
    from tilewright.models.truth import worst
    from tilewright.runtime import Library

    where, name = place_of(target, device)
    found = extract(model, sizes_of((*axes, *sizes)), where)
    imported = found.imported
    given = given_inputs(sources, imported)
    with Library(db, threads=threads, missing_ok=True, count_misses=False) as library:
        network = fastest(found, library, threads, not no_compare, given, name)
        tuned = {t.workload.key: library.resolver.tuned(t.workload, name) for t in found.tasks}
        kernels = {key: k.seconds for key, k in tuned.items() if k is not None}
    runs = [Run.of(network, imported.model.at(s), given, threads, benchmark) for s in network.sizes_to_try(given)]
    last, compared = runs[-1], worst(r.compared for r in runs)
    coverage = of_run(found, [p for p, _ in network.parts], last.spent, kernels, network.untuned)
    data: dict[str, Any] = {
        "served": network.served, "left": network.left, **coverage.to_json(), **compared.to_json(),
        "served_share_of_time": last.served_share, "parts": len(network.parts), "form": network.form,
        "why": network.why, "comparison": network.comparison and network.comparison.to_json(), **last.timed(),
    }  # fmt: skip
    if imported.model.symbolic_sizes:
        data["sizes"] = [{"size": r.sizes, **r.compared.to_json(), **r.timed()} for r in runs]
    report(data, *_shown(data))
    if not wants_json() and not network.served and network.comparison is None and found.tasks:
        where_to = "" if target == "auto" else f"--target {target} "
        say(
            f"no task of the model is tuned. Run: tilewright extract {model} {where_to}-o tasks.toml, then "
            "tilewright tune --tasks tasks.toml"
        )
    return 0 if compared.right else 1


@dataclass(frozen=True)
class Run:
    """A run of a network at sizes of its symbolic dimensions.

    ``sizes``: empty for a network without symbolic dimensions. ``spent``: seconds of each part. ``served_share``: share
    of the time that kernels take. ``seconds``: of the whole network and of onnxruntime, empty if they were not timed.
    """

    sizes: dict[str, int]
    compared: Comparison
    spent: list[float]
    served_share: float
    seconds: dict[str, float]

    @staticmethod
    def of(network: Network, model: Model, given: Mapping[str, Any], threads: int, benchmark: int | None) -> Run:
        """Runs the network and compares its outputs. Inputs are ``given``, missing inputs are random."""
        from tilewright.measure.comparing import in_turns
        from tilewright.models.importer import Importer
        from tilewright.models.inputs import random_inputs
        from tilewright.models.sessions import NoKernel, Session
        from tilewright.models.truth import Truth, compare

        fixed = Importer(model).run() if network.extracted.imported.model.symbolic_sizes else network.extracted.imported
        inputs = random_inputs(fixed, given=given)
        try:
            sessions = [Session.of_file(model, threads, optimised=optimised) for optimised in (True, False)]
        except NoKernel:
            if benchmark is not None:
                raise
            sessions = []
        truth = Truth(fixed)
        theirs = [s.run(inputs) for s in sessions]
        compared = compare(network.run(inputs), theirs, truth.run(inputs), truth.narrow)
        spent: list[float] = []
        network.run(inputs, spent)
        ours = sum(s for s, (p, _) in zip(spent, network.parts, strict=True) if p.ours)
        seconds = {}
        if benchmark is not None:
            runs = {"tilewright": partial(network.run, inputs), "onnxruntime": partial(sessions[0].run, inputs)}
            seconds = {n: median(s) for n, s in in_turns(runs, rounds=benchmark, budget=inf, threads=threads).items()}
        sizes = dict(network.sizes_of(inputs))
        return Run(sizes, compared, spent, ours / sum(spent) if sum(spent) else 0.0, seconds)

    def timed(self) -> dict[str, Any]:
        """The seconds and their ratio, as JSON; empty if the network was not timed."""
        if not self.seconds:
            return {}
        return {"seconds": self.seconds, "speedup": self.seconds["onnxruntime"] / self.seconds["tilewright"]}


def _shown(data: dict[str, Any]) -> Iterator[RenderableType]:
    """Yields the report of a run: a table of operators, then lines for each size and for the whole model."""
    rows = (
        (
            line["by"], line["what"], line["calls"], f"{line['operators']} ({percent(line['share'])})",
            f"{'at most ' if line['at_most'] else ''}{percent(line['time_share'])}", line["why"],
        )
        for line in data["computed"]
    )  # fmt: skip
    yield table("computed by", "what", "calls", "operators", "time", "why", rows=rows)
    taken, share = taken_of(data["taken"], data["operators"]), percent(data["served_share_of_time"])
    yield f"{taken} in {share} of the time, in {data['parts']} parts"
    yield f"form: {data['why']}"
    for one in data.get("sizes", ()):
        shown = " ".join(f"{n}={size}" for n, size in one["size"].items())
        speed = f", {one['speedup']:.3g}x as fast as onnxruntime" if "speedup" in one else ""
        verdict = "right" if one["right"] else "WRONG"
        yield f"{shown}: largest error {one['largest_error']:.2g} of {one['output']}: {verdict}{speed}"
    if "seconds" in data:
        times = ", ".join(f"{n} {seconds(s)}" for n, s in data["seconds"].items())
        yield f"one run: {times}; {data['speedup']:.3g}x as fast as onnxruntime"
    verdict = "right" if data["right"] else "WRONG"
    rival = "cannot run it" if data["onnxruntime_error"] is None else f"{data['onnxruntime_error']:.2g}"
    errors = f"largest error {data['largest_error']:.2g} (onnxruntime: {rival})"
    yield f"{errors} of {data['output']}, against {data['truth']}; allowed: {data['allowed_error']:.2g}: {verdict}"
