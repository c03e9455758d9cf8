"""Start-up times: the command's help, and importing the run-time library, beside Python and NumPy themselves.

    python benchmarks/startup.py --out benchmarks/results/startup

Medians of whole processes, taking turns. Writes NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tilewright.backends.cpu.device import device_model

CASES = {
    "python -c pass": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import tilewright; tilewright.Library": ["-c", "import tilewright; tilewright.Library"],
    "tilewright --help": ["-m", "tilewright", "--help"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--out", help="write NAME.json and NAME.md")
    args = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in CASES}
    for r in range(args.rounds + 1):
        for name, arguments in CASES.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            if r:  # the first round fills the caches
                seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    bare = medians["python -c pass"]
    lines = ["| process | median, s | beyond Python's own start, s |", "|---|---|---|"]
    lines += [f"| `{name}` | {s:.3f} | {s - bare:.3f} |" for name, s in medians.items()]
    text = f"Start-up, {device_model()}, {time.strftime('%Y-%m-%d')}, medians of {args.rounds}.\n\n" + "\n".join(lines)
    print(text)
    if args.out:
        Path(args.out).parent.mkdir(parents=True, exist_ok=True)
        Path(f"{args.out}.json").write_text(json.dumps({"device": device_model(), "seconds": seconds}, indent=1) + "\n")
        Path(f"{args.out}.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
