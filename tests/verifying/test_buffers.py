from __future__ import annotations

import ctypes
import gc
import subprocess
import sys

import numpy as np
import pytest

from tilewright.verifying.buffers import PAGE, PLACES, GuardedArray


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((3, 5), "float32"), ((), "float64"), ((4096,), "int8"), ((64, 64), "float32")]
)
def test_holds_what_is_put_in_it(place: str, shape: tuple[int, ...], dtype: str) -> None:
    g = GuardedArray(shape, dtype, place)
    g.array[...] = 3
    assert g.array.shape == shape
    assert g.array.flags.c_contiguous
    assert g.address == g.array.ctypes.data
    assert (g.array == 3).all()
    assert not g.trespassed()


def test_guarded_arrays_lie_where_they_are_asked_to() -> None:
    end = GuardedArray((10,), "float32", "end")
    assert (end.address + 40) % PAGE == 0
    assert GuardedArray((10,), "float32", "start").address % PAGE == 0
    assert GuardedArray((10,), "float32", "odd").address % 64 == 4
    first, second = (GuardedArray((10,), "float32", "heap", 64, n) for n in (0, 1))
    assert first.address % 64 == second.address % 64 == 0
    assert first.address % PAGE != second.address % PAGE


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("align", [1, 16, 64, 256])
def test_alignment_is_honoured(place: str, align: int) -> None:
    for stagger in range(3):
        assert GuardedArray((7,), "float32", place, align, stagger).address % align == 0


def test_poison_is_nan_for_reals_and_no_small_number_for_others() -> None:
    for dtype in ("float16", "float32", "float64"):
        g = GuardedArray((5,), dtype)
        g.data.fill(0xFF)
        assert np.isnan(g.array).all()
    whole = GuardedArray((5,), "int64")
    whole.data.fill(0xA5)
    assert (np.abs(whole.array) > 1e6).all()


@pytest.mark.parametrize("offset", [-1, 0])
def test_stray_writes_next_to_the_array_show(offset: int) -> None:
    g = GuardedArray((10,), "uint8", "odd")
    at = offset if offset < 0 else 10
    ctypes.c_ubyte.from_address(g.address + at).value ^= 1
    assert g.trespassed()
    g.restore()
    assert not g.trespassed()


@pytest.mark.parametrize(
    ("place", "offset"), [("end", "g.data.size"), ("start", "-1"), ("odd", "(48 << 20)"), ("end", "-(48 << 20)")]
)
@pytest.mark.parametrize("access", ["p[0]", "p.__setitem__(0, 1)"])
def test_access_to_a_guard_page_kills(place: str, offset: str, access: str) -> None:
    code = (
        "import ctypes, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "from tilewright.verifying.buffers import GuardedArray\n"
        f"g = GuardedArray((5,), 'float32', {place!r})\n"
        f"p = ctypes.cast(g.address + {offset}, ctypes.POINTER(ctypes.c_char))\n"
        f"{access}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode in (-11, -10), done


def test_guards_are_eight_times_as_long_as_a_long_array() -> None:
    size = 100 << 20
    g = GuardedArray((size,), "uint8", "odd")
    assert g.zone[0] <= g.address - 8 * size
    assert g.zone[1] >= g.address + 9 * size


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited on Linux")
def test_guards_are_short_where_address_space_is_limited() -> None:
    code = (
        "import resource\n"
        "from tilewright.verifying.buffers import GUARD, LEAST_GUARD, GuardedArray\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + GUARD, used + GUARD))\n"
        "assert GuardedArray((5,), 'float32').guard == LEAST_GUARD\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_memory_stays_for_as_long_as_a_view_of_it() -> None:
    view = GuardedArray((3, 5), "float32").array[1:]
    gc.collect()
    view[...] = 2
    assert view.sum() == 20


def test_what_cannot_be_mapped_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match=r"no memory for an array of \d+ bytes"):
        GuardedArray((1 << 50,), "float64")


def test_timing_buffers_lie_like_numpys_own() -> None:
    # 16 bytes past a cache line, as the header of a malloc chunk leaves them.
    assert [GuardedArray((10,), "float32", "heap", 4, n).address % 64 for n in range(4)] == [16] * 4
