"""What a bundle costs at start, and a look-up in it, by how many kernels it holds.

    python benchmarks/bundle.py --out benchmarks/results/bundle.json

A database of small products of 1,000 shapes (default schedules, each in a library of its own, as tuning leaves
them, and compared with its reference; some minutes) is bundled and signed. Then whole processes are timed, from the
start of Python over `import tilewright` and opening the signed bundle to the end of the first tuned call, beside
processes that import numpy and end. Look-ups by arrays and by parameters are timed in bundles of 10, 100 and 1,000
kernels: each of a shape that was not looked up before. Needs the package cryptography, to sign. ``--work`` keeps what
was compiled.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bundles.build import build
from tilewright.bundles.keys import load_key, new_key
from tilewright.core import Artifact, Candidate, Task
from tilewright.database import Database, StoredArtifact, StoredKernel
from tilewright.kernels import templates
from tilewright.kernels.operators import get_operator
from tilewright.measure.local_target import find_local_target
from tilewright.runtime.bundle.store import BundleStore

FIRST_CALL = """
import numpy as np, tilewright
library = tilewright.Library({bundle!r}, trust={key!r})
a, b = np.ones(({m}, {k}), np.float32), np.ones(({k}, {n}), np.float32)
c = library.matmul(a, b)
assert c[0, 0] == {k} and library.stats().tiers["exact"] == 1
"""


def shapes(count: int) -> list[tuple[int, int, int]]:
    """Small sizes, no two alike."""
    return [(4 + i % 10, 4 + i // 10 % 10, 4 + i // 100) for i in range(count)]


def fill(path: Path, count: int) -> None:
    """A database of so many kernels, each right."""
    place = find_local_target()
    operator = get_operator("matmul")
    tasks = [Task(operator.workload(m=m, n=n, k=k), place.target) for m, n, k in shapes(count)]
    candidates = [Candidate(t, templates.default_schedule(t)) for t in tasks]
    with ExitStack() as stack:
        database = stack.enter_context(Database.open(path))
        stack.enter_context(place.lock(on_wait=lambda holder: None))
        builder, runner = stack.enter_context(place.builder()), stack.enter_context(place.runner())
        for start in range(0, count, 64):
            some = candidates[start : start + 64]
            for candidate, built in zip(some, builder.build(some, alone=True), strict=True):
                assert isinstance(built, Artifact), built
                problem = runner.verify(candidate.task, (candidate, built))
                assert problem is None, problem
                artifact = StoredArtifact.read(built, templates.full_source(candidate))
                kernel = StoredKernel(
                    candidate.task, "", 1, candidate.schedule, built.program, 1e-6, built.sha256, state="verified"
                )  # fmt: skip
                database.set_kernels(candidate.task, place.device.model, None, [kernel], [artifact])
            print(f"{min(start + 64, count)} of {count} kernels", file=sys.stderr)


def processes(program: str, rounds: int) -> list[float]:
    """Seconds of whole processes."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True)
        times.append(time.perf_counter() - start)
    return times


def look_ups(bundle: Path, count: int, rounds: int) -> dict[str, float]:
    """Microseconds of one look-up that reads the bundle, the median, and of opening it."""
    by_shapes, by_params, opening = [], [], []
    wanted = shapes(count)
    for i in range(rounds):
        start = time.perf_counter()
        store = BundleStore(bundle, trust="unsigned")
        opening.append(time.perf_counter() - start)
        m, n, k = wanted[i * 7919 % count]
        start = time.perf_counter()
        (found,) = store.entries("matmul", shapes=[(m, k), (k, n)])
        by_shapes.append(time.perf_counter() - start)
        assert (found.params["m"], found.params["n"], found.params["k"]) == (m, n, k)
        m, n, k = wanted[(i * 7919 + 1) % count]
        start = time.perf_counter()
        (found,) = store.entries("matmul", params={"m": m, "n": n, "k": k})
        by_params.append(time.perf_counter() - start)
        assert (found.params["m"], found.params["n"], found.params["k"]) == (m, n, k)
    medians = {"open": opening, "by_shapes": by_shapes, "by_params": by_params}
    return {name: statistics.median(times) * 1e6 for name, times in medians.items()}


def measure(work: Path, count: int, rounds: int) -> dict[str, Any]:
    key = work / "key.pem"
    if not key.exists():
        new_key(key)
    public = key.with_name("key.pem.pub").read_text().split()[0]
    sizes = sorted({min(n, count) for n in (10, 100, count)})
    bundles = {}
    for n in sizes:
        database, bundle = work / f"{n}.db", work / f"{n}.twb"
        if not bundle.exists():
            fill(database, n)
            with Database.open(database, create=False, readonly=True) as opened:
                build(opened, bundle, load_key(key))
        bundles[n] = bundle
    m, n, k = shapes(count)[count // 2]
    program = FIRST_CALL.format(bundle=str(bundles[count]), key=public, m=m, n=n, k=k)
    pairs = [(processes(program, 1)[0], processes("import numpy", 1)[0]) for _ in range(rounds + 1)][1:]
    found = {str(size): look_ups(bundles[size], size, 200) for size in sizes}
    return {
        "kernels": count,
        "bytes": bundles[count].stat().st_size,
        "first_call_seconds": statistics.median(a for a, _ in pairs),
        "first_call_worst_seconds": max(a for a, _ in pairs),
        "import_numpy_seconds": statistics.median(b for _, b in pairs),
        "look_up_microseconds": found,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def table(found: dict[str, Any]) -> str:
    """The result for people."""
    names = ("first_call_seconds", "first_call_worst_seconds", "import_numpy_seconds")
    first, worst, plain = (found[n] for n in names)
    lines = [
        f"A signed bundle of {found['kernels']:,} kernels, {found['bytes'] / 1e6:.0f} MB; {found['device']}, "
        f"{found['date']}. From the start of Python to the end of the first tuned call: {first:.3f} s in the median, "
        f"{worst:.3f} s at worst (a process that imports numpy alone: {plain:.3f} s).",
        "",
        "| kernels in the bundle | opened in | a look-up by shapes | by parameters |",
        "|---|---|---|---|",
    ]
    for count, each in found["look_up_microseconds"].items():
        opened, shapes, params = (each[n] for n in ("open", "by_shapes", "by_params"))
        lines.append(f"| {int(count):,} | {opened / 1000:.1f} ms | {shapes:.0f} us | {params:.0f} us |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15, help="whole processes")
    parser.add_argument("--work", type=Path, help="folder that keeps databases and bundles")
    parser.add_argument("--out", type=Path, help="JSON file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        work = given.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        found = measure(work, given.kernels, given.rounds)
    device = find_local_target("auto", "auto", 1).device.model
    found = {"schema": 1, **found, "device": device, "date": time.strftime("%Y-%m-%d")}
    print(table(found))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
        given.out.with_suffix(".md").write_text(table(found) + "\n")


if __name__ == "__main__":
    main()
