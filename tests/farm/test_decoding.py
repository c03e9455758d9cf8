"""The decoder of messages: what it reads is what msgpack reads, and what it refuses costs nothing."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.farm.budgets import ASK, DEPTH, MESSAGE, Budget, OverBudget
from tilewright.farm.decoding import NoMessage, unpack

SMALL = Budget("SMALL", 4096, "bytes of a small message", "refused", values=40)

SCALAR = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.floats(width=32, allow_nan=False) | st.text(max_size=40) | st.binary(max_size=40)
)  # fmt: skip
ANY = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20),
    max_leaves=60,
)


def values_of(value: Any) -> int:
    """Keys and values, the outermost among them."""
    if isinstance(value, dict):
        return 1 + sum(1 + values_of(v) for v in value.values())
    return 1 + sum(map(values_of, value)) if isinstance(value, list) else 1


def levels_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels_of, inner), default=0)


def every_value(value: Any) -> list[Any]:
    inner = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value, *(v for i in inner for v in every_value(i))]


@given(st.dictionaries(st.text(max_size=3), ANY, max_size=20))
def test_what_is_within_the_budget_is_read_and_what_is_over_is_refused(message: dict[str, Any]) -> None:
    data = msgpack.packb(message)
    assert unpack(data) == message
    if values_of(message) <= SMALL.values and len(data) <= SMALL.most:
        assert unpack(data, SMALL) == message
    else:
        with pytest.raises(OverBudget, match=r"SMALL in tilewright/farm/budgets\.py"):
            unpack(data, SMALL)


BYTE = st.sampled_from([*range(0x80, 0x98), *range(0xA0, 0xA4), *range(0xC0, 0x100), 0x00, 0x01, 0x02, 0x61])


@given(st.lists(BYTE, max_size=60).map(bytes) | st.lists(BYTE, max_size=60).map(lambda b: b"\x81\xa1x" + bytes(b)))
def test_of_bytes_that_look_like_msgpack_the_decoder_reads_what_msgpack_reads(data: bytes) -> None:
    """And nothing that is over the budget, whatever the bytes promise."""
    try:
        found = unpack(data, SMALL)
    except NoMessage:
        assert not is_plain_map(data)
    except OverBudget:
        pass
    else:
        assert repr(found) == repr(msgpack.unpackb(data, raw=False))
        assert values_of(found) <= SMALL.values


def is_plain_map(data: bytes) -> bool:
    try:
        found = msgpack.unpackb(data, raw=False, strict_map_key=False)
    except (TypeError, ValueError, msgpack.exceptions.UnpackException):
        return False
    inner = every_value(found)
    return type(found) is dict and not any(
        isinstance(v, msgpack.ExtType | msgpack.Timestamp) or (type(v) is dict and not all(type(k) is str for k in v))
        for v in inner
    )


def test_levels_are_counted() -> None:
    value: Any = 1
    for _ in range(DEPTH.most - 1):
        value = {"a": value}
    assert levels_of(value) == DEPTH.most - 1
    assert unpack(msgpack.packb({"a": value}))
    with pytest.raises(OverBudget, match=r"levels of maps and lists in a message are over the limit of 64 .DEPTH in"):
        unpack(msgpack.packb({"a": {"a": value}}))


def head(form: int, entries: int) -> bytes:
    return bytes([form]) + entries.to_bytes(4, "big")


LONG = MESSAGE.most - 20
BOMBS = {
    "empty lists": b"\x81\xa1x" + head(0xDD, LONG) + b"\x90" * LONG,
    "empty maps": b"\x81\xa1x" + head(0xDD, LONG) + b"\x80" * LONG,
    "maps of one": b"\x81\xa1x" + head(0xDD, LONG // 3) + b"\x81\xa0\x01" * (LONG // 3),
    "numbers": b"\x81\xa1x" + head(0xDD, LONG // 5) + b"\xce\xff\xff\xff\xff" * (LONG // 5),
    "texts": b"\x81\xa1x" + head(0xDD, LONG // 3) + b"\xa2xy" * (LONG // 3),
    "keys": head(0xDF, LONG // 3) + b"\xa1x\x90" * (LONG // 3),
    "long lists in each other": b"\x81\xa1x" + head(0xDD, LONG // 10) * (LONG // 5),
    "long maps in each other": head(0xDF, LONG // 10) + (b"\xa0" + head(0xDF, LONG // 10)) * (LONG // 6),
    "pairs in each other": b"\x81\xa1x" + b"\x92" * LONG,
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_before_memory_is_taken_for_it(data: bytes) -> None:
    """At most what a message of as many bytes may cost, and for one of a question's size next to nothing."""
    assert len(data) <= MESSAGE.most
    for budget, most in ((Budget("JOB", MESSAGE.most, "bytes", "", 1 << 18), 1 << 20), (ASK, 1 << 16)):
        tracemalloc.start()
        try:
            with pytest.raises((NoMessage, OverBudget)):
                unpack(data, budget)
            assert tracemalloc.get_traced_memory()[1] < most
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("form", [b"\x90", b"\x80", b"\xa2xy", b"\x81\xa0\x01", b"\xce\xff\xff\xff\xff"], ids=repr)
def test_what_a_question_may_hold_takes_little_memory(form: bytes) -> None:
    each = 1 + 2 * (form[0] == 0x81)
    entries = min(ASK.values // each - 3, (ASK.most - 8) // len(form))
    data = b"\x81\xa1x" + head(0xDD, entries) + form * entries
    tracemalloc.start()
    try:
        assert len(unpack(data, ASK)["x"]) == entries
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
