"""The farm's authority: what it makes, refuses, revokes and lists, on real files."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tilewright.errors import TilewrightError, UsageError
from tilewright.farm import certificates
from tilewright.farm.certificates import create_authority, expiring, issue, listing, read, revoke, revoked
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.identity import ROLES, check_name, parse_identity, scheduler_hosts
from tilewright.farm.private_files import require_private

DAY = 86400
FILES = {"ca.pem", "cert.pem", "key.pem", "crl.pem"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "farm"
    create_authority(folder, ["farm.example.org"])
    return folder


@pytest.fixture
def farm(made: Path, tmp_path: Path) -> Path:
    """A farm of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "farm"))


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writes beyond ``size`` bytes of a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --------------------------------------------------------------------------- init


def test_init_makes_the_authority_and_a_folder_a_role(farm: Path) -> None:
    assert names(farm) == {"ca", *ROLES}
    assert names(farm / "ca") == {"ca.pem", "ca.key", "crl.pem", "issued.json"}
    for role in ROLES:
        assert names(farm / role) == FILES
        own = read(farm / role / "cert.pem")
        assert (own.role, own.name) == (role, role)
        assert (farm / role / "ca.pem").read_bytes() == (farm / "ca" / "ca.pem").read_bytes()
    assert read(farm / "runner" / "cert.pem").hosts == ()


def test_only_the_owner_can_read_anything(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        create_authority(tmp_path / "farm")
        issue(tmp_path / "farm", "gpu-7", "runner")
        issue(tmp_path / "farm", "gpu-7", renew=True)
        revoke(tmp_path / "farm", "gpu-7")
    finally:
        os.umask(old)
    for path in (tmp_path / "farm", *(tmp_path / "farm").rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_scheduler_answers_at_its_hosts_and_on_loopback(farm: Path, tmp_path: Path) -> None:
    assert set(read(farm / "scheduler" / "cert.pem").hosts) == {"localhost", "127.0.0.1", "::1", "farm.example.org"}
    assert set(scheduler_hosts(["192.0.2.7", "2001:db8::7", "node_1.example"])) >= {"192.0.2.7", "2001:db8::7"}
    assert {"localhost", "127.0.0.1", "::1"} <= set(scheduler_hosts([]))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "*.example.org",
        "a b",
        "host:8786",
        "[::1]",
        "bücher.example",
        "-x",
        "fe80::1%eth0",
        "a..b",
        "1.2.3.4.5",
        "x" * 300,
    ],
)
def test_what_is_no_host_is_refused_before_anything_is_made(host: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a host's name nor an address"):
        create_authority(tmp_path / "farm", [host])
    assert not (tmp_path / "farm").exists()


def test_init_refuses_a_folder_in_use(farm: Path, tmp_path: Path) -> None:
    before = {p: p.read_bytes() for p in farm.rglob("*.pem")}
    with pytest.raises(UsageError, match="already has an authority"):
        create_authority(farm)
    assert {p: p.read_bytes() for p in farm.rglob("*.pem")} == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        create_authority(tmp_path / "other")
    assert names(tmp_path / "other") == {"notes.txt"}
    with pytest.raises(FarmError, match="Not a directory"):
        create_authority(tmp_path / "other" / "notes.txt")


def test_init_takes_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "farm").mkdir(mode=0o755)
    create_authority(tmp_path / "farm")
    assert stat.S_IMODE((tmp_path / "farm").stat().st_mode) == 0o700


@pytest.mark.parametrize("size", [100, 650, 850])  # the authority, a certificate, the list of all four
def test_a_full_disk_leaves_nothing_of_an_init(size: int, tmp_path: Path) -> None:
    with files_of_at_most(size), pytest.raises(FarmError, match="File too large"):
        create_authority(tmp_path / "farm", ["farm.example.org"])
    assert list((tmp_path / "farm").iterdir()) == []
    create_authority(tmp_path / "farm", ["farm.example.org"])


def test_of_two_inits_at_once_one_wins(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)

    def make(_: int) -> bool:
        barrier.wait(30)
        try:
            create_authority(tmp_path / "farm")
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(make, range(4))) == [False, False, False, True]
    assert names(tmp_path / "farm") == {"ca", *ROLES}
    issue(tmp_path / "farm", "gpu-7", "runner")


# --------------------------------------------------------------------------- issue


def test_issue_makes_a_folder_under_its_name(farm: Path) -> None:
    home = issue(farm, "gpu-7", "runner", days=20)
    assert home == farm / "gpu-7"
    assert names(home) == FILES
    own = read(home / "cert.pem")
    assert (own.role, own.name, own.days_left()) == ("runner", "gpu-7", 19)
    assert own.not_before < time.time() - DAY / 2  # a clock that is behind
    assert own == listing(farm)[-1]


def test_a_name_is_issued_once_unless_renewed(farm: Path) -> None:
    issue(farm, "gpu-7", "runner")
    with pytest.raises(UsageError, match="exists already"):
        issue(farm, "gpu-7", "runner")
    with pytest.raises(UsageError, match="exists already"):
        issue(farm, "client", "client")
    (farm / "notes").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        issue(farm, "notes", "client")
    with pytest.raises(UsageError, match="no certificate to renew"):
        issue(farm, "gpu-8", "runner", renew=True)
    with pytest.raises(UsageError, match="gpu-7 is a runner, not a client"):
        issue(farm, "gpu-7", "client", renew=True)


def test_renewing_replaces_key_and_certificate_and_keeps_role_hosts_and_other_files(farm: Path) -> None:
    old, key = read(farm / "scheduler" / "cert.pem"), (farm / "scheduler" / "key.pem").read_bytes()
    (farm / "scheduler" / "notes.txt").write_text("mine")
    issue(farm, "scheduler", renew=True)
    new = read(farm / "scheduler" / "cert.pem")
    assert (new.role, new.hosts) == (old.role, old.hosts)
    assert new.serial != old.serial
    assert (farm / "scheduler" / "key.pem").read_bytes() != key
    assert names(farm / "scheduler") == {*FILES, "notes.txt"}
    assert [c.revoked for c in listing(farm) if c.name == "scheduler"] == [None, None]
    issue(farm, "scheduler", hosts=["other.example.org"], renew=True)
    assert "other.example.org" in read(farm / "scheduler" / "cert.pem").hosts


def test_renewing_works_after_the_folder_was_moved_away(farm: Path, tmp_path: Path) -> None:
    (farm / "runner").rename(tmp_path / "shipped")
    with pytest.raises(UsageError, match="exists already"):
        issue(farm, "runner", "runner")
    issue(farm, "runner", renew=True)
    assert names(farm / "runner") == FILES


@pytest.mark.parametrize("name", ["", "ca", "CA", ".", "..", "../x", "a/b", "a b", "-x", ".x", "x\n", "é", "x" * 65])
def test_names_that_are_refused(name: str, farm: Path) -> None:
    with pytest.raises(UsageError, match="can't be a certificate's name"):
        issue(farm, name, "runner")
    assert names(farm) == {"ca", *ROLES}


def test_names_that_are_taken(farm: Path) -> None:
    for name in ("x" * 64, "GPU_7.example.org", "0"):
        assert check_name(name) == name
        assert read(issue(farm, name, "runner") / "cert.pem").name == name


@pytest.mark.parametrize(
    ("role", "days", "hosts", "message"),
    [
        ("root", 1, (), "'root' is no role"),
        (None, 1, (), "None is no role"),
        ("runner", 0, (), "0 days"),
        ("runner", -1, (), "-1 days"),
        ("runner", 4000, (), "4000 days"),
        ("runner", 10, ("a.example",), "names no hosts"),
        ("scheduler", 10, ("a b",), "neither a host's name"),
    ],
)
def test_what_cannot_be_issued(role: str | None, days: int, hosts: tuple[str, ...], message: str, farm: Path) -> None:
    with pytest.raises(UsageError, match=message):
        issue(farm, "new", role, days, hosts)
    assert not (farm / "new").exists()
    assert len(listing(farm)) == 5


def test_no_certificate_outlasts_the_authority(tmp_path: Path) -> None:
    create_authority(tmp_path, now=time.time() - 3600 * DAY)
    with pytest.raises(UsageError, match=r"authority itself ends in (49|50) days. Use at most"):
        issue(tmp_path, "gpu-7", "runner", days=60)
    issue(tmp_path, "gpu-7", "runner", days=49)


def test_an_issue_that_fails_leaves_no_trace(farm: Path) -> None:
    before = (farm / "ca" / "issued.json").read_bytes()
    with files_of_at_most(len(before) + 10), pytest.raises(FarmError, match="File too large"):
        issue(farm, "gpu-7", "runner")
    assert names(farm) == {"ca", *ROLES}
    # One that has been listed, and whose folder then cannot be written.
    issue(farm, "gpu-7", "runner")
    before = (farm / "ca" / "issued.json").read_bytes()
    for file in FILES:
        (farm / "gpu-7" / file).unlink()
    (farm / "gpu-7").rmdir()
    (farm / "gpu-7").write_text("in the way")
    with pytest.raises(FarmError, match="Not a directory"):
        issue(farm, "gpu-7", renew=True)
    assert (farm / "ca" / "issued.json").read_bytes() == before
    assert names(farm / "ca") == {"ca.pem", "ca.key", "crl.pem", "issued.json"}


def test_issuing_at_once_loses_nothing(farm: Path) -> None:
    def make(i: int) -> bool:
        try:
            issue(farm, "same" if i % 2 else f"gpu-{i}", "runner")
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(make, range(16)))
    assert sum(made[1::2]) == 1
    assert all(made[0::2])
    listed = [c.name for c in listing(farm)[5:]]
    assert sorted(listed) == sorted(["same", *(f"gpu-{i}" for i in range(0, 16, 2))])
    for name in listed:
        assert read(farm / name / "cert.pem") in listing(farm)


def test_processes_wait_for_each_other(farm: Path) -> None:
    program = "import sys; from pathlib import Path; from tilewright.farm.certificates import issue\n"
    program += "for n in sys.argv[2:]: issue(Path(sys.argv[1]), n, 'runner')"
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(farm), *(f"{group}{i}" for i in range(4))])
        for group in "ab"
    ]
    assert [c.wait(60) for c in children] == [0, 0]
    assert {c.name for c in listing(farm)[5:]} == {f"{group}{i}" for group in "ab" for i in range(4)}


# --------------------------------------------------------------------------- revoke


def test_revoking_by_name_takes_every_certificate_of_it_and_reaches_the_folders(farm: Path, tmp_path: Path) -> None:
    issue(farm, "gpu-7", "runner")
    issue(farm, "gpu-7", renew=True)
    (farm / "client").rename(tmp_path / "shipped")
    (farm / "notes").mkdir()
    done = revoke(farm, "gpu-7")
    assert len(done.certificates) == 2
    assert {f.name for f in done.folders} == {"scheduler", "runner", "builder", "gpu-7"}
    serials = {c.serial for c in done.certificates}
    for home in (farm / "ca", *done.folders):
        assert set(revoked(home / "crl.pem", home / "ca.pem")) == serials
    assert names(farm / "notes") == set()
    assert revoked(tmp_path / "shipped" / "crl.pem", farm / "ca" / "ca.pem") == {}
    assert set(revoked(issue(farm, "gpu-8", "runner") / "crl.pem", farm / "ca" / "ca.pem")) == serials


def test_revoking_by_serial_takes_one(farm: Path) -> None:
    first = read(issue(farm, "gpu-7", "runner") / "cert.pem")
    issue(farm, "gpu-7", renew=True)
    text = f"{first.serial:040X}"
    done = revoke(farm, ":".join(text[i : i + 2] for i in range(0, 40, 2)))
    assert [c.serial for c in done.certificates] == [first.serial]
    assert [c.revoked is None for c in listing(farm) if c.name == "gpu-7"] == [False, True]


def test_revoking_again_keeps_the_time_and_mends_the_list(farm: Path) -> None:
    then = int(time.time()) - 1000
    revoke(farm, "runner", now=then)
    (farm / "scheduler" / "crl.pem").unlink()
    assert [c.revoked for c in revoke(farm, "runner").certificates] == [then]
    assert list(revoked(farm / "scheduler" / "crl.pem", farm / "ca" / "ca.pem").values()) == [then]


@pytest.mark.parametrize("what", ["gpu-9", "", "ca", "00", "ff"])
def test_nothing_to_revoke(what: str, farm: Path) -> None:
    with pytest.raises(UsageError, match="no certificate has the name or serial number"):
        revoke(farm, what)


def test_a_list_that_the_authority_did_not_sign_is_refused(farm: Path, tmp_path: Path) -> None:
    create_authority(tmp_path / "other")
    revoke(tmp_path / "other", "runner")
    with pytest.raises(FarmError, match="the authority did not sign it"):
        revoked(tmp_path / "other" / "ca" / "crl.pem", farm / "ca" / "ca.pem")
    crl = bytearray((farm / "ca" / "crl.pem").read_bytes())
    for data in (b"", b"no list", bytes(crl[: len(crl) // 2])):
        (tmp_path / "bad.pem").write_bytes(data)
        with pytest.raises(FarmError, match="can't be trusted"):
            revoked(tmp_path / "bad.pem", farm / "ca" / "ca.pem")


# --------------------------------------------------------------------------- listing


def test_listing_has_the_authority_first_and_states_what_the_files_say(farm: Path) -> None:
    authority, *issued = listing(farm)
    assert (authority.name, authority.role) == ("ca", "ca")
    assert 3648 <= authority.days_left() <= 3650
    assert issued == [read(farm / role / "cert.pem") for role in ROLES]


def test_a_machines_own_folder_can_be_listed(farm: Path) -> None:
    revoke(farm, "runner")
    authority, own = listing(farm / "runner")
    assert (authority.role, own.name, own.revoked is not None) == ("ca", "runner", True)
    (farm / "client" / "crl.pem").unlink()
    assert listing(farm / "client")[1].revoked is None


def test_warnings_are_for_what_still_counts(farm: Path) -> None:
    issue(farm, "soon", "runner", days=29)
    issue(farm, "later", "runner", days=31)
    issue(farm, "gone", "runner", days=5)
    revoke(farm, "gone")
    issue(farm, "renewed", "runner", days=5)
    issue(farm, "renewed", days=100, renew=True)
    issue(farm, "ended", "runner", days=5, now=time.time() - 10 * DAY)
    ending = expiring(listing(farm))
    assert {c.name: c.days_left() for c in ending} == {"soon": 28, "ended": -6}
    old = time.time() + 3640 * DAY
    assert "ca" in {c.name for c in expiring(listing(farm), now=old)}


# --------------------------------------------------------------------------- what is wrong with the files


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1, "issued": [{}]}', '{"version": 1, "issued": 7}'])
def test_a_damaged_record_is_refused_and_left_alone(text: str, farm: Path) -> None:
    path = farm / "ca" / "issued.json"
    path.write_text(text)
    for call in (lambda: issue(farm, "gpu-7", "runner"), lambda: revoke(farm, "runner"), lambda: listing(farm)):
        with pytest.raises(FarmError, match=r"issued.json is damaged"):
            call()
    assert path.read_text() == text


def test_a_record_of_a_newer_version_is_refused(farm: Path) -> None:
    path = farm / "ca" / "issued.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(FarmError, match="newer Tilewright"):
        listing(farm)


def test_an_authority_whose_key_is_open_damaged_or_missing_issues_nothing(farm: Path) -> None:
    key = farm / "ca" / "ca.key"
    key.chmod(0o640)
    with pytest.raises(FarmError, match="open to other users"):
        issue(farm, "gpu-7", "runner")
    key.write_text("no key")
    key.chmod(0o600)
    with pytest.raises(FarmError, match="is no key of an authority"):
        issue(farm, "gpu-7", "runner")
    key.unlink()
    with pytest.raises(FarmError, match="No such file"):
        issue(farm, "gpu-7", "runner")
    assert names(farm) == {"ca", *ROLES}


def test_folders_that_are_no_farm(tmp_path: Path) -> None:
    for call in (lambda: issue(tmp_path, "x", "runner"), lambda: revoke(tmp_path / "none", "x")):
        with pytest.raises(FarmError, match="has no authority"):
            call()
    with pytest.raises(FarmError, match="holds no certificates"):
        listing(tmp_path)
    (tmp_path / "cert.pem").write_text("nothing")
    with pytest.raises(FarmError, match="is no certificate"):
        read(tmp_path / "cert.pem")


def test_an_authoritys_own_certificate_has_no_role(farm: Path) -> None:
    with pytest.raises(Refused, match="no role"):
        read(farm / "ca" / "ca.pem")


@pytest.mark.parametrize(
    "uris",
    [
        [],
        ["https://example.org"],
        ["tilewright:runner"],
        ["tilewright:runner:"],
        ["tilewright:root:x"],
        ["tilewright:runner:x:y"],
        ["tilewright:runner:x/y"],
        ["tilewright:runner:x", "tilewright:client:x"],
        ["tilewright:runner:x", "tilewright:runner:x"],
        ["TILEWRIGHT:runner:x"],
    ],
)
def test_identities_that_are_none(uris: list[str]) -> None:
    with pytest.raises(Refused, match="no role"):
        parse_identity(uris)


def test_an_identity_among_other_uris() -> None:
    assert parse_identity(["https://example.org", "tilewright:client:a.b"]) == ("client", "a.b")


def test_keys_must_be_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "key.pem"
    key.write_text("secret")
    for mode in (0o600, 0o400):
        key.chmod(mode)
        require_private(key)
    for mode in (0o604, 0o602, 0o640, 0o660, 0o644, 0o666):
        key.chmod(mode)
        with pytest.raises(FarmError, match=r"open to other users. Run `chmod 600"):
            require_private(key)
    # To another user than its owner. Only root's keys are anyone else's business.
    owner = key.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 4321)
    key.chmod(0o440)
    if owner == 0:
        require_private(key)
        key.chmod(0o460)
        with pytest.raises(FarmError, match="open to other users"):
            require_private(key)
    else:
        with pytest.raises(FarmError, match="belongs to another user"):
            require_private(key)


def test_without_cryptography_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    for call in (lambda: create_authority(tmp_path / "farm"), lambda: listing(tmp_path), lambda: read(tmp_path)):
        with pytest.raises(TilewrightError, match=r"pip install 'tilewright\[farm\]'"):
            call()
    assert not (tmp_path / "farm").exists()


def test_importing_the_module_costs_no_cryptography() -> None:
    program = "import sys, tilewright.farm.certificates, tilewright.farm.tls; assert 'cryptography' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert certificates.LEAF_DAYS == 365
