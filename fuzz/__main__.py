"""``python -m fuzz``: tests random programs and calls until a number or time limit; exits with 1 if any test failed."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

from fuzz.findings import Log
from fuzz.session import TARGETS, Options, Session, replay


def main() -> int:
    p = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--programs", type=int, default=1000, help="of each target")
    p.add_argument("--minutes", type=float, default=60.0)
    p.add_argument("--target", default=",".join(TARGETS), help="some of them, with commas")
    p.add_argument("--out", type=Path, default=Path("fuzz.jsonl"), help="findings; their programs lie beside it")
    p.add_argument("--resume", action="store_true", help="go on where --out ends")
    p.add_argument("--replay", type=Path, help="run the program of one finding again")
    a = p.parse_args()
    warnings.simplefilter("ignore")
    if a.replay is not None:
        return int(replay(a.replay))
    targets = tuple(a.target.split(","))
    unknown = [t for t in targets if t not in TARGETS]
    if unknown:
        p.error(f"unknown target {unknown[0]}. There are {', '.join(TARGETS)}")
    log = Log(a.out, a.resume)
    Session(Options(a.seed, a.programs, a.minutes, targets), log, lambda text: print(text, flush=True)).run()
    return int(bool(log.findings()))


if __name__ == "__main__":
    sys.exit(main())
