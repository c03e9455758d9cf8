"""Keys that sign bundles, revoked by a farm: where a reader gets the list, which lists it takes, and how long one counts."""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from harness.farm import SimulatedFarm
from tilewright.errors import UsageError
from tilewright.farm import following
from tilewright.farm.budgets import REVOKED, OverBudget
from tilewright.farm.errors import FarmError, Refused, Stale
from tilewright.farm.following import Followed
from tilewright.farm.pki import certificates, x509
from tilewright.farm.pki.certificates import create_authority, issue, listing, revocation_list, revoke
from tilewright.farm.pki.identity import key_serial, read_users
from tilewright.farm.pki.revocations import FRESH, Revocations

DAY = 86400
KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "farm"
    create_authority(folder, ["localhost"])
    return folder


@pytest.fixture
def farm(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A farm's certificates, and a machine of a reader's, both the test's own."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(made, tmp_path / "farm"))


@pytest.fixture
def file(farm: Path) -> Path:
    return farm / "ca" / "revoked.pem"


@contextmanager
def later(seconds: float = FRESH + 1) -> Iterator[None]:
    """As long after; over a minute unless given, so that whoever looks has the place asked first."""
    with pytest.MonkeyPatch.context() as patch:
        wall, steady = time.time, time.monotonic
        patch.setattr(time, "time", lambda: wall() + seconds)
        patch.setattr(time, "monotonic", lambda: steady() + seconds)
        yield


def number(farm: Path) -> int:
    found = revocation_list(farm)
    assert found is not None
    return found.number


# --------------------------------------------------------------------------- what the authority signs


def test_a_revoked_key_is_on_the_list_and_among_the_authoritys_certificates_but_no_servers_user(farm: Path) -> None:
    for _ in range(2):  # the second changes nothing
        (done,) = revoke(farm, bundle_key=KEY).certificates
        assert (done.role, done.serial) == ("author", key_serial(KEY))
    found = revocation_list(farm)
    assert found is not None
    assert found.serials == {key_serial(KEY)}
    (listed,) = [c for c in listing(farm) if c.role == "author"]
    assert listed.name == "ed25519-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert all(u.role != "author" for u in read_users(farm / "server" / "users.json"))
    assert revoke(farm, listed.name).certificates == [done]
    issue(farm, "more", "runner")
    both = revoke(farm, "more", bundle_key=OTHER)
    assert [c.role for c in both.certificates] == ["runner", "author"]
    assert {key_serial(KEY), key_serial(OTHER)} < revocation_list(farm).serials  # type: ignore[union-attr]
    pem = (farm / "ca" / "revoked.pem").read_bytes()
    assert x509.revocation_list_der(pem) == revocation_list(farm).der  # type: ignore[union-attr]


def test_a_list_lasts_as_long_as_it_is_told_and_the_next_as_long_as_that(farm: Path) -> None:
    revoke(farm, days=7)
    with later(8 * DAY):  # the first has ended
        assert revocation_list(farm) is None
        revoke(farm)
        found = revocation_list(farm)
    assert found is not None
    assert found.until == found.made + 7 * DAY


def test_what_has_ended_leaves_the_list_and_a_list_that_would_be_too_long_is_not_signed(
    farm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue(farm, "brief", "runner", days=1)
    serial = revoke(farm, "brief", bundle_key=KEY).certificates[0].serial
    for days, there in ((2.9, True), (3.1, False)):  # clocks that differ by a day, and a day's grace
        with later(days * DAY):
            revoke(farm)
            assert (serial in revocation_list(farm).serials) is there  # type: ignore[union-attr]
            assert key_serial(KEY) in revocation_list(farm).serials  # type: ignore[union-attr]
    monkeypatch.setattr(certificates, "REVOKED", replace(REVOKED, most=1))
    before = (farm / "ca" / "issued.json").read_bytes()
    with pytest.raises(OverBudget, match=r"3 revoked certificates .* over the limit of 1 \(REVOKED in"):
        revoke(farm, bundle_key=OTHER)
    assert (farm / "ca" / "issued.json").read_bytes() == before
    with pytest.raises(OverBudget, match="MESSAGE in"):
        Revocations(farm / "ca" / "ca.pem").take(bytes(9 << 20))


def test_a_clock_that_was_set_back_signs_no_older_list(farm: Path) -> None:
    with later(20 * DAY):
        revoke(farm)
        before = number(farm)
    revoke(farm)
    assert number(farm) > before


# --------------------------------------------------------------------------- places


def test_a_key_that_is_revoked_is_known_a_minute_later_from_a_file(farm: Path, file: Path) -> None:
    reader = Followed(str(file), farm / "reader")
    assert reader.revokes(KEY) == ""
    before = reader.stamp()
    revoke(farm, bundle_key=KEY)
    assert reader.revokes(KEY) == ""  # asked just now
    with later():
        assert reader.revokes(KEY) == f"list {number(farm)} of {file}"
        assert reader.revokes(OTHER) == ""
        assert reader.stamp() != before


def test_a_reader_in_use_asks_beside_its_work_before_a_minute_is_over(farm: Path, file: Path) -> None:
    reader = Followed(str(file), farm / "reader")
    reader.revokes(KEY)
    revoke(farm, bundle_key=KEY)
    with later(FRESH / 2 + 1):
        reader.revokes(KEY)  # it is not kept waiting
        assert reader._asking is not None
        reader._asking.join(30.0)
        assert reader.revokes(KEY)


def test_a_list_comes_from_a_farms_server(farm: Path, tmp_path: Path) -> None:
    with SimulatedFarm(tmp_path / "hub", [], certs=farm, heartbeat=0.5) as hub:
        place = hub.address.replace("127.0.0.1", "localhost")
        readers = [Followed(place, farm / role) for role in ("reader", "client")]
        assert [r.revokes(KEY) for r in readers] == ["", ""]
        revoke(farm, bundle_key=KEY)
        assert hub.hub is not None
        known = hub.hub.server.revocations
        assert known is not None
        hub.wait_for(lambda: known.number == number(farm))
        for reader in readers:  # no clock is set here: the server's keeper would look at it too
            assert reader.ask().number == number(farm)
            assert reader.revokes(KEY) == f"list {number(farm)} of {place}"
        shutil.copy(farm / "ca" / "ca.pem", tmp_path)
        with pytest.raises(FarmError, match="has no certificate for reader or client"):
            Followed(place, tmp_path).ask()
    with later(2 * FRESH + 2):  # the server is gone
        assert readers[0].revokes(KEY)
        assert readers[0].revokes(OTHER) == ""


@contextmanager
def served(file: Path) -> Iterator[str]:
    """The address of a web server that has the file as ``revoked.pem``, and something large."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = {"/revoked.pem": file.read_bytes(), "/large": b"0" * (8 << 20)}.get(self.path)
            self.send_response(200 if data else 404)
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_list_comes_from_a_url(farm: Path, file: Path) -> None:
    with served(file) as base:
        reader = Followed(f"{base}/revoked.pem", farm / "reader")
        revoke(farm, bundle_key=KEY)
        assert reader.revokes(KEY)
        with pytest.raises(FarmError, match=r"/nothing has no list of revoked certificates: .*404"):
            Followed(f"{base}/nothing", farm / "reader").ask()
        with pytest.raises(Refused, match=r"over the limit of \S+ \(MESSAGE in"):
            Followed(f"{base}/large", farm / "reader").ask()
    with pytest.raises(FarmError, match="has no list"):
        reader.ask()


def test_asking_imports_nothing_that_a_fork_could_find_half_imported(farm: Path, file: Path, tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from tilewright.farm.following import Followed

for place in sys.argv[2:]:
    reader = Followed(place, Path(sys.argv[1]))
    before = set(sys.modules)
    reader.ask()
    assert set(sys.modules) == before, (place, sorted(set(sys.modules) - before))
"""
    with SimulatedFarm(tmp_path / "hub", [], certs=farm) as hub, served(file) as base:
        places = (str(file), f"{base}/revoked.pem", hub.address.replace("127.0.0.1", "localhost"))
        done = subprocess.run(
            [sys.executable, "-c", program, str(farm / "reader"), *places], capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr


def test_places_and_folders_that_are_none_say_so(farm: Path, tmp_path: Path) -> None:
    for place, kind, said in (
        ("ftp://example.org/revoked.pem", UsageError, "is no place of a list. Use tls://HOST:PORT"),
        ("tcp://127.0.0.1:8786", UsageError, "is no place of a list"),
        ("http://[", FarmError, "has no list"),
        (str(tmp_path / "nothing"), FarmError, "No such file"),
        (str(tmp_path), FarmError, "Is a directory"),
    ):
        with pytest.raises(kind, match=said):
            Followed(place, farm / "reader").ask()
    with pytest.raises(FarmError, match=r"has no ca\.pem"):
        Followed("place", tmp_path)


# --------------------------------------------------------------------------- lists that are refused


def test_replayed_foreign_and_damaged_lists_change_nothing_and_the_log_says_why(
    farm: Path, file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = file.read_bytes()
    create_authority(tmp_path / "foreign")
    revoke(tmp_path / "foreign")
    revoke(farm, bundle_key=KEY)
    good = file.read_bytes()
    der, rng = bytearray(x509.revocation_list_der(good)), random.Random(1)
    der[rng.randrange(len(der) // 2)] ^= 1
    reader = Followed(str(file), farm / "reader")
    assert reader.revokes(KEY)
    foreign = (tmp_path / "foreign" / "ca" / "revoked.pem").read_bytes()
    for n, (data, said) in enumerate((
        (old, "was refused: list"), (foreign, "not signed by this farm's authority"),
        (bytes(der), "not signed by"), (b"", "not signed by"), (b"-----BEGIN X509 CRL-----", "not signed by"),
        ((farm / "server" / "users.json").read_bytes(), "not signed by"),
    )):  # fmt: skip
        caplog.clear()
        file.write_bytes(data)
        with later((n + 1) * (FRESH + 1)):
            assert reader.revokes(KEY) == f"list {number(farm)} of {file}"
        assert said in reader.revocations.trouble
        assert len(caplog.records) <= 1
    file.write_bytes(good)
    with later(8 * (FRESH + 1)):
        assert reader.revokes(KEY)
    assert reader.revocations.trouble == ""


def test_a_later_process_refuses_a_list_that_an_earlier_one_knew_to_be_old(farm: Path, file: Path) -> None:
    old = file.read_bytes()
    revoke(farm, bundle_key=KEY)
    assert Followed(str(file), farm / "reader").revokes(KEY)
    file.write_bytes(old)
    for _ in range(2):
        assert Followed(str(file), farm / "reader").revokes(KEY)
    with pytest.raises(Stale, match="is known here"):
        Followed(str(file), farm / "reader").ask()


def test_of_processes_that_take_lists_in_every_order_none_goes_back(farm: Path, tmp_path: Path) -> None:
    lists = []
    for n in range(6):
        revoke(farm, bundle_key=bytes([n]) * 32)
        lists.append(revocation_list(farm))
    failed: list[str] = []

    def take(seed: int) -> None:
        reader, rng, known = Revocations(farm / "ca" / "ca.pem"), random.Random(seed), 0
        reader.remember(tmp_path / "memory")
        for found in rng.choices(lists, k=12):
            assert found is not None
            with suppress(Stale):
                reader.take(found.der)
            left = Revocations(farm / "ca" / "ca.pem")
            left.remember(tmp_path / "memory")
            if not max(known, found.number) <= reader.number <= left.number:
                failed.append(f"{known} {found.number} {reader.number} {left.number}")
            known = left.number

    threads = [threading.Thread(target=take, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failed == []


def test_a_list_that_has_ended_still_says_which_ones_are_older(farm: Path, file: Path) -> None:
    old = file.read_bytes()  # for a year
    revoke(farm, bundle_key=KEY, days=1)
    assert Followed(str(file), farm / "reader").revokes(KEY)
    file.write_bytes(old)
    with later(2 * DAY):
        reader = Followed(str(file), farm / "reader")
        assert reader.revokes(KEY)
        with pytest.raises(Stale, match="ended on"):
            reader.revokes(OTHER)


# --------------------------------------------------------------------------- without the place


def test_without_its_place_a_list_counts_until_it_ends_and_the_log_says_so_once(
    farm: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    revoke(farm, days=7)
    reader = Followed(str(file), farm / "reader")
    assert reader.revokes(KEY) == ""
    data = file.read_bytes()
    file.unlink()
    for hours in (1, 24, 6 * 24):
        with later(hours * 3600):
            assert reader.revokes(KEY) == ""
            before = reader.stamp()
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert f"list {number(farm)} of revoked certificates stays in force: {file}: No such file" in record.getMessage()
    with later(8 * DAY):
        assert reader.stamp() != before
        with pytest.raises(Stale, match=r"ended on .*farm revoke --dir DIR"):
            reader.revokes(KEY)
        file.write_bytes(data)
        revoke(farm)
    with later(8 * DAY + FRESH + 1):
        assert reader.revokes(KEY) == ""


def test_before_any_list_has_come_no_key_counts(farm: Path, file: Path) -> None:
    data = file.read_bytes()
    file.unlink()
    reader = Followed(str(file), farm / "reader")
    with pytest.raises(
        Stale, match=r"has no list of revoked certificates: .*No such file.* Tilewright asks again within a minute"
    ):
        reader.revokes(KEY)
    file.write_bytes(data)
    with later():
        assert reader.revokes(KEY) == ""


def test_a_place_that_never_answers_is_waited_for_once_a_minute(
    farm: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Followed(str(file), farm / "reader")
    reader.revokes(KEY)
    asked, go_on = [], threading.Event()

    def ask() -> None:
        asked.append(1)
        assert go_on.wait(60.0)

    monkeypatch.setattr(following, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(reader, "ask", ask)
    with later():
        for _ in range(3):
            assert reader.revokes(KEY) == ""
    assert len(asked) == 1
    go_on.set()
    assert reader._asking is not None
    reader._asking.join()


def test_a_child_that_is_forked_while_the_place_is_asked_asks_by_itself(
    farm: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, go_on = Followed(str(file), farm / "reader"), threading.Event()
    reader.revokes(KEY)
    revoke(farm, bundle_key=KEY)
    ask = reader.ask
    monkeypatch.setattr(following, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(reader, "ask", lambda: go_on.wait(60.0))
    with later():
        assert reader.revokes(KEY) == ""
    child = os.fork()
    if child == 0:
        try:
            monkeypatch.setattr(following, "ANSWER_SECONDS", 60.0)
            monkeypatch.setattr(reader, "ask", ask)
            with later(3 * FRESH):
                os._exit(not reader.revokes(KEY))
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    go_on.set()
    assert reader._asking is not None
    reader._asking.join()
