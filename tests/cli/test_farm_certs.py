"""``farm init|issue|revoke|certs``: what they print, and their JSON."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tilewright.cli.commands.farm.certs import certs, init, issue, revoke
from tilewright.errors import UsageError
from tilewright.farm.errors import FarmError
from tilewright.farm.pki.certificates import create_authority
from tilewright.farm.pki.certificates import issue as issue_certificate
from tilewright.farm.pki.identity import ROLES

DAY = 86400


def call(command: click.Command, *arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def call_json(command: click.Command, *arguments: object) -> dict[str, Any]:
    result = call(command, *arguments, "--json")
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    assert value["schema"] == 1
    return value


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "farm"
    create_authority(folder)
    return folder


@pytest.fixture
def farm(made: Path, tmp_path: Path) -> Path:
    """A farm of the test's own."""
    return Path(shutil.copytree(made, tmp_path / "farm"))


def test_init_says_which_folder_goes_where_and_what_stays_offline(tmp_path: Path) -> None:
    folder = tmp_path / "farm"
    result = call(init, folder, "--host", "farm.example.org", "--host", "192.0.2.7", "--days", 90)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for role in ROLES:
        (line,) = [x for x in lines if x.startswith(f"  {folder / role}: to ")]
        assert (role == "server") == ("farm.example.org, 192.0.2.7" in line)
    (line,) = [x for x in lines if x.startswith(f"Keep {folder / 'ca'} ")]
    assert "offline" in line
    (line,) = [x for x in lines if "users.json" in x]
    assert f"copy {folder / 'server' / 'users.json'} to the server's machine" in line
    assert f"--dir {folder}" in lines[-1]


def test_init_as_json(tmp_path: Path) -> None:
    data = call_json(init, tmp_path / "farm", "--days", 90)
    assert data["folder"] == str(tmp_path / "farm")
    assert data["authority"]["role"] == "ca"
    assert [c["role"] for c in data["certificates"]] == list(ROLES)
    assert data["users"] == [str(tmp_path / "farm" / "server" / "users.json")]
    for c in data["certificates"]:
        assert Path(c["folder"], "cert.pem").is_file()
        assert c["days_left"] == 89


def test_issue_renew_and_revoke(farm: Path) -> None:
    users = str(farm / "server" / "users.json")
    result = call(issue, "gpu-7", "--role", "runner", "--days", 20, "--dir", farm)
    assert f"{farm / 'gpu-7'}: certificate of runner gpu-7" in result.stdout
    assert f"copy {users} to the server's machine" in result.stdout
    made = call_json(issue, "gpu-7", "--renew", "--dir", farm)
    assert (made["folder"], made["certificate"]["role"], made["users"]) == (str(farm / "gpu-7"), "runner", [users])
    assert made["certificate"]["user"] == f"tilewright:runner:gpu-7:{made['certificate']['serial']}"
    gone = call_json(revoke, made["certificate"]["serial"], "--dir", farm)
    assert [c["serial"] for c in gone["revoked"]] == [made["certificate"]["serial"]]
    assert gone["users"] == [users]
    text = call(revoke, "gpu-7", "--dir", farm).stdout
    assert text.count("revoked runner gpu-7") == 2
    assert f"copy {users} to the server's machine" in text
    assert "of revoked certificates (2), until " in text
    assert "revoked server server" in call(revoke, "server", "--dir", farm).stdout


def test_without_a_servers_folder_the_authoritys_list_is_named(farm: Path, tmp_path: Path) -> None:
    (farm / "server").rename(tmp_path / "shipped")
    assert call_json(issue, "gpu-7", "--role", "runner", "--dir", farm)["users"] == [str(farm / "ca" / "users.json")]
    assert f"copy {farm / 'ca' / 'users.json'} to" in call(revoke, "gpu-7", "--dir", farm).stdout


def test_every_servers_list_is_named(farm: Path) -> None:
    users = [str(farm / name / "users.json") for name in ("second", "server")]
    assert call_json(issue, "second", "--role", "server", "--dir", farm)["users"] == users
    assert f"copy {' and '.join(users)} to" in call(revoke, "runner", "--dir", farm).stdout


def test_the_folder_can_be_left_out(farm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_CERTS", raising=False)
    monkeypatch.chdir(farm)
    assert call_json(issue, "gpu-7", "--role", "runner")["folder"] == "gpu-7"
    assert len(call_json(certs)["certificates"]) == 2 + len(ROLES)
    monkeypatch.setenv("TILEWRIGHT_CERTS", str(farm / "runner"))
    monkeypatch.chdir(tmp_path)
    assert call_json(certs)["folder"] == str(farm / "runner")


def test_certs_lists_and_warns_thirty_days_ahead(farm: Path) -> None:
    quiet = call(certs, farm)
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    for column in ("name", "role", "until", "days left", "serial"):
        assert column in quiet.stdout
    issue_certificate(farm, "soon", "runner", days=29)
    issue_certificate(farm, "ended", "client", days=5, now=time.time() - 10 * DAY)
    call(revoke, "builder", "--dir", farm)
    result = call(certs, farm)
    assert result.exit_code == 0
    first, second = result.stderr.splitlines()
    assert first.startswith(
        "warning: the certificate of runner soon ends in 28 days. Run tilewright farm issue soon --renew"
    )
    assert second.startswith("warning: the certificate of client ended has ended")
    rows = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert "ended" in rows["ended"].split()[1:]
    assert "revoked" in rows["builder"]
    assert "valid" in rows["ca"]
    data = call_json(certs, farm)
    assert [c["name"] for c in data["expiring"]] == ["soon", "ended"]
    assert [c["name"] for c in data["certificates"] if c["revoked"]] == ["builder"]
    assert data["certificates"][0]["role"] == "ca"


def test_an_authority_that_ends_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_authority(tmp_path / "farm")
    late = time.time() + 3640 * DAY
    monkeypatch.setattr(time, "time", lambda: late)
    assert "the certificate of ca ca ends in" in call(certs, tmp_path / "farm").stderr


def test_a_machines_own_folder_is_listed_too(farm: Path) -> None:
    assert [c["role"] for c in call_json(certs, farm / "runner")["certificates"]] == ["ca", "runner"]


def test_paths_are_not_taken_for_markup(tmp_path: Path) -> None:
    folder = tmp_path / "[bold]farm[/bold]"
    assert f"{folder / 'runner'}: to" in call(init, folder).stdout


@pytest.mark.parametrize(
    ("command", "arguments", "error"),
    [
        (init, ("{farm}",), UsageError),
        (init, ("{farm}/new", "--host", "a b"), UsageError),
        (issue, ("gpu-7", "--dir", "{farm}"), UsageError),
        (issue, ("../x", "--role", "runner", "--dir", "{farm}"), UsageError),
        (issue, ("gpu-7", "--role", "runner", "--dir", "{farm}/none"), FarmError),
        (revoke, ("nobody", "--dir", "{farm}"), UsageError),
        (certs, ("{farm}/none",), FarmError),
    ],
)
def test_what_cannot_be_done_names_the_mend(
    command: click.Command, arguments: tuple[str, ...], error: type[FarmError], farm: Path
) -> None:
    with pytest.raises(error) as e:
        call(command, *(a.format(farm=farm) for a in arguments))
    assert e.value.hint


def test_unknown_roles_and_impossible_days_are_usage_errors(farm: Path) -> None:
    assert call(issue, "x", "--role", "root", "--dir", farm).exit_code == 2
    assert call(init, farm / "x", "--days", 0).exit_code == 2


@pytest.mark.parametrize("command", [init, issue, revoke, certs])
def test_help_has_examples(command: click.Command) -> None:
    assert "Examples:" in call(command, "--help").stdout


def test_revoke_without_a_name_signs_the_list_anew(farm: Path) -> None:
    first = call_json(revoke, "builder", "--dir", farm)
    assert first["list"]["serials"] == [first["revoked"][0]["serial"]]
    again = call_json(revoke, "--dir", farm)
    assert again["revoked"] == []
    assert again["list"]["serials"] == first["list"]["serials"]
    assert again["list"]["number"] > first["list"]["number"]
    assert call_json(certs, farm)["list"] == again["list"]


def test_certs_warns_of_a_list_that_ends_or_is_missing(farm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "the list of revoked certificates"
    assert said not in call(certs, farm).stderr
    assert said not in call(certs, farm / "server").stderr  # which signs none
    now = time.time()
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + 350 * DAY)
        assert f"warning: {said} ends in 1" in call(certs, farm).stderr
        patch.setattr(time, "time", lambda: now + 366 * DAY)
        ended = call(certs, farm).stderr
    assert f"warning: {said} has ended, or does not exist. Sign a list: `tilewright farm revoke --dir DIR`" in ended
