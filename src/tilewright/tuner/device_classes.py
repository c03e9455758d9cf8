"""Tunes one operator on several device classes of a farm at once. Each class has its own run, history and winner."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as all_of
from typing import TYPE_CHECKING, Any

from tilewright.core import TilewrightError
from tilewright.errors import of_any
from tilewright.tuner.api import tune
from tilewright.tuner.observer import Observer
from tilewright.tuner.progress import LogProgress
from tilewright.tuner.result import TuneResult

if TYPE_CHECKING:
    from tilewright.farm.client import Farm


def tune_all(
    operator: Any,
    *,
    farm: Farm,
    device: str = "all",
    target: str = "auto",
    threads: int = 1,
    observer: Callable[[str], Observer] = lambda device_class: LogProgress(f"{device_class}: "),
    **settings: Any,
) -> dict[str, TuneResult | TilewrightError]:
    """Tune on every device class that ``device`` names (``all``, or names with commas between), all at once.

    Returns the result or the error of each class by its name. A failure on one class leaves the other classes alone.
    ``observer`` returns the observer for a class; ``settings`` are keywords of :func:`tune`. Ctrl-C ends the runs of
    all classes. Raises ``UsageError`` before anything is measured.
    """
    from tilewright.tuner.farm_target import farm_targets

    names = [p.device.name for p in farm_targets(farm, device, target, threads)]
    stop = settings.pop("stop", None) or threading.Event()

    def one(name: str) -> TuneResult | TilewrightError:
        try:
            return tune(
                operator, farm=farm, device=name, target=target, threads=threads, observer=observer(name), stop=stop,
                **settings,
            )  # fmt: skip
        except Exception as e:  # of this class alone: the other classes continue
            return of_any(e)

    with ThreadPoolExecutor(len(names), "tune") as pool:
        runs = {n: pool.submit(one, n) for n in names}
        try:
            all_of(runs.values())
        except KeyboardInterrupt:
            stop.set()
            all_of(runs.values())
        return {n: f.result() for n, f in runs.items()}
