"""Tensor maps: what launches state, what the driver's functions are given, and what the emulator refuses as they do."""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import pytest

from tilewright.backends.cuda import tensor_map as cuda
from tilewright.backends.driver import BoxShape, LaunchError, box_shape
from tilewright.backends.emulator.tensor_map import tensor_map_bytes
from tilewright.core import Walk, tensor_map

TILED = tensor_map(("tensor", 0), 2, (64, ["*", "n", 2]), (128,), (64, 16), 128)
WALK = Walk((-1, -2), (0, -3), (1, 2))
PIXELS = tensor_map(("tensor", 0), 2, (64, 7, 9, ["*", "n", 2]), (128, 896, 8064), (64, 200), 128, WALK)


def test_a_tiled_map_says_nothing_of_a_walk() -> None:
    assert "walk" not in TILED
    assert box_shape(TILED, {"n": 3}) == BoxShape(2, (64, 6), (128,), (64, 16), 128)


def test_sizes_are_evaluated_and_the_walk_is_read_back() -> None:
    assert box_shape(PIXELS, {"n": 3}) == BoxShape(2, (64, 7, 9, 6), (128, 896, 8064), (64, 200), 128, WALK)


class _Driver:
    """In place of a function of the driver's library: keeps what it was given."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.symbol, self.given = code, "", ()

    def of(self, symbol: str) -> Any:
        self.symbol = symbol
        return self

    def __call__(self, *given: Any) -> int:
        self.given = given
        return self.code

    def plain(self) -> list[Any]:
        """All but where the map is put."""
        return [list(x) if isinstance(x, ctypes.Array) else getattr(x, "value", x) for x in self.given[1:]]


@pytest.mark.parametrize(
    ("what", "symbol", "given"),
    [
        (TILED, "cuTensorMapEncodeTiled", [1, 2, 4096, [64, 6], [128], [64, 16], [1, 1], 0, 3, 3, 0]),
        (
            PIXELS, "cuTensorMapEncodeIm2col",
            [1, 4, 4096, [64, 7, 9, 6], [128, 896, 8064], [-1, -2], [0, -3], 64, 200, [1, 1, 2, 1], 0, 3, 3, 0],
        ),
    ],
)  # fmt: skip
def test_the_drivers_functions_are_given_it(
    what: dict[str, Any], symbol: str, given: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = _Driver()
    monkeypatch.setattr(cuda, "library_function", driver.of)
    assert len(cuda.encode(box_shape(what, {"n": 3}), 4096)) == 128
    assert (driver.symbol, driver.plain()) == (symbol, given)
    driver.code = 1
    with pytest.raises(LaunchError, match="refuses a tensor map"):
        cuda.encode(box_shape(what, {"n": 3}), 4096)


@pytest.mark.parametrize(
    "change",
    [
        {"box": (64, 1025)}, {"box": (264, 8)}, {"box": (64, 8, 1, 1)}, {"box": (32, 8), "swizzle": 32},
        {"walk": Walk((-129, 0), (0, 0), (1, 1))}, {"walk": Walk((0, 0), (128, 0), (1, 1))},
        {"walk": Walk((0, 0), (0, 0), (1, 9))}, {"walk": Walk((0, 0), (0, 0), (0, 1))},
        {"walk": Walk((3, 0), (-4, 0), (1, 1))}, {"walk": Walk((0,), (0,), (1,))},
        {"sizes": (64, 6), "strides": (128,), "walk": Walk((), (), ())}, {"strides": (128, 888, 8064)},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_driver_would_refuse(change: dict[str, Any]) -> None:
    shape = box_shape(PIXELS, {"n": 3})
    assert len(tensor_map_bytes(shape, 4096)) == 128
    with pytest.raises(LaunchError, match="no tensor map has"):
        tensor_map_bytes(dataclasses.replace(shape, **change), 4096)
