"""Where builtins read an interpreter's objects, and where they must not."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from runtime_kernels import Maker, random

from tilewright.runtime import Library, pycall


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a process that has made no builtins yet."""
    monkeypatch.setattr(pycall, "_made", [])
    pycall.offsets.cache_clear()
    yield
    pycall.offsets.cache_clear()


def test_finds_every_field() -> None:
    found = pycall.offsets()
    assert found is not None
    assert set(found) == set(pycall._OFFSETS)
    a = random(5, 3)[1:]

    def word(o: object, name: str, kind: type[ctypes._SimpleCData[int]]) -> int:
        return int(kind.from_address(id(o) + found[name]).value)

    assert word(a, "type", ctypes.c_size_t) == id(np.ndarray)
    assert word(a, "data", ctypes.c_size_t) == a.ctypes.data
    assert word(a, "nd", ctypes.c_int) == 2
    assert word(a, "descr", ctypes.c_size_t) == id(a.dtype)
    assert word(a, "flags", ctypes.c_int) == a.flags.num
    shape = (ctypes.c_ssize_t * 2).from_address(word(a, "dimensions", ctypes.c_size_t))
    assert tuple(shape) == (4, 3)
    assert word(a.dtype, "type_num", ctypes.c_int) == a.dtype.num


def works_without_builtins(maker: Maker) -> bool:
    maker.matmul(4, 4, 4)
    library = Library(maker.path)
    a = random(4, 4)
    plan = library.plan("matmul", m=4, n=4, k=4)
    for call in (plan, library.matmul):
        np.testing.assert_allclose(call(a, a), a @ a, rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match="is None"):
        plan(a, None)
    assert library.stats().tiers["exact"] == 2
    return not inspect.isbuiltin(plan) and not inspect.isbuiltin(library.matmul)


def test_another_interpreter_takes_the_slower_call(fresh: None, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pycall, "_interpreter", lambda: "pypy")
    assert works_without_builtins(maker)


def test_a_free_threaded_build(fresh: None, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "abiflags", "t")
    assert works_without_builtins(maker)


def test_fields_that_cannot_be_found(fresh: None, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> int:
        raise LookupError("0 places fit")

    monkeypatch.setattr(pycall, "_where", lost)
    assert works_without_builtins(maker)


def test_flags_that_mean_something_else(fresh: None, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pycall, "_flag_bits", lambda: None)
    assert works_without_builtins(maker)


def test_an_artifact_with_another_version(fresh: None, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pycall, "VERSION", 99)
    assert works_without_builtins(maker)


def test_builtins_where_all_is_as_expected(fresh: None, maker: Maker) -> None:
    assert not works_without_builtins(maker)


def test_a_value_in_two_places_is_not_trusted() -> None:
    a = np.zeros(3, np.uint8)
    with pytest.raises(LookupError, match=r"[2-9]\d* places fit"):
        pycall._where([(a, np.ndarray.__basicsize__, 0)], "b")
    with pytest.raises(LookupError, match="0 places fit"):
        pycall._where([(a, np.ndarray.__basicsize__, id(object()) + 1)], "P")
