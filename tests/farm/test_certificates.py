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

from tilewright.errors import UsageError
from tilewright.farm.errors import FarmError, Refused
from tilewright.farm.pki import certificates
from tilewright.farm.pki.certificates import create_authority, expiring, issue, listing, read, revoke
from tilewright.farm.pki.identity import ROLES, Peer, check_name, identity, parse_identity, read_users
from tilewright.farm.pki.private_files import require_private
from tilewright.farm.pki.x509 import server_hosts
from tilewright.files import replace_files

DAY = 86400
FILES = {"ca.pem", "cert.pem", "key.pem"}
AUTHORITY_FILES = {"ca.pem", "ca.key", "issued.json", "users.json", "revoked.pem"}


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


def files_of(role: str) -> set[str]:
    return FILES | {"users.json"} if role == "server" else FILES


def user(home: Path) -> Peer:
    """What a server has to know of the certificate in a folder."""
    own = read(home / "cert.pem")
    return Peer(own.user, own.role, own.name, own.serial, own.not_after)


@contextmanager
def clock_at(now: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now)
        yield


def rewrite_as_0_1(farm: Path) -> None:
    """Make the record one of 0.1: with a scheduler, and without users, whose certificates had no serial number."""
    path = farm / "ca" / "issued.json"
    issued = json.loads(path.read_text())["issued"]
    for entry in issued:
        del entry["user"]
        if entry["role"] == "server":
            entry["role"] = entry["name"] = "scheduler"
    path.write_text(json.dumps({"version": 1, "issued": issued}))
    (farm / "server").rename(farm / "scheduler")
    (farm / "scheduler" / "users.json").unlink()
    (farm / "ca" / "users.json").unlink()


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
    assert names(farm / "ca") == AUTHORITY_FILES
    for role in ROLES:
        assert names(farm / role) == files_of(role)
        own = read(farm / role / "cert.pem")
        assert (own.role, own.name) == (role, role)
        assert (farm / role / "ca.pem").read_bytes() == (farm / "ca" / "ca.pem").read_bytes()
        assert own.user == f"tilewright:{role}:{role}:{own.serial:x}"
    assert read(farm / "runner" / "cert.pem").hosts == ()


def test_init_tells_the_server_of_every_certificate(farm: Path) -> None:
    for home in ("ca", "server"):
        assert read_users(farm / home / "users.json") == [user(farm / role) for role in ROLES]
    data = json.loads((farm / "server" / "users.json").read_text())
    assert data["version"] == 1
    assert set(data["users"][0]) == {"user", "role", "name", "serial", "not_after"}
    assert data["users"][0]["serial"] == f"{read(farm / 'server' / 'cert.pem').serial:x}"


def test_only_the_owner_can_read_anything(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        create_authority(tmp_path / "farm")
        issue(tmp_path / "farm", "gpu-7", "runner")
        issue(tmp_path / "farm", "gpu-7", renew=True)
        issue(tmp_path / "farm", "second", "server")
        revoke(tmp_path / "farm", "gpu-7")
    finally:
        os.umask(old)
    for path in (tmp_path / "farm", *(tmp_path / "farm").rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_server_answers_at_its_hosts_and_on_loopback(farm: Path, tmp_path: Path) -> None:
    assert set(read(farm / "server" / "cert.pem").hosts) == {"localhost", "127.0.0.1", "::1", "farm.example.org"}
    assert set(server_hosts(["192.0.2.7", "2001:db8::7", "node_1.example"])) >= {"192.0.2.7", "2001:db8::7"}
    assert {"localhost", "127.0.0.1", "::1"} <= set(server_hosts([]))


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
    with pytest.raises(UsageError, match=r"is not empty. .*`tilewright farm issue`"):
        create_authority(farm)
    assert {p: p.read_bytes() for p in farm.rglob("*.pem")} == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        create_authority(tmp_path / "other")
    assert names(tmp_path / "other") == {"notes.txt"}
    with pytest.raises(FarmError, match="File exists"):
        create_authority(tmp_path / "other" / "notes.txt")


def test_init_takes_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "farm").mkdir(mode=0o755)
    create_authority(tmp_path / "farm")
    assert stat.S_IMODE((tmp_path / "farm").stat().st_mode) == 0o700


@pytest.mark.parametrize("size", [100, 700, 1500])  # the authority, a certificate, the list of all
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
    assert user(home) in read_users(farm / "server" / "users.json")
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
    old, key = read(farm / "server" / "cert.pem"), (farm / "server" / "key.pem").read_bytes()
    (farm / "server" / "notes.txt").write_text("mine")
    issue(farm, "server", renew=True)
    new = read(farm / "server" / "cert.pem")
    assert (new.role, new.hosts) == (old.role, old.hosts)
    assert new.serial != old.serial
    assert (farm / "server" / "key.pem").read_bytes() != key
    assert names(farm / "server") == {*files_of("server"), "notes.txt"}
    assert [c.revoked for c in listing(farm) if c.name == "server"] == [None, None]
    assert {old.user, new.user} <= {u.user for u in read_users(farm / "server" / "users.json")}
    issue(farm, "server", hosts=["other.example.org"], renew=True)
    assert "other.example.org" in read(farm / "server" / "cert.pem").hosts


def test_every_server_of_the_authority_is_told_and_nobody_else(farm: Path, tmp_path: Path) -> None:
    second = issue(farm, "second", "server")
    assert names(second) == files_of("server")
    (farm / "server").rename(tmp_path / "shipped")
    create_authority(tmp_path / "other")
    shutil.copytree(tmp_path / "other" / "server", farm / "foreign")
    shutil.copytree(second, farm / "damaged")
    (farm / "damaged" / "cert.pem").write_text("no certificate")
    before = {h: (h / "users.json").read_bytes() for h in (tmp_path / "shipped", farm / "foreign", farm / "damaged")}
    home = issue(farm, "gpu-7", "runner")
    assert certificates.server_folders(farm) == [second]
    for path in (second / "users.json", farm / "ca" / "users.json"):
        assert read_users(path)[-1] == user(home)
    assert {h: (h / "users.json").read_bytes() for h in before} == before
    assert [p for p in farm.rglob("users.json") if p.parent.name in ROLES or p.parent == home] == []


def test_renewing_works_after_the_folder_was_moved_away(farm: Path, tmp_path: Path) -> None:
    (farm / "runner").rename(tmp_path / "shipped")
    with pytest.raises(UsageError, match="exists already"):
        issue(farm, "runner", "runner")
    issue(farm, "runner", renew=True)
    assert names(farm / "runner") == FILES


@pytest.mark.parametrize("name", ["", "ca", "CA", ".", "..", "../x", "a/b", "a b", "-x", ".x", "x\n", "é", "x" * 65])
def test_names_that_are_refused(name: str, farm: Path) -> None:
    with pytest.raises(UsageError, match="cannot be a certificate's name"):
        issue(farm, name, "runner")
    assert names(farm) == {"ca", *ROLES}


def test_names_that_are_taken(farm: Path) -> None:
    for name in ("x" * 64, "GPU_7.example.org", "0"):
        check_name(name)
        assert read(issue(farm, name, "runner") / "cert.pem").name == name


@pytest.mark.parametrize(
    ("role", "days", "hosts", "message"),
    [
        ("root", 1, (), "'root' is not a role"),
        (None, 1, (), "None is not a role"),
        ("runner", 0, (), "0 days"),
        ("runner", -1, (), "-1 days"),
        ("runner", 4000, (), "4000 days"),
        ("runner", 10, ("a.example",), "only a server's certificate names hosts"),
        ("server", 10, ("a b",), "neither a host's name"),
        ("scheduler", 10, (), "'scheduler' is not a role. Use one of server, "),
    ],
)
def test_what_cannot_be_issued(role: str | None, days: int, hosts: tuple[str, ...], message: str, farm: Path) -> None:
    with pytest.raises(UsageError, match=message):
        issue(farm, "new", role, days, hosts)
    assert not (farm / "new").exists()
    assert len(listing(farm)) == 1 + len(ROLES)


def test_no_certificate_outlasts_the_authority(tmp_path: Path) -> None:
    with clock_at(time.time() - 3600 * DAY):
        create_authority(tmp_path)
    with pytest.raises(UsageError, match=r"60 days .*authority itself ends in (49|50) days. Use 1 to (49|50) days"):
        issue(tmp_path, "gpu-7", "runner", days=60)
    issue(tmp_path, "gpu-7", "runner", days=49)
    with (
        clock_at(time.time() + 51 * DAY),
        pytest.raises(UsageError, match=r"Make a new one with `tilewright farm init`"),
    ):
        issue(tmp_path, "gpu-8", "runner", days=1)


def test_an_issue_that_fails_leaves_no_trace(farm: Path) -> None:
    def lists() -> list[bytes]:
        return [(farm / p).read_bytes() for p in ("ca/issued.json", "ca/users.json", "server/users.json")]

    before = lists()
    with files_of_at_most(len(before[0]) + 10), pytest.raises(FarmError, match="File too large"):
        issue(farm, "gpu-7", "runner")
    assert names(farm) == {"ca", *ROLES}
    assert lists() == before
    # One that has been listed, and whose folder then cannot be written.
    issue(farm, "gpu-7", "runner")
    before = lists()
    for file in FILES:
        (farm / "gpu-7" / file).unlink()
    (farm / "gpu-7").rmdir()
    (farm / "gpu-7").write_text("in the way")
    with pytest.raises(FarmError, match="File exists"):
        issue(farm, "gpu-7", renew=True)
    assert lists() == before
    assert names(farm / "ca") == AUTHORITY_FILES


def test_a_certificate_is_listed_before_it_exists(farm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, bool]] = []

    def look(folder: Path, files: dict[str, bytes]) -> None:
        if folder.name != "gpu-7":
            replace_files(folder, files)
            return
        listed = "gpu-7" in {c.name for c in listing(farm)}
        seen.append((listed, "gpu-7" in {u.name for u in read_users(farm / "server" / "users.json")}))
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(certificates, "replace_files", look)
    with pytest.raises(FarmError, match="No space left"):
        issue(farm, "gpu-7", "runner")
    assert seen == [(True, True)]
    assert not (farm / "gpu-7").exists()
    assert "gpu-7" not in {c.name for c in listing(farm)}
    assert "gpu-7" not in {u.name for u in read_users(farm / "server" / "users.json")}


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
    listed = [c.name for c in listing(farm)[1 + len(ROLES) :]]
    assert sorted(listed) == sorted(["same", *(f"gpu-{i}" for i in range(0, 16, 2))])
    for name in listed:
        assert read(farm / name / "cert.pem") in listing(farm)


def test_processes_wait_for_each_other(farm: Path) -> None:
    program = "import sys; from pathlib import Path; from tilewright.farm.pki.certificates import issue\n"
    program += "for n in sys.argv[2:]: issue(Path(sys.argv[1]), n, 'runner')"
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(farm), *(f"{group}{i}" for i in range(4))])
        for group in "ab"
    ]
    assert [c.wait(60) for c in children] == [0, 0]
    assert {c.name for c in listing(farm)[1 + len(ROLES) :]} == {f"{group}{i}" for group in "ab" for i in range(4)}


# --------------------------------------------------------------------------- revoke


def test_revoking_by_name_takes_every_certificate_of_it_and_reaches_the_servers(farm: Path) -> None:
    before = read_users(farm / "server" / "users.json")
    issue(farm, "gpu-7", "runner")
    issue(farm, "gpu-7", renew=True)
    issue(farm, "second", "server")
    (farm / "notes").mkdir()
    done = revoke(farm, "gpu-7")
    assert [c.name for c in done.certificates] == ["gpu-7", "gpu-7"]
    assert done.folders == [farm / "second", farm / "server"]
    for home in (farm / "ca", *done.folders):
        assert read_users(home / "users.json") == [*before, user(farm / "second")]
    assert names(farm / "notes") == set()
    issue(farm, "gpu-8", "runner")
    assert "gpu-7" not in {u.name for u in read_users(farm / "server" / "users.json")}


def test_revoking_by_serial_takes_one(farm: Path) -> None:
    first = read(issue(farm, "gpu-7", "runner") / "cert.pem")
    issue(farm, "gpu-7", renew=True)
    text = f"{first.serial:040X}"
    done = revoke(farm, ":".join(text[i : i + 2] for i in range(0, 40, 2)))
    assert [c.serial for c in done.certificates] == [first.serial]
    assert [c.revoked is None for c in listing(farm) if c.name == "gpu-7"] == [False, True]
    assert [u for u in read_users(farm / "server" / "users.json") if u.name == "gpu-7"] == [user(farm / "gpu-7")]


def test_revoking_again_keeps_the_time_and_mends_the_list(farm: Path) -> None:
    then = int(time.time()) - 1000
    with clock_at(then):
        revoke(farm, "runner")
    (farm / "server" / "users.json").unlink()
    assert [c.revoked for c in revoke(farm, "runner").certificates] == [then]
    assert "runner" not in {u.name for u in read_users(farm / "server" / "users.json")}


def test_a_revocation_that_reaches_no_server_holds_all_the_same(farm: Path) -> None:
    users = farm / "server" / "users.json"
    users.unlink()
    users.mkdir()
    with pytest.raises(FarmError, match=r"users.json: Is a directory"):
        revoke(farm, "runner")
    assert "runner" not in {u.name for u in read_users(farm / "ca" / "users.json")}
    users.rmdir()
    assert revoke(farm, "runner").folders == [farm / "server"]
    assert "runner" not in {u.name for u in read_users(users)}


def test_a_revoked_servers_folder_is_told_too(farm: Path) -> None:
    done = revoke(farm, "server")
    assert done.folders == [farm / "server"]
    assert "server" not in {u.name for u in read_users(farm / "server" / "users.json")}


@pytest.mark.parametrize("what", ["gpu-9", "", "ca", "00", "ff"])
def test_nothing_to_revoke(what: str, farm: Path) -> None:
    with pytest.raises(UsageError, match="no certificate has the name or serial number"):
        revoke(farm, what)


# --------------------------------------------------------------------------- what 0.1 has issued


def test_a_farm_of_0_1_is_listed_and_goes_on_with_a_server(farm: Path) -> None:
    rewrite_as_0_1(farm)
    assert [(c.name, c.user) for c in listing(farm)[1:3]] == [
        ("scheduler", "tilewright:scheduler:scheduler"),
        ("administrator", "tilewright:administrator:administrator"),
    ]
    with pytest.raises(UsageError, match=r"'scheduler' is not a role. Use one of server"):
        issue(farm, "scheduler", renew=True)
    home = issue(farm, "server", "server")
    users = read_users(home / "users.json")
    assert [u.user for u in users[:-1]] == [f"tilewright:{role}:{role}" for role in ROLES[1:]]
    assert users[-1] == user(home)
    assert [c.name for c in revoke(farm, "scheduler").certificates] == ["scheduler"]
    late = time.time() + 400 * DAY
    assert expiring(listing(farm), now=late) != []
    assert "scheduler" not in {c.name for c in expiring(listing(farm), now=late)}


def test_what_0_1_issued_to_one_name_is_revoked_together(farm: Path) -> None:
    issue(farm, "gpu-7", "runner")
    issue(farm, "gpu-7", renew=True)
    rewrite_as_0_1(farm)
    first, second = (c for c in listing(farm) if c.name == "gpu-7")
    assert first.user == second.user == "tilewright:runner:gpu-7"
    home = issue(farm, "server", "server")
    assert [u.name for u in read_users(home / "users.json")].count("gpu-7") == 2
    issue(farm, "gpu-7", renew=True)
    assert len(revoke(farm, f"{first.serial:x}").certificates) == 2
    # The one that says its serial number stays.
    assert [u for u in read_users(home / "users.json") if u.name == "gpu-7"] == [user(farm / "gpu-7")]


def test_a_certificate_that_0_1_revoked_keeps_its_user_out(farm: Path) -> None:
    issue(farm, "gpu-7", "runner")
    revoke(farm, "gpu-7")
    issue(farm, "gpu-7", renew=True)
    rewrite_as_0_1(farm)
    home = issue(farm, "server", "server")
    assert "gpu-7" not in {u.name for u in read_users(home / "users.json")}


# --------------------------------------------------------------------------- listing


def test_listing_has_the_authority_first_and_states_what_the_files_say(farm: Path) -> None:
    authority, *issued = listing(farm)
    assert (authority.name, authority.role) == ("ca", "ca")
    assert 3648 <= authority.days_left() <= 3650
    assert issued == [read(farm / role / "cert.pem") for role in ROLES]


def test_a_machines_own_folder_can_be_listed(farm: Path) -> None:
    authority, own = listing(farm / "runner")
    assert authority == listing(farm)[0]
    assert own == read(farm / "runner" / "cert.pem")


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


@pytest.mark.parametrize(
    "change",
    [
        {"user": "tilewright:runner:other:5"},
        {"user": 'tilewright:runner:x"}'},
        {"user": "tilewright:scheduler:x", "role": "scheduler"},
        {"user": 7},
        {"role": "client"},
        {"serial": "xyz"},
        {"serial": 5},
        {"not_after": "soon"},
        {"not_after": None},
    ],
)
def test_damaged_users_are_refused(change: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    good = {"user": "tilewright:runner:x:5", "role": "runner", "name": "x", "serial": "5", "not_after": 9.0}
    path.write_text(json.dumps({"version": 1, "users": [good]}))
    assert read_users(path) == [Peer("tilewright:runner:x:5", "runner", "x", 5, 9.0)]
    path.write_text(json.dumps({"version": 1, "users": [good, {**good, **change}]}))
    with pytest.raises(FarmError, match=r"users.json is damaged. Copy DIR/ca/users.json"):
        read_users(path)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"version": 1}', b'{"version": 1, "users": [7]}'])
def test_a_damaged_list_of_users_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_bytes(data)
    with pytest.raises(FarmError, match="is damaged"):
        read_users(path)
    path.unlink()
    with pytest.raises(FarmError, match="No such file"):
        read_users(path)


def test_users_of_a_newer_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text('{"version": 2, "users": {}}')
    with pytest.raises(FarmError, match=r"newer Tilewright. Use that version"):
        read_users(path)


def test_an_authority_whose_key_is_open_damaged_or_missing_issues_nothing(farm: Path) -> None:
    key = farm / "ca" / "ca.key"
    key.chmod(0o640)
    with pytest.raises(FarmError, match="open to other users"):
        issue(farm, "gpu-7", "runner")
    key.write_text("no key")
    key.chmod(0o600)
    with pytest.raises(FarmError, match="is not the key of an authority"):
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
    with pytest.raises(FarmError, match="is not a certificate"):
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
        ["tilewright:runner:x:"],
        ["tilewright:runner:x:FF"],
        ["tilewright:runner:x:ff:ff"],
        [f"tilewright:runner:x:{'f' * 41}"],
        ["tilewright:runner:x:ff\n"],
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
    assert parse_identity(["https://example.org", "tilewright:client:a.b"])[1:] == ("client", "a.b")


@pytest.mark.parametrize("serial", [None, 1, 2**159 - 1])
@pytest.mark.parametrize("role", ROLES)
def test_an_identity_is_read_with_and_without_a_serial_number(role: str, serial: int | None) -> None:
    user = identity(role, "gpu-7", serial)
    assert parse_identity([user]) == (user, role, "gpu-7")


@pytest.mark.parametrize("serial", [None, 5])
def test_a_scheduler_of_0_1_is_told_to_become_a_server(serial: int | None) -> None:
    with pytest.raises(Refused, match=r"scheduler's, of Tilewright 0.1. .*farm issue server --role server --host"):
        parse_identity([identity("scheduler", "scheduler", serial)])


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


def run_python(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)


def test_without_cryptography_the_mend_is_named(farm: Path, tmp_path: Path) -> None:
    program = "import sys; sys.modules['cryptography'] = None; from tilewright.cli import main; sys.exit(main())"
    for words in (("init", tmp_path / "new"), ("certs", farm), ("certs", farm / "runner"), ("users", "--certs", farm)):
        said = run_python(program, "farm", *words)
        assert said.returncode == 1, said
        assert "pip install 'tilewright[farm]'" in said.stderr
    assert not (tmp_path / "new").exists()


def test_what_others_import_costs_no_cryptography() -> None:
    # The dashboard asks the farm's modules for a word or two, and may be installed without the farm.
    program = "import sys, tilewright.farm.server, tilewright.farm.link; assert 'cryptography' not in sys.modules"
    assert run_python(program).returncode == 0
