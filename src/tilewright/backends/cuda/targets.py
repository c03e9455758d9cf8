"""CUDA targets by name: ``cuda`` and ``cuda:sm_90a``."""

from __future__ import annotations

from tilewright.backends.cuda import archs
from tilewright.backends.cuda.probe import gpus, gpus_or_none, target_of
from tilewright.backends.driver import NoDriver
from tilewright.core import Target, TargetUnavailable, UsageError


def parse_target(text: str, threads: int = 1, allow_foreign: bool = False) -> Target:
    """The target of a name, with the limits of this machine's first GPU where that runs its code.

    ``cuda`` is the architecture of the GPU. Without one, and with ``allow_foreign``, it is ``cuda:sm_90a``, and
    limits are those of the product in ``archs.py``. Raises ``UsageError`` for an unknown name, and
    ``TargetUnavailable`` where the target does not run here unless ``allow_foreign``.
    """
    if isinstance(threads, bool) or threads != 1:
        raise UsageError(f"a CUDA target has no threads to choose, and {threads} were asked for", "Leave threads out")
    kind, colon, variant = text.partition(":")
    if kind != "cuda" or (colon and not variant):
        raise UsageError(f"unknown target {text!r}", f"Use cuda or one of {_names()}")
    table = archs.target(variant or archs.DEFAULT)  # an unknown name is told first
    try:
        return target_of(gpus()[0], variant or None)
    except NoDriver as e:
        if allow_foreign:
            return table
        raise TargetUnavailable(
            f"target {text} does not run on this machine: {e.message}",
            "Use --target cpu, `tilewright check` to run CUDA kernels on the emulator, or a machine with such a GPU",
        ) from None
    except TargetUnavailable:
        if allow_foreign and variant:
            return table
        raise


def available() -> tuple[Target, ...]:
    """The targets that run on this machine's first GPU, best first; none without one."""
    found = gpus_or_none()
    return tuple(target_of(found[0], v) for v in archs.variants_for(found[0].cc)) if found else ()


def runs_here(target: Target) -> bool:
    """Whether a GPU of this machine runs code for ``target``."""
    return target.kind == "cuda" and any(target.variant in archs.variants_for(g.cc) for g in gpus_or_none())


def runs_on(target: Target, capability: int) -> bool:
    """Whether a cubin for ``target`` runs on a device of compute capability ``capability`` (90 is 9.0).

    Machine code runs on later minor versions of its major version; an architecture-specific one
    (``sm_90a``) on exactly its own (CUDA C++ Programming Guide, Binary Compatibility).
    """
    own = int(target.limit.get("cc", 0))
    if target.variant.endswith("a"):
        return own == capability
    return own // 10 == capability // 10 and own <= capability


def _names() -> str:
    return ", ".join(f"cuda:{v}" for v in archs.VARIANTS)
