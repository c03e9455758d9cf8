"""Baselines: other libraries that compute a workload, for paired comparisons.

A baseline is one entry of ``BASELINES``. Its ``environment`` states environment variables that it needs (a forced
kernel set, for example); baselines with equal environments share a process.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright.core import IMPLICIT, Target

if TYPE_CHECKING:
    import numpy as np

    from tilewright.baselines import pytorch
    from tilewright.core import Workload

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Variant:
    """A timed call, and the conversion of its result into the workload's output, which is not timed.

    ``result`` is ``None`` for a yardstick that computes nothing; for several outputs it returns a tuple.
    """

    call: Callable[[], Any]
    result: Callable[[Any], Any] | None = lambda y: y


@dataclass(frozen=True)
class Baseline:
    """A library to compare with. ``missing`` returns the reason why it cannot run a workload here, or ``None``.

    ``prepare`` returns the variants of a workload, by name; the fastest variant counts.
    """

    missing: Callable[[Workload], str | None]
    prepare: Callable[[Workload, Sequence[Array], Array, int], Mapping[str, Variant]]
    environment: Callable[[Target], Mapping[str, str]] = lambda _: {}


def _plain_matmul(workload: Workload) -> bool:
    plain = dict(workload.defaults)
    extra = [k for k, v in workload.params if k in plain and plain[k] != v and k not in IMPLICIT]
    return workload.op in ("matmul", "batch_matmul") and not extra and workload.output.dtype in ("float32", "float64")


def _numpy_missing(workload: Workload) -> str | None:
    from tilewright.kernels.operators import find_numpy

    return None if find_numpy(workload) else f"{workload.op} has no NumPy implementation"


def _numpy(workload: Workload, inputs: Sequence[Array], out: Array, _threads: int) -> Mapping[str, Variant]:
    import numpy as np

    if _plain_matmul(workload):
        a, b = inputs
        return {"matmul": Variant(lambda: np.matmul(a, b, out=out))}
    from tilewright.kernels.operators import find_numpy

    function = find_numpy(workload)
    assert function is not None
    return {"operator": Variant(lambda: function(*inputs))}


def widest_core(target: Target) -> str | None:
    """OpenBLAS's name for the widest x86 kernels of a target."""
    if target.arch != "x86_64":
        return None
    return "SkylakeX" if "avx512f" in target.isa else "Haswell" if "avx2" in target.isa else None


def openblas_core() -> str | None:
    """The kernel set that NumPy's OpenBLAS chose in this process, such as ``SkylakeX``."""
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


def _openblas_environment(target: Target) -> Mapping[str, str]:
    core = widest_core(target)
    return {"OPENBLAS_CORETYPE": core} if core else {}


def _torch_missing(workload: Workload) -> str | None:
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    from tilewright.baselines.pytorch import compared

    return None if compared(workload) else f"{workload.op} is not compared with torch"


def _torch(
    workload: Workload, inputs: Sequence[Array], _out: Array, threads: int, compiled: bool = False
) -> Mapping[str, Variant]:
    import torch

    from tilewright.baselines.pytorch import variants

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    out = {}
    for name, variant in variants(workload, inputs).items():
        if compiled and "packed" in name:
            continue  # prepacked weights need compilation with freezing, which is not the default
        out[name] = _torch_variant(variant, torch.compile(variant.run) if compiled else variant.run)
    return out


def _torch_variant(variant: pytorch.Variant, run: Callable[..., Any]) -> Variant:
    from tilewright.baselines.pytorch import as_array

    return Variant(lambda: run(*variant.tensors), lambda y: as_array(variant.result(y)))


def _memcpy(workload: Workload, inputs: Sequence[Array], out: Array, _threads: int) -> Mapping[str, Variant]:
    import numpy as np

    # Reads and writes half of the bytes that the workload touches.
    half = (sum(a.nbytes for a in inputs) + out.nbytes) // 2
    source, target = np.ones(half, np.uint8), np.ones(half, np.uint8)
    size, to, of = ctypes.c_size_t(half), ctypes.c_void_p(target.ctypes.data), ctypes.c_void_p(source.ctypes.data)

    def copy() -> object:
        ctypes.memmove(to, of, size.value)
        return source, target  # keeps them alive

    return {"memcpy": Variant(copy, None)}


BASELINES = {
    "numpy": Baseline(_numpy_missing, _numpy),
    "openblas": Baseline(_openblas_missing, _numpy, _openblas_environment),  # NumPy with its widest kernels forced
    "memcpy": Baseline(lambda _: None, _memcpy),  # copies an equal number of bytes, by the C library
    "torch": Baseline(_torch_missing, _torch),  # eager, in its best layout
    "torch-compile": Baseline(_torch_missing, partial(_torch, compiled=True)),
}
"""All baselines by name; a new baseline is one entry."""
