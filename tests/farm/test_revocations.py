"""Who is revoked: the list that the authority signs, which lists a reader takes, and how long one counts."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.x509 import load_der_x509_crl

from tilewright.errors import TilewrightError
from tilewright.farm.errors import FarmError, Refused, Stale
from tilewright.farm.messages import Seal
from tilewright.farm.pki import x509
from tilewright.farm.pki.certificates import create_authority, issue, read, revocation_list, revoke
from tilewright.farm.pki.identity import USERS, Peer
from tilewright.farm.pki.revocations import FRESH, RevocationList, Revocations
from tilewright.farm.pki.tls import find_credentials

DAY = 86400


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "farm"
    create_authority(folder)
    issue(folder, "gone", "builder")
    issue(folder, "other", "builder")
    return folder


@pytest.fixture
def farm(made: Path, tmp_path: Path) -> Path:
    """A farm of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "farm"))


@pytest.fixture
def known(farm: Path) -> Revocations:
    """What a process knows that has just heard the farm's first list."""
    found = Revocations(farm / "runner" / "ca.pem")
    found.take(listed(farm).der)
    found.confirm(time.monotonic())
    return found


def listed(farm: Path) -> RevocationList:
    found = revocation_list(farm)
    assert found is not None
    return found


def peer(farm: Path, name: str) -> Peer:
    return read(farm / name / "cert.pem")


@contextmanager
def clocks_ahead(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        wall, steady = time.time, time.monotonic
        patch.setattr(time, "time", lambda: wall() + seconds)
        patch.setattr(time, "monotonic", lambda: steady() + seconds)
        yield


def signed(farm: Path, number: int, *, begin: float = 0.0, end: float = 3600.0, by: Path | None = None) -> bytes:
    """A list of the authority's, as of ``begin`` to ``end`` seconds from now; ``by``: another farm's."""
    home = (by or farm) / "ca"
    pair = x509.load_certificate((home / "ca.pem").read_bytes()), x509.load_key((home / "ca.key").read_bytes())
    now = int(time.time())
    return x509.revocation_list_der(x509.make_revocation_list({}, number, now + int(begin), now + int(end), pair))


# --------------------------------------------------------------------------- what the authority signs


def test_a_new_farm_has_a_list_of_nobody_for_a_year(farm: Path) -> None:
    found = listed(farm)
    assert found.serials == frozenset()
    assert abs(found.made - time.time()) < 3600
    assert found.until == found.made + 365 * DAY
    for home in ("ca", "server"):
        assert json.loads((farm / home / USERS).read_text())["revoked"].startswith("-----BEGIN X509 CRL-----")


def test_the_list_has_who_is_revoked_and_a_greater_number_each_time(farm: Path) -> None:
    numbers = [listed(farm).number]
    for name in ("gone", "client", "gone"):  # the last changes nothing, and is signed all the same
        revoke(farm, name)
        numbers.append(listed(farm).number)
    revoke(farm)
    numbers.append(listed(farm).number)
    assert numbers == sorted(set(numbers))
    assert listed(farm).serials == {peer(farm, "gone").serial, peer(farm, "client").serial}
    assert (farm / "ca" / USERS).read_bytes() == (farm / "server" / USERS).read_bytes()


def test_issuing_signs_no_other_list_the_same_day_and_one_the_next(farm: Path) -> None:
    revoke(farm, "gone")
    first = listed(farm)
    issue(farm, "more", "runner")
    assert listed(farm) == first
    with clocks_ahead(2 * DAY):
        issue(farm, "yet-more", "runner")
        found = listed(farm)
    assert found.serials == first.serials
    assert found.number > first.number
    assert found.until > first.until


def test_an_authority_restored_from_a_backup_signs_lists_above_its_earlier_ones(farm: Path, tmp_path: Path) -> None:
    shutil.copytree(farm / "ca", tmp_path / "backup")
    revoke(farm, "gone")
    before = listed(farm).number
    shutil.rmtree(farm / "ca")
    shutil.copytree(tmp_path / "backup", farm / "ca")
    with clocks_ahead(5):
        revoke(farm, "other")
    assert listed(farm).number > before


def test_an_authority_whose_users_file_is_lost_or_damaged_signs_another_list(farm: Path) -> None:
    revoke(farm, "gone")
    before = listed(farm)
    for text in (None, "{", '{"version": 1, "users": [], "revoked": "none"}', '{"version": 1, "users": []}'):
        (farm / "ca" / USERS).unlink() if text is None else (farm / "ca" / USERS).write_text(text)
        with clocks_ahead(5):
            revoke(farm)
            assert listed(farm).serials == before.serials
            assert listed(farm).number > before.number


def test_no_list_outlasts_the_authority(farm: Path) -> None:
    with clocks_ahead(3600 * DAY):
        revoke(farm)
        end = x509.read_certificate(farm / "ca" / "ca.pem").not_valid_after_utc.timestamp()
        assert listed(farm).until == end


def test_openssl_reads_the_list_and_finds_the_authoritys_signature(farm: Path, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    revoke(farm, "gone")
    crl = tmp_path / "crl.pem"
    crl.write_text(json.loads((farm / "server" / USERS).read_text())["revoked"])
    done = subprocess.run(
        ["openssl", "crl", "-in", crl, "-CAfile", farm / "ca" / "ca.pem", "-text", "-noout"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "verify OK" in done.stderr
    assert f"{peer(farm, 'gone').serial:X}" in done.stdout
    chain = ["openssl", "verify", "-x509_strict", "-crl_check", "-CAfile", farm / "ca" / "ca.pem", "-CRLfile", crl]
    for name, said in (("gone", "certificate revoked"), ("other", "OK")):
        done = subprocess.run(
            [*chain, farm / name / "cert.pem"], capture_output=True, text=True, timeout=60, check=False
        )
        assert said in done.stdout + done.stderr


# --------------------------------------------------------------------------- which lists a reader takes


def test_a_revoked_certificate_is_refused_and_no_other(farm: Path, known: Revocations) -> None:
    for name in ("gone", "other"):
        known.check(peer(farm, name))
    revoke(farm, "gone")
    assert known.take(listed(farm).der)
    with pytest.raises(
        Refused, match=r"the certificate of builder gone \(serial [0-9a-f]+\) is revoked. Issue another"
    ):
        known.check(peer(farm, "gone"))
    known.check(peer(farm, "other"))


def test_the_certificate_that_replaces_a_revoked_one_is_good(farm: Path, known: Revocations) -> None:
    old = peer(farm, "gone")
    revoke(farm, "gone")
    issue(farm, "gone", renew=True)
    known.take(listed(farm).der)
    known.check(peer(farm, "gone"))
    with pytest.raises(Refused, match="is revoked"):
        known.check(old)


def test_older_lists_are_refused_in_every_order(farm: Path, known: Revocations) -> None:
    lists = [listed(farm)]
    for name in ("gone", "other", "client"):
        revoke(farm, name)
        lists.append(listed(farm))
    rng = random.Random(1)
    for _ in range(20):
        reader = Revocations(farm / "ca" / "ca.pem")
        order = rng.choices(lists, k=8)
        for n, found in enumerate(order):
            newest = max(x.number for x in order[:n]) if n else 0
            if found.number > newest:
                assert reader.take(found.der)
            elif found.number == newest:
                assert not reader.take(found.der)
            else:
                with pytest.raises(Stale, match=f"list {found.number} of revoked .* list {newest} .* is known here"):
                    reader.take(found.der)
            assert reader.newest == max((*order[:n], found), key=lambda x: x.number)


def test_another_list_of_the_same_number_is_refused(farm: Path, known: Revocations) -> None:
    with pytest.raises(Stale, match="is known here"):
        known.take(signed(farm, known.number))


def test_a_list_of_another_authority_is_refused(farm: Path, known: Revocations, tmp_path: Path) -> None:
    create_authority(tmp_path / "foreign")
    before = known.newest
    renamed = tmp_path / "renamed"  # its certificate has the same name, and another key
    shutil.copytree(tmp_path / "foreign", renamed)
    shutil.copy(farm / "ca" / "ca.pem", renamed / "ca" / "ca.pem")
    for der in (listed(tmp_path / "foreign").der, signed(farm, known.number + 1, by=renamed)):
        with pytest.raises(Refused, match="not signed by this farm's authority"):
            known.take(der)
    assert known.newest is before


def test_a_list_that_was_tampered_with_raises_nothing_but_refused_and_changes_nothing(
    farm: Path, known: Revocations
) -> None:
    revoke(farm, "gone")
    good, rng, before = listed(farm).der, random.Random(2), known.newest
    signed_part = load_der_x509_crl(good).tbs_certlist_bytes
    begin = good.index(signed_part)
    for n in range(400):
        bad = bytearray(good)
        if n < len(good) // 8:
            bad = bad[: n * 8]
        else:
            bad[begin + rng.randrange(len(signed_part))] ^= 1 << rng.randrange(8)
        with pytest.raises((Refused, Stale)):
            known.take(bytes(bad))
        assert known.newest is before
    assert known.take(good)


def test_a_list_that_has_ended_or_is_of_another_time_is_refused(farm: Path, known: Revocations) -> None:
    number = known.number
    with pytest.raises(Stale, match=r"ended on .*farm revoke --dir DIR"):
        known.take(signed(farm, number + 1, begin=-7200, end=-60))
    with pytest.raises(Refused, match="Set the clocks of the machines"):
        known.take(signed(farm, number + 1, begin=2 * DAY, end=3 * DAY))
    assert known.take(signed(farm, number + 1, begin=DAY / 2, end=DAY))  # a clock that is behind


# --------------------------------------------------------------------------- how long a list counts


def test_before_a_list_has_come_nobody_is_trusted(farm: Path) -> None:
    with pytest.raises(Stale, match=r"the farm has no list of revoked certificates. Sign a list"):
        Revocations(farm / "ca" / "ca.pem").check(peer(farm, "other"))


def test_a_list_that_nobody_confirms_counts_for_a_minute(farm: Path, known: Revocations) -> None:
    with clocks_ahead(FRESH - 5):
        known.check(peer(farm, "other"))
        assert known.fresh
    known.trouble = "nobody listens there"
    with clocks_ahead(FRESH + 5):
        assert not known.fresh
        with pytest.raises(
            Stale, match=r"over 60 s who is revoked \(nobody listens there\); .*Start the farm's server"
        ):
            known.check(peer(farm, "other"))
        known.confirm(time.monotonic())
        known.check(peer(farm, "other"))
    assert known.trouble == ""


def test_a_list_that_came_by_itself_confirms_nothing(farm: Path) -> None:
    reader = Revocations(farm / "ca" / "ca.pem")
    reader.take(listed(farm).der)
    with pytest.raises(Stale, match="who is revoked"):
        reader.check(peer(farm, "other"))


def test_an_earlier_confirmation_that_comes_late_changes_nothing(farm: Path, known: Revocations) -> None:
    known.confirm(float("-inf"))
    assert known.fresh


def test_a_list_ends_while_it_is_in_use(farm: Path, known: Revocations) -> None:
    with clocks_ahead(366 * DAY):
        known.confirm(time.monotonic())
        with pytest.raises(Stale, match="ended on"):
            known.check(peer(farm, "other"))
        assert not known.fresh


# --------------------------------------------------------------------------- memory


def test_a_later_process_refuses_what_an_earlier_one_knew_to_be_old(farm: Path, tmp_path: Path) -> None:
    old = listed(farm)
    revoke(farm, "gone")
    for n in range(3):
        reader = Revocations(farm / "ca" / "ca.pem")
        reader.remember(tmp_path / "memory")
        if n == 0:
            assert reader.newest is None
            reader.take(listed(farm).der)
        assert reader.newest == listed(farm)
        with pytest.raises(Stale, match="is known here"):
            reader.take(old.der)
        with pytest.raises(Refused, match="is revoked"):
            reader.check(peer(farm, "gone"))
        assert not reader.fresh  # who else is, a keeper has to say


def test_of_two_processes_the_one_with_the_newer_list_leaves_it(farm: Path, tmp_path: Path) -> None:
    readers = [Revocations(farm / "ca" / "ca.pem") for _ in range(2)]
    for reader in readers:
        reader.remember(tmp_path)
    old = listed(farm)
    revoke(farm, "gone")
    readers[0].take(listed(farm).der)
    with pytest.raises(Stale, match="is known here"):
        readers[1].take(old.der)
    assert readers[1].newest == listed(farm)
    assert readers[1].take(listed(farm).der) is False
    later = Revocations(farm / "ca" / "ca.pem")
    later.remember(tmp_path)
    assert later.newest == listed(farm)


def test_a_memory_that_is_damaged_foreign_or_closed_costs_only_itself(farm: Path, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    first = Revocations(farm / "ca" / "ca.pem")
    first.remember(memory)
    first.take(listed(farm).der)
    (path,) = memory.iterdir()
    for data in (b"", b"noise", path.read_bytes()[:-1]):
        path.write_bytes(data)
        reader = Revocations(farm / "ca" / "ca.pem")
        reader.remember(memory)
        assert reader.newest is None
        assert reader.take(listed(farm).der)
        assert path.read_bytes() == listed(farm).der
    (tmp_path / "file").write_text("no folder")
    reader = Revocations(farm / "ca" / "ca.pem")
    reader.remember(tmp_path / "file")
    assert reader.take(listed(farm).der)


def test_farms_keep_their_memories_apart(farm: Path, tmp_path: Path) -> None:
    create_authority(tmp_path / "foreign")
    for home in (farm, tmp_path / "foreign"):
        reader = Revocations(home / "ca" / "ca.pem")
        reader.remember(tmp_path / "memory")
        assert reader.newest is None
        assert reader.take(listed(home).der)
    assert len(os.listdir(tmp_path / "memory")) == 2


# --------------------------------------------------------------------------- users.json


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 1, "users": []}', "has no list of revoked certificates. Sign a list: `tilewright farm revoke"),
        ('{"version": 1, "users": [], "revoked": ""}', "has no list of revoked certificates"),
        ('{"version": 1, "users": [], "revoked": "-----BEGIN X509 CRL-----"}', "is damaged"),
        ('{"version": 1, "users": [], "revoked": 7}', "is damaged"),
        ('{"version": 2, "users": []}', "newer Tilewright"),
        ("[]", "is damaged"),
        ("7", "is damaged"),
        ('"text"', "is damaged"),
        ('[{"version": 1}]', "is damaged"),
        ("\udcff", "is damaged"),
        ("[" * 100_000, "is damaged"),
    ],
)
def test_a_file_without_a_good_list_is_refused_in_one_line(
    text: str, said: str, farm: Path, known: Revocations
) -> None:
    path = farm / "server" / USERS
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(FarmError) as e:
        known.take_file(path)
    assert said in str(e.value)
    assert "\n" not in str(e.value)


def test_a_file_that_was_altered_anywhere_raises_nothing_but_our_errors(farm: Path, known: Revocations) -> None:
    path, rng = farm / "server" / USERS, random.Random(3)
    good = path.read_bytes()
    for _ in range(80):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] = rng.randrange(256)
        path.write_bytes(bytes(bad))
        with suppress(TilewrightError):
            known.take_file(path)


# --------------------------------------------------------------------------- seals


def test_a_seal_opens_nothing_of_a_revoked_sender_whoever_carries_it(farm: Path) -> None:
    builder, reader = (Seal(find_credentials(farm / n, r)) for n, r in (("gone", "builder"), ("client", "client")))
    data = builder.seal("result.client.s.j", {"x": 1})
    assert reader.revocations is not None
    with pytest.raises(Stale):
        reader.open("result.client.s.j", data, ("builder",))
    reader.revocations.take(listed(farm).der)
    reader.revocations.confirm(time.monotonic())
    assert reader.open("result.client.s.j", data, ("builder",))[0] == {"x": 1}
    revoke(farm, "gone")
    reader.revocations.take(listed(farm).der)
    for sealed in (data, builder.seal("result.client.s.j", {"x": 2})):  # of before, of after
        with pytest.raises(Refused, match=r"builder gone .* is revoked"):
            reader.open("result.client.s.j", sealed, ("builder",))


def test_a_revoked_certificate_of_another_key_is_called_forged_not_revoked(farm: Path) -> None:
    """Which certificate a message names is anybody's to choose."""
    from dataclasses import replace

    gone, client = find_credentials(farm / "gone", "builder"), find_credentials(farm / "client", "client")
    reader = Seal(client)
    assert reader.revocations is not None
    revoke(farm, "gone")
    reader.revocations.take(listed(farm).der)
    with pytest.raises(Refused, match="forged"):
        reader.open("a.b", Seal(replace(client, cert=gone.cert)).seal("a.b", {}), ("builder",))
