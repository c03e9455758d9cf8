"""Other libraries that compute a workload, for paired comparisons.

A rival is one entry of ``RIVALS``. Rivals that need another process environment (a forced kernel
set, for example) say so in ``environment``; rivals with equal environments share a process.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from tilewright.core import Workload

    Array = np.ndarray[Any, Any]

Call = Callable[[], "Array"]


@dataclass(frozen=True)
class Rival:
    """``missing`` says why it cannot run here (or ``None``); ``prepare`` gives a call with no arguments."""

    name: str
    about: str
    missing: Callable[[Workload], str | None]
    prepare: Callable[[Workload, Sequence[Array], Array, int], Call]
    environment: Callable[[], Mapping[str, str]] = dict


def _plain_matmul(workload: Workload) -> bool:
    plain = dict(workload.defaults)
    extra = [k for k, v in workload.params if k in plain and plain[k] != v and k != "dtype"]
    return workload.op in ("matmul", "batch_matmul") and not extra and workload.output.dtype in ("float32", "float64")


def _numpy_missing(workload: Workload) -> str | None:
    from tilewright.kernels.operator import find_numpy

    return None if find_numpy(workload) else f"{workload.op} has no NumPy implementation"


def _numpy(workload: Workload, inputs: Sequence[Array], out: Array, _threads: int) -> Call:
    import numpy as np

    if _plain_matmul(workload):
        a, b = inputs
        return lambda: np.matmul(a, b, out=out)
    from tilewright.kernels.operator import find_numpy

    function = find_numpy(workload)
    assert function is not None
    return lambda: function(*inputs)


def widest_core() -> str | None:
    """OpenBLAS's name for the widest x86 kernels that this processor runs."""
    from tilewright.backends.cpu.targets import host_isa

    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    isa = host_isa()
    return "SkylakeX" if "avx512f" in isa else "Haswell" if "avx2" in isa else None


def openblas_core() -> str | None:
    """Which kernel set NumPy's OpenBLAS chose in this process, such as ``SkylakeX``."""
    import numpy as np

    pattern = os.path.join(os.path.dirname(np.__file__), os.pardir, "numpy.libs", "*openblas*")
    for path in glob.glob(pattern):
        try:
            name = ctypes.CDLL(path).scipy_openblas_get_corename64_
        except (OSError, AttributeError):
            continue
        name.restype = ctypes.c_char_p
        text = name()
        return text.decode() if isinstance(text, bytes) else None
    return None


def _openblas_missing(workload: Workload) -> str | None:
    if not _plain_matmul(workload):
        return "OpenBLAS is compared on plain matrix products only"
    if openblas_core() is None:
        return "this NumPy does not use a bundled OpenBLAS"
    return None


def _openblas_environment() -> Mapping[str, str]:
    core = widest_core()
    return {"OPENBLAS_CORETYPE": core} if core else {}


def _torch_missing(workload: Workload) -> str | None:
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    return None if _plain_matmul(workload) else "torch is compared on plain matrix products only"


def _torch(_workload: Workload, inputs: Sequence[Array], out: Array, threads: int) -> Call:
    import torch

    torch.set_num_threads(threads)
    a, b, c = (torch.from_numpy(x) for x in (*inputs, out))

    def call() -> Array:
        with torch.inference_mode():
            torch.matmul(a, b, out=c)
        return out

    return call


RIVALS = {
    r.name: r
    for r in (
        Rival("numpy", "NumPy as installed", _numpy_missing, _numpy),
        Rival(
            "openblas",
            "NumPy with OpenBLAS's widest kernels forced",
            _openblas_missing,
            _numpy,
            _openblas_environment,
        ),
        Rival("torch", "PyTorch, eager", _torch_missing, _torch),
    )
}
"""Adding a rival is one entry here."""
