"""``tilewright dashboard``: a real process, its address, its end, and what it refuses."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.app import app, run
from tilewright.database import Database
from tilewright.farm.pki.certificates import create_authority

TOKEN = "correct-horse-battery"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database that is there and empty."""
    path = tmp_path_factory.mktemp("dashboard") / "t.db"
    Database.open(path).close()
    return str(path)


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(f"{TOKEN}\n")
    return path


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tilewright", "dashboard", "--port", "0", *words], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={k: v for k, v in os.environ.items() if "_FARM" not in k},
    )  # fmt: skip


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.read().decode()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_dashboard_says_its_address_and_ends_in_good_order(db: str, token: Path, number: signal.Signals) -> None:
    with start("--db", db, "--token-file", str(token)) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        status, text = get(f"{url}metrics", Authorization=f"Bearer {TOKEN}")
        assert status == 200
        assert 'tilewright_up{source="database"} 1.0' in text
        assert get(f"{url}metrics")[0] == 401
        assert get(f"{url}metrics?token={TOKEN}")[0] == 400
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command in this process: its exit code and its error."""

    def call(*words: str) -> tuple[int, dict[str, str]]:
        code = run(["dashboard", *words, "--port", "0"])
        err = capsys.readouterr().err
        message, _, hint = err.removeprefix("tilewright: ").partition(". ")
        return code, {"message": message, "mend": hint}

    return call


def test_other_addresses_need_more(refused: Any, db: str, token: Path) -> None:
    code, error = refused("--db", db, "--host", "0.0.0.0")
    assert (code, "--token-file" in error["mend"], "--tls-cert" in error["mend"]) == (2, True, True)
    code, error = refused("--db", db, "--host", "0.0.0.0", "--token-file", str(token))
    assert (code, "--token-file" in error["mend"], "--behind-proxy" in error["mend"]) == (2, False, True)


def test_a_database_that_is_not_there(refused: Any, tmp_path: Path) -> None:
    code, error = refused("--db", str(tmp_path / "missing.db"))
    assert (code, "tilewright tune" in error["mend"]) == (1, True)
    assert not (tmp_path / "missing.db").exists()


def test_a_token_that_others_can_read(refused: Any, db: str, token: Path) -> None:
    token.chmod(0o644)
    code, error = refused("--db", db, "--token-file", str(token))
    assert (code, "chmod 600" in error["mend"]) == (1, True)


def test_a_farm_needs_certificates(refused: Any, db: str) -> None:
    code, error = refused("--db", db, "--farm", "tls://farm.example.org:8786")
    assert (code, "--certs" in error["mend"]) == (2, True)


def test_a_worker_may_not_look_at_a_farm(refused: Any, db: str, tmp_path: Path) -> None:
    create_authority(tmp_path / "certs", ["localhost"], 30)
    code, error = refused(
        "--db", db, "--farm", "tls://farm.example.org:8786", "--certs", str(tmp_path / "certs" / "runner")
    )
    assert (code, "reader" in error["message"]) == (1, True)


def test_optuna_stays_on_this_machine(refused: Any, db: str) -> None:
    code, error = refused("--db", db, "--optuna", "--host", "0.0.0.0")
    assert (code, "127.0.0.1" in error["mend"]) == (2, True)


def test_without_the_extra_it_says_which(refused: Any, db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else there(name))
    code, error = refused("--db", db)
    assert (code, "pip install 'tilewright[dashboard]'" in error["mend"]) == (2, True)


def test_settings_come_from_a_file_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[dashboard]\nport = 9000\nallow-host = ["a", "b:1"]\n[farm]\naddress = "tls://x:1"\ncerts = "c"\n')
    monkeypatch.setenv("TILEWRIGHT_CONFIG", str(path))
    from tilewright.cli.commands import dashboard
    from tilewright.cli.commands.config import configure

    given: dict[str, Any] = {}
    monkeypatch.setattr(dashboard.command, "callback", lambda **values: given.update(values))
    with app.make_context("tilewright", ["dashboard"]) as ctx:
        ctx.invoked_subcommand = "dashboard"
        configure(ctx)
        app.invoke(ctx)
    assert (given["port"], given["allow_host"], given["address"]) == (9000, ("a", "b:1"), "tls://x:1")
    assert given["certs"] == tmp_path / "c"
    assert given["max_connections"] == 200
