"""The blocker: a kernel that keeps a device busy for a given time, so that launches queue up behind it."""

from __future__ import annotations

from tilewright.backends.cuda import archs
from tilewright.backends.cuda.nvrtc import find_nvrtc
from tilewright.backends.driver import NoDriver
from tilewright.core import Pairs, UsageError

SYMBOL = "tw_busy"
LONGEST = 10.0  # seconds
_TURN = 2e-9  # seconds: less than one look at the timer takes

# Ends by the timer, and after so many turns in case the timer stands still.
_SOURCE = """
extern "C" __global__ void tw_busy(long long nanoseconds, long long turns) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while ((long long)(now - start) < nanoseconds && --turns > 0);
}
"""


def cubin(variant: str) -> bytes:
    """The kernel for an architecture. Raises ``NoNvrtc``."""
    code, _ = find_nvrtc(variant).compile(_SOURCE, (f"--gpu-architecture={variant}", "-std=c++17"))
    return code


def cubin_for(model: str, limits: Pairs) -> bytes:
    """The kernel for a device. Raises ``NoDriver`` for an architecture that is not known, ``NoNvrtc``."""
    found = archs.variants_for(int(dict(limits)["cc"]))
    if not found:
        raise NoDriver(f"{model} is of an architecture that is not known", "Use a later Tilewright")
    return cubin(found[0])


def parameters(seconds: float) -> tuple[tuple[str, int], ...]:
    """Its arguments. Raises ``UsageError`` beyond ten seconds: a system may stop longer kernels."""
    if not 0 <= seconds <= LONGEST:
        raise UsageError(f"a blocker of {seconds} s", f"Ask for 0 to {LONGEST:g} s")
    return ("int64", round(seconds * 1e9)), ("int64", max(1, round(seconds / _TURN)))
