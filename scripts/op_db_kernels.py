"""PyTorch's own samples of its operators through compiled kernels: ``python scripts/op_db_kernels.py --out FILE``.

Each operator and element type gives a line of the report; what has one is not run again. A line that says ``crashed``
is of an operator that ended the process, by eager or by a kernel. Exits with 1 where something is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "frameworks")]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--out", type=Path, required=True, help="the report, one line of JSON for each operator and type")
    p.add_argument("--kinds", default="", help="element types, with commas; all where none is given")
    p.add_argument("--operators", default="", help="PyTorch's names, with commas; all where none is given")
    p.add_argument("--most", type=int, default=4, help="samples in each form")
    p.add_argument("--seed", type=int, default=0, help="which samples")
    p.add_argument("--emulator", action="store_true", help="kernels for GPUs, on tensors of the emulated device")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    import op_db_kernels as kernels

    target, device = ("emulator", "emulator:0") if a.emulator else ("auto", "cpu")
    if a.emulator:
        from harness.torch_device import Devices, using

        devices = using(Devices())
        devices.__enter__()
    lines = a.out.read_text().splitlines() if a.out.exists() else []
    report: dict[tuple[str, str], Any] = {(d["kind"], d["name"]): d for d in map(json.loads, lines)}
    names = set(filter(None, a.operators.split(",")))
    for kind in filter(None, a.kinds.split(",")) if a.kinds else kernels.KINDS:
        for info in kernels.op_db:
            name = kernels.name_of(info)
            if (kind, name) in report or (names and info.name not in names):
                continue
            began, line = time.time(), {"kind": kind, "name": name}
            with a.out.open("a") as out, tempfile.TemporaryDirectory() as folder:
                here = out.tell()
                out.write(json.dumps({**line, "crashed": True}) + "\n")
                out.flush()
                found = kernels.Compiled(Path(folder), target, device).run(kernels.samples(info, kind, a.most, a.seed))
                report[kind, name] = line | vars(found) | {"seconds": round(time.time() - began, 2)}
                out.truncate(here)
                out.write(json.dumps(report[kind, name]) + "\n")
            print(
                "\n    ".join([f"{kind} {name} {found.samples} {found.placed} {found.kernels}", *found.wrong]),
                flush=True,
            )
    total = {k: sum(d.get(k, 0) for d in report.values()) for k in ("samples", "placed", "kernels")}
    placed = len({d["name"] for d in report.values() if d.get("placed")})
    wrong = [d for d in report.values() if d.get("wrong") or d.get("crashed")]
    print(f"{placed} operators placed, {total}, wrong: {', '.join(sorted({d['name'] for d in wrong})) or 'none'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
