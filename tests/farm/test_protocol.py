"""Messages: what fits, what is refused, and that nothing that is sent can run."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.protocol import (
    LIMIT,
    LinkClosed,
    check_versions,
    is_loopback,
    pack,
    parse_address,
    unpack,
    versions,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), PLAIN, max_size=4))
def test_plain_values_arrive_as_they_were(values: dict[str, Any]) -> None:
    message = {**values, "op": "x"}
    assert unpack(pack(message)[4:]) == message


class Evil:
    def __reduce__(self) -> Any:
        return print, ("this must never run",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgpack.packb([1, 2]),
        msgpack.packb({"no": "op"}),
        msgpack.packb({"op": 5}),
        msgpack.packb({1: 2, "op": "x"}),
        msgpack.packb({"op": msgpack.ExtType(42, pickle.dumps(Evil()))}),
        pickle.dumps({"op": "x", "evil": Evil()}),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x91" * 5000 + b"\x01",
        b"\xdf\xff\xff\xff\xff",
    ],
)
def test_anything_else_is_no_message(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LinkClosed):
        unpack(data)
    assert capsys.readouterr().out == ""


@given(st.binary(max_size=200))
def test_noise_never_raises_anything_but_link_closed(data: bytes) -> None:
    with contextlib.suppress(LinkClosed):
        unpack(data)


def test_a_message_over_the_limit_is_not_sent() -> None:
    with pytest.raises(LinkClosed, match="over the limit"):
        pack({"op": "x", "data": bytes(LIMIT)})


@pytest.mark.parametrize("name", ["protocol", "tilewright", "python"])
def test_other_versions_are_refused_naming_both(name: str) -> None:
    check_versions(versions(), "runner")
    with pytest.raises(Refused) as e:
        check_versions({**versions(), name: "9.9"}, "runner")
    assert "9.9" in e.value.message
    assert str(versions()[name]) in e.value.message
    assert e.value.mend


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("tls://farm.example.org:9000", ("tls", "farm.example.org", 9000)),
        ("farm:9000", ("tls", "farm", 9000)),
        ("tls://farm", ("tls", "farm", 8786)),
        ("tcp://[::1]:80", ("tcp", "::1", 80)),
    ],
)
def test_addresses(text: str, parts: tuple[str, str, int]) -> None:
    assert parse_address(text) == parts


@pytest.mark.parametrize("text", ["", "http://x:1", "tls://x:0", "tls://x:port", "tls://:5", "tls://x:99999"])
def test_wrong_addresses_are_named(text: str) -> None:
    with pytest.raises(FarmError, match="no farm address"):
        parse_address(text)


def test_loopback() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("farm.example.org")
