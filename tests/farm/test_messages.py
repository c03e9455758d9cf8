"""Messages: what is sealed opens to the same, only for its subject and of its sender; nothing that is sent can run."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.farm import budgets
from tilewright.farm.addresses import is_loopback, parse_address
from tilewright.farm.budgets import OverBudget
from tilewright.farm.decoding import NoMessage, unpack
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.messages import Seal, pack
from tilewright.farm.pki.certificates import create_authority
from tilewright.farm.pki.identity import USERS
from tilewright.farm.pki.tls import find_credentials

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
BODY = st.dictionaries(st.text(), PLAIN, max_size=4)
SUBJECT = "result.client.0.1"


@pytest.fixture(scope="module")
def seal_of(certs: Path) -> Callable[[str], Seal]:
    """Seals of each role, which know who is revoked."""
    seals: dict[str, Seal] = {}

    def of(role: str) -> Seal:
        if role not in seals:
            seals[role] = Seal(find_credentials(certs, role))
            revocations = seals[role].revocations
            assert revocations is not None
            revocations.take_file(certs / "server" / USERS)
            revocations.confirm(float("inf"))
        return seals[role]

    return of


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another farm's certificates, with the same names."""
    folder = tmp_path_factory.mktemp("foreign") / "farm"
    create_authority(folder, ["localhost"], 30)
    return folder


# --------------------------------------------------------------------------- plain values


@given(BODY)
def test_plain_values_arrive_as_they_were(values: dict[str, Any]) -> None:
    assert unpack(pack(values)) == values


class Trap:
    """Unpickled, it makes a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def deep(levels: int, kind: str = "list") -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"a": value}
    return value


BAD = {
    "nothing": b"",
    "reserved": b"\xc1",
    "list": msgpack.packb([1, 2]),
    "number": msgpack.packb(7),
    "number as a key": msgpack.packb({1: 2}),
    "bytes as a key": msgpack.packb({b"x": 2}),
    "number as a key inside": msgpack.packb({"x": {1: 2}}),
    "list as a key": b"\x81\x91\x01\x01",
    "extension": msgpack.packb({"x": msgpack.ExtType(42, pickle.dumps(Trap("/nonexistent/sprung")))}),
    "timestamp": msgpack.packb({"x": [msgpack.Timestamp(1, 2)]}),
    "pickle": pickle.dumps({"x": Trap("/nonexistent/sprung")}),
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "two": msgpack.packb({"x": 1}) * 2,
    "half": msgpack.packb({"x": "y" * 100})[:50],
    "no text": b"\x81\xa1x\xa2\xff\xfe",
    "deep": msgpack.packb({"x": deep(70)}),
    "deep maps": msgpack.packb({"x": deep(70, "map")}),
    "deeper": b"\x91" * 5000 + b"\x01",
    "deepest": b"\x81\xa1x" + b"\x91" * 1_000_000,
    "four billion entries": b"\xdf\xff\xff\xff\xff",
    "four billion items": b"\x81\xa1x\xdd\xff\xff\xff\xff",
    "four gigabytes": b"\x81\xa1x\xc6\xff\xff\xff\xff",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_anything_else_is_no_message(data: bytes) -> None:
    with pytest.raises((NoMessage, OverBudget)):
        unpack(data)


def test_a_pickle_in_a_message_stays_bytes(tmp_path: Path) -> None:
    bomb = pickle.dumps(Trap(str(tmp_path / "sprung")))
    assert unpack(pack({"x": bomb})) == {"x": bomb}
    assert not (tmp_path / "sprung").exists()


@given(st.binary(max_size=200))
def test_noise_raises_nothing_but_no_message(data: bytes) -> None:
    with contextlib.suppress(NoMessage, OverBudget):
        unpack(data)
    with contextlib.suppress(NoMessage, OverBudget):
        Seal(None).open(SUBJECT, data, ("client",))


def test_what_is_nested_as_deep_as_allowed_passes() -> None:
    assert unpack(pack({"x": deep(62)})) == {"x": deep(62)}


def test_a_message_over_the_limit_is_not_sent() -> None:
    with pytest.raises(OverBudget, match="over the limit"):
        pack({"data": bytes(budgets.MESSAGE.most)})


# --------------------------------------------------------------------------- seals


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(body=BODY, subject=st.text(st.characters(codec="ascii", exclude_characters="\0 "), min_size=1))
def test_what_is_sealed_opens_to_the_same(body: dict[str, Any], subject: str, seal_of: Callable[[str], Seal]) -> None:
    found, peer = seal_of("client").open(subject, seal_of("runner").seal(subject, body), ("runner",))
    assert found == body
    assert peer is not None
    assert (peer.role, peer.name) == ("runner", "runner")
    assert Seal(None).open(subject, Seal(None).seal(subject, body), ("runner",)) == (body, None)


@pytest.mark.parametrize(
    "subject", ["result.client.0.2", "result.client.0.", "result.client.0.1.x", "", "art.x", SUBJECT.upper()]
)
def test_a_message_is_for_one_subject(subject: str, seal_of: Callable[[str], Seal]) -> None:
    with pytest.raises(Refused, match="for another subject"):
        seal_of("client").open(subject, seal_of("runner").seal(SUBJECT, {"x": 1}), ("runner",))


def test_the_end_of_a_subject_is_not_the_beginning_of_a_message(seal_of: Callable[[str], Seal]) -> None:
    """What is signed says where the one ends and the other begins."""
    outer = unpack(seal_of("runner").seal("jobs.a", {"x": 1}))
    outer["body"] = b"b\0" + outer["body"]
    for subject in ("jobs.a", "jobs.", "jobs.ab"):
        with pytest.raises((Refused, NoMessage)):
            seal_of("client").open(subject, pack(outer), ("runner",))


@pytest.mark.parametrize("role", ["server", "administrator", "client", "builder", "reader"])
def test_another_role_is_not_heard(role: str, seal_of: Callable[[str], Seal]) -> None:
    with pytest.raises(Refused, match=f"a message of {role} {role}, where only a runner may speak"):
        seal_of("client").open(SUBJECT, seal_of(role).seal(SUBJECT, {"x": 1}), ("runner",))


def test_another_farm_is_not_heard(seal_of: Callable[[str], Seal], foreign: Path) -> None:
    theirs = Seal(find_credentials(foreign, "runner"))
    with pytest.raises(Refused, match="another authority"):
        seal_of("client").open(SUBJECT, theirs.seal(SUBJECT, {"x": 1}), ("runner",))


def test_a_borrowed_certificate_does_not_sign(seal_of: Callable[[str], Seal], foreign: Path) -> None:
    """Certificates are no secret: each message carries one."""
    stolen = unpack(seal_of("runner").seal(SUBJECT, {"x": 1}))["from"]
    for thief in (seal_of("client"), Seal(find_credentials(foreign, "runner"))):
        outer = {**unpack(thief.seal(SUBJECT, {"x": 1})), "from": stolen}
        with pytest.raises(Refused, match="forged"):
            seal_of("client").open(SUBJECT, pack(outer), ("runner",))


def change(**more: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda outer: {k: v for k, v in {**outer, **more}.items() if v is not None}


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        (change(body=pack({"x": 2})), Refused, "forged"),
        (change(signature=b""), Refused, "forged"),
        (change(signature=bytes(72)), Refused, "forged"),
        (lambda o: {**o, "signature": o["signature"][:-1]}, Refused, "forged"),
        (lambda o: {**o, "signature": o["signature"] + b"\0"}, Refused, "forged"),
        (change(signature="text"), Refused, "without a signature"),
        (change(signature=None), Refused, "without a signature"),
        (change(**{"from": None}), Refused, "without a signature"),
        (change(**{"from": None}, signature=None), Refused, "without a signature"),
        (change(**{"from": b"no certificate"}), Refused, "certificate cannot be read"),
        (change(**{"from": b""}), Refused, "certificate cannot be read"),
        (change(**{"from": {"role": "runner"}}), Refused, "without a signature"),
        (change(body=None), NoMessage, "nothing in it"),
        (change(body={"x": 1}), NoMessage, "nothing in it"),
    ],
)
def test_what_was_altered_is_refused(
    changed: Callable[[dict[str, Any]], dict[str, Any]], error: type[FarmError], said: str,
    seal_of: Callable[[str], Seal],
) -> None:  # fmt: skip
    outer = unpack(seal_of("runner").seal(SUBJECT, {"x": 1}))
    with pytest.raises(error, match=said):
        seal_of("client").open(SUBJECT, pack(changed(outer)), ("runner",))


def test_what_is_signed_must_be_a_message_too(seal_of: Callable[[str], Seal], certs: Path) -> None:
    from tilewright.farm.messages import _signed
    from tilewright.farm.pki import x509

    own = unpack(seal_of("runner").seal(SUBJECT, {}))["from"]
    key = x509.load_key((certs / "runner" / "key.pem").read_bytes())
    for content in BAD.values():
        data = pack({"body": content, "from": own, "signature": x509.sign(key, _signed(SUBJECT, content))})
        with pytest.raises((NoMessage, OverBudget)):
            seal_of("client").open(SUBJECT, data, ("runner",))


def test_nothing_is_read_before_its_signature_is_known_to_be_right(
    seal_of: Callable[[str], Seal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is forged, only the wrapping is read: three byte strings."""
    read: list[bytes] = []

    def reading(data: bytes, *budget: Any) -> dict[str, Any]:
        read.append(data)
        return unpack(data, *budget)

    sealed = seal_of("runner").seal(SUBJECT, {"x": 1})
    outer = unpack(sealed)
    monkeypatch.setattr("tilewright.farm.messages.unpack", reading)
    assert seal_of("client").open(SUBJECT, sealed, ("runner",))[0] == {"x": 1}
    assert read.pop() == outer["body"]
    read.clear()
    forged = [{**outer, "signature": bytes(64)}, {**outer, "body": pack({"x": 2})}, {"body": outer["body"]}]
    for n, wrong in enumerate(forged, 1):
        with pytest.raises(Refused):
            seal_of("client").open(SUBJECT, pack(wrong), ("runner",))
        assert read == [pack(w) for w in forged[:n]]


@pytest.mark.parametrize(
    ("subject", "budget"),
    [
        ("cancel.client.s", budgets.CANCEL), ("ask.client.client", budgets.ASK), ("tell.client.client", budgets.ASK),
        ("ctl.runner.runner.x", budgets.ASK), ("jobs.x.client.0.1", budgets.JOB), (SUBJECT, budgets.RESULT),
    ],
)  # fmt: skip
def test_a_message_has_the_size_of_its_subject(
    subject: str, budget: budgets.Budget, seal_of: Callable[[str], Seal]
) -> None:
    body = {"x": bytes(budget.most - 8)}
    for seals in (seal_of("client"), Seal(None)):
        sealed = seals.seal(subject, body)
        assert seals.open(subject, sealed, ("client",))[0] == body
        with pytest.raises(OverBudget, match=f"over the limit of {budget.most:,} .{budget.name} in"):
            seals.seal(subject, {"x": bytes(budget.most)})
        answer = seals.seal(subject, {"x": bytes(budget.most)}, budgets.MESSAGE)
        with pytest.raises(OverBudget, match=f"over the limit of {budget.most:,} .{budget.name} in"):
            seals.open(subject, answer, ("client",))
        assert seals.open(subject, answer, ("client",), budgets.MESSAGE)[0] == {"x": bytes(budget.most)}


def test_in_the_clear_nobody_is_known_and_in_a_farm_with_certificates_the_clear_is_refused(
    seal_of: Callable[[str], Seal],
) -> None:
    clear = Seal(None).seal(SUBJECT, {"x": 1})
    assert Seal(None).open("any.other", clear, ()) == ({"x": 1}, None)
    with pytest.raises(Refused, match="without a signature"):
        seal_of("client").open(SUBJECT, clear, ("runner",))


def test_a_seal_that_takes_the_files_of_two_certificates_forges_nothing(
    certs: Path, seal_of: Callable[[str], Seal]
) -> None:
    runner, client = find_credentials(certs, "runner"), find_credentials(certs, "client")
    mixed = Seal(replace(client, cert=runner.cert))
    with pytest.raises(Refused, match="forged"):
        seal_of("client").open(SUBJECT, mixed.seal(SUBJECT, {"x": 1}), ("runner",))


# --------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("tls://farm.example.org:9000", ("tls", [("farm.example.org", 9000)])),
        ("farm:9000", ("tls", [("farm", 9000)])),
        ("tls://farm", ("tls", [("farm", 8786)])),
        ("tcp://[::1]:80", ("tcp", [("::1", 80)])),
        ("tls://a:1,b,[::1]:3", ("tls", [("a", 1), ("b", 8786), ("::1", 3)])),
    ],
)
def test_addresses_of_farms_are_read(text: str, parts: tuple[str, list[tuple[str, int]]]) -> None:
    assert parse_address(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://x:1",
        "tls://x:port",
        "tls://:5",
        "tls://x:99999",
        "tls://x:",
        "tls://a@x:1",
        "tls://x:1/y",
        "tls://a,",
    ],
)
def test_wrong_addresses_are_named(text: str) -> None:
    with pytest.raises(FarmError, match="not a farm address"):
        parse_address(text)


def test_loopback_addresses_are_known() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("farm.example.org")
