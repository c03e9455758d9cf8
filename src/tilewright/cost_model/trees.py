"""Inference with trained trees through XGBoost's C library alone.

XGBoost's Python package takes longer to import (SciPy) than a short run searches, and only training needs it.
"""

from __future__ import annotations

import ctypes
import json
import weakref
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
from numpy.ctypeslib import as_array

from tilewright.cost_model.base import CostModelError, Scores
from tilewright.cost_model.features import Matrix
from tilewright.forking import steady

_SETTINGS = {"nthread": "1", "verbosity": "0"}
_MARGIN = {
    "type": 1, "training": False, "iteration_begin": 0, "iteration_end": 0, "missing": float("nan"),
    "strict_shape": False, "cache_id": 0,
}  # fmt: skip


def xgboost_folder() -> Path:
    """Folder of the XGBoost package. Raises ``CostModelError`` if it is not installed."""
    package = find_spec("xgboost")
    if package is None or package.origin is None:
        raise CostModelError(
            "the cost model 'xgboost' needs the package xgboost, which is not installed",
            "Run: pip install 'tilewright[tune]'",
        )
    return Path(package.origin).parent


class Trees:
    """A model loaded from bytes (``ubj``). Raises ``ValueError`` for invalid bytes."""

    _booster: Any = None  # the Python booster that owns the handle; None if this object owns it

    def __init__(self, data: bytes) -> None:
        self._handle = ctypes.c_void_p()
        library = _library()
        _check(library.XGBoosterCreate(None, ctypes.c_uint64(0), ctypes.byref(self._handle)))
        weakref.finalize(self, library.XGBoosterFree, self._handle)
        for name, value in _SETTINGS.items():
            _check(library.XGBoosterSetParam(self._handle, name.encode(), value.encode()))
        _check(library.XGBoosterLoadModelFromBuffer(self._handle, data, ctypes.c_uint64(len(data))))

    @classmethod
    def of(cls, booster: Any) -> Trees:
        """Wrap a booster that the Python package trained: its own prediction takes longer."""
        trees = cls.__new__(cls)
        trees._booster, trees._handle = booster, booster.handle  # the package frees the handle
        return trees

    def scores(self, matrix: Matrix) -> Scores:
        """Sum of the trees for each row."""
        rows = np.ascontiguousarray(matrix, np.float32)
        told = {"data": [rows.ctypes.data, True], "shape": rows.shape, "typestr": "<f4", "version": 3}
        shape, axes, found = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64(), ctypes.POINTER(ctypes.c_float)()
        _check(
            _library().XGBoosterPredictFromDense(
                self._handle, json.dumps(told).encode(), json.dumps(_MARGIN).encode(), None, ctypes.byref(shape),
                ctypes.byref(axes), ctypes.byref(found),
            )
        )  # fmt: skip
        # The result lies in the library's memory until this thread's next call.
        return as_array(found, (len(rows),)).astype(np.float64)


def _check(code: int) -> None:
    if code != 0:
        raise ValueError(_library().XGBGetLastError().decode(errors="replace"))


@cache
def _library() -> ctypes.CDLL:
    """XGBoost's C library, at the path from the package's own module, without importing the package."""
    spec = spec_from_file_location("_xgboost_libpath", xgboost_folder() / "libpath.py")
    assert spec is not None
    assert spec.loader is not None
    paths = module_from_spec(spec)
    spec.loader.exec_module(paths)
    with steady:
        library = ctypes.CDLL(paths.find_lib_path()[0])
    library.XGBGetLastError.restype = ctypes.c_char_p
    return library
