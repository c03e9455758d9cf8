"""Which package reaches the GPUs: CuPy, PyCUDA, or the emulator in their place."""

from __future__ import annotations

import importlib
from typing import cast

from tilewright.backends.driver import Driver, NoDriver, NotInstalled
from tilewright.core import UsageError

DRIVERS = {
    "cupy": "tilewright.backends.cuda.cupy_driver:CupyDriver",
    "pycuda": "tilewright.backends.cuda.pycuda_driver:PycudaDriver",
    "emulator": "tilewright.backends.emulator.driver:EmulatorDriver",
}
"""Name -> where it is. The emulator is used only when asked for: it runs kernels, but its times mean nothing."""

_CHOSEN = ("cupy", "pycuda")


def get_driver(name: str | None = None) -> Driver:
    """A driver by name; without one, CuPy, or PyCUDA where CuPy is not installed.

    Packages are imported here, not before. Raises ``NoDriver`` that names what is missing or does not fit, and
    ``UsageError`` for an unknown name.
    """
    if name is not None:
        return _make(name)
    problems: list[NoDriver] = []
    for candidate in _CHOSEN:
        try:
            return _make(candidate)
        except NoDriver as e:
            problems.append(e)
            if not isinstance(e, NotInstalled):
                break  # what is installed and broken is what the user wants mended
    raise problems[-1] if not isinstance(problems[-1], NotInstalled) else problems[0]


def _make(name: str) -> Driver:
    where = DRIVERS.get(name)
    if where is None:
        raise UsageError(f"no CUDA driver {name!r}", f"Use one of {', '.join(DRIVERS)}")
    module, _, cls = where.partition(":")
    return cast(Driver, getattr(importlib.import_module(module), cls)())
