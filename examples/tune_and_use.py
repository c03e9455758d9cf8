"""Define an operator, tune it, and call the kernel that won: about half a minute.

python examples/tune_and_use.py [TRIALS] [DATABASE]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tilewright
from custom_ops import sqdist


def seconds(call: Callable[[], object], repeats: int = 20) -> float:
    """The median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[repeats // 2]


def main(trials: int, database: str) -> None:
    m, n, k = 256, 256, 64
    tilewright.tune(sqdist, trials=trials, db=database, m=m, n=n, k=k)

    library = tilewright.Library(database)
    kernel = library.plan("sqdist", m=m, n=n, k=k)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((m, k), dtype=np.float32)
    y = rng.standard_normal((n, k), dtype=np.float32)

    expected = ((x[:, None, :].astype(np.float64) - y[None, :, :]) ** 2).sum(-1)
    error = float(np.abs(kernel(x, y) - expected).max())
    if not error < 1e-3:
        sys.exit(f"the kernel is wrong: largest error {error}")
    assert sqdist.numpy is not None
    plain = sqdist.numpy
    ours, theirs = seconds(lambda: kernel(x, y)), seconds(lambda: plain(x, y))
    print(f"largest error {error:.1e}")
    print(f"tuned {ours * 1e6:.0f} us, numpy by broadcasting {theirs * 1e6:.0f} us")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    if len(sys.argv) > 2:
        main(count, sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(count, str(Path(folder) / "example.db"))
