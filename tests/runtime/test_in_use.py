"""The library that serves a framework's calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtime_kernels import Maker

import tilewright
from tilewright.runtime.in_use import InUse
from tilewright.runtime.requests import Tensor


class Counting(InUse):
    def __init__(self) -> None:
        super().__init__("Arrays", ())
        self.cleared = 0

    def _clear(self) -> None:
        self.cleared += 1


def test_the_default_database_serves_until_another_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_DB", str(tmp_path / "default.db"))
    serving = Counting()
    assert serving.library.path == str(tmp_path / "default.db")
    with pytest.raises(tilewright.DatabaseError, match="there is no database at"):
        serving.use(tmp_path / "other.db")
    assert serving.library.path == str(tmp_path / "default.db")
    other = tilewright.Library(tmp_path / "other.db", missing_ok=True, watch=False)
    assert serving.use(other) is other is serving.library


def test_what_is_remembered_goes_whenever_kernels_change(tmp_path: Path) -> None:
    serving = Counting()
    library = serving.use(tilewright.Library(tmp_path / "t.db", missing_ok=True, watch=False))
    before = serving.generation
    library.refresh()
    assert (serving.cleared, serving.generation) == (2, before + 1)


def test_a_kernel_that_is_passed_over_for_a_dtype_is_told_once(maker: Maker) -> None:
    maker.matmul(3, 4, 5)
    serving = Counting()
    serving.use(tilewright.Library(maker.path, watch=False))
    wrong = [Tensor((3, 5), "int32"), Tensor((5, 4), "int32")]
    with pytest.warns(tilewright.MissedKernelWarning, match=r"^arrays.product: a kernel .* Arrays answers instead$"):
        serving.say_near("arrays.product", "matmul", wrong)
    serving.say_near("arrays.product", "matmul", wrong)
