"""``tilewright farm keeper`` and ``tilewright farm users``, with a nats-server that nothing of ours runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from click.testing import CliRunner

from harness.farm import SimulatedFarm
from harness.waiting import until
from tilewright.cli.app import app
from tilewright.core import UsageError
from tilewright.farm.client import Farm
from tilewright.farm.errors import FarmError
from tilewright.farm.pki.certificates import create_authority, issue, revoke
from tilewright.farm.pki.identity import USERS
from tilewright.farm.pki.tls import find_credentials
from tilewright.farm.server import Cluster, NatsServer, find_server, free_port

LIMIT = 30.0


class Bare(SimulatedFarm):
    """Runners without a server of ours."""

    async def start_server(self, port: int = 0) -> None:
        pass


def connects(address: str, certs: Path) -> str:
    """What stands against it; empty for nothing."""
    try:
        Farm(address, certs).close()
    except FarmError as e:
        return e.message
    return ""


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[str, Path, subprocess.Popen[bytes]]]:
    """An address, an authority's folder, and the nats-server, whose configuration takes in the accounts as a file."""
    certs, accounts, port = tmp_path / "certs", tmp_path / "accounts.conf", free_port("127.0.0.1")
    create_authority(certs, ["localhost"])
    issue(certs, "eve", "client")
    made = CliRunner().invoke(app, ["farm", "users", "--certs", str(certs / "server"), "--out", str(accounts)])
    assert made.exit_code == 0, made.output
    printed = CliRunner().invoke(app, ["farm", "users", "--certs", str(certs / "server")])
    assert printed.output == accounts.read_text()
    asked = ["farm", "users", "--certs", str(certs / "server"), "--json"]
    assert json.loads(CliRunner().invoke(app, asked).output)["accounts"] == accounts.read_text()
    assert json.loads(CliRunner().invoke(app, [*asked, "--out", str(accounts)]).output)["out"] == str(accounts)
    files = {f"{n}_file": str(certs / "server" / f"{n}.pem") for n in ("cert", "key", "ca")}
    (tmp_path / "nats.conf").write_text(
        f'host: "127.0.0.1", port: {port}, max_payload: 8MB, jetstream {{ store_dir: "{tmp_path}/store" }}\n'
        f"tls {{ {', '.join(f'{k}: {json.dumps(v)}' for k, v in files.items())}, verify_and_map: true }}\n"
        "include ./accounts.conf\n"
    )
    address = f"tls://localhost:{port}"
    keeper = [sys.executable, "-m", "tilewright", "farm", "keeper", "--certs", str(certs), "--users", str(accounts)]
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(open(tmp_path / "log", "wb"))
        nats = start(stack, [find_server()[0], "-c", str(tmp_path / "nats.conf")], log)
        keeping = start(stack, [*keeper, "--heartbeat", "0.3", "--json", address], log, subprocess.PIPE)
        assert keeping.stdout is not None
        assert json.loads(keeping.stdout.readline())["address"] == address
        yield address, certs, nats
        keeping.send_signal(signal.SIGTERM)
        assert keeping.wait(LIMIT) == 0


def start(
    stack: contextlib.ExitStack, words: list[str], log: BinaryIO, stdout: int | None = None
) -> subprocess.Popen[bytes]:
    """A process that is ended with the stack, whatever becomes of it."""
    process = stack.enter_context(subprocess.Popen(words, stdout=stdout, stderr=log))
    stack.callback(process.kill)
    return process


def test_a_keeper_keeps_a_server_of_others(started: tuple[str, Path, subprocess.Popen[bytes]], tmp_path: Path) -> None:
    address, certs, nats = started
    until(lambda: not connects(address, certs / "eve"))
    with Bare(tmp_path, [], certs=certs) as farm, Farm(address, certs) as client:
        farm.address = address
        builder = farm.call(_builder(farm))
        until(builder.connected.is_set)
        assert [w["role"] for w in client.status()["workers"]] == ["builder"]
        (place,) = list(client.status()["places"])[:1]
        job = client.submit(place, {"no": "such job"})
        assert "error" in job.result(LIMIT)
        # Who is revoked is heeded by nobody and leaves the file at once, and the server when that reads it again.
        before = (tmp_path / "accounts.conf").read_text()
        revoke(certs, "eve")
        until(lambda: (tmp_path / "accounts.conf").read_text() != before)
        until(lambda: "the certificate of client eve (serial " in connects(address, certs / "eve"))
        nats.send_signal(signal.SIGHUP)
        until(lambda: "refuses client eve" in connects(address, certs / "eve"))
        assert client.status()["trouble"] == ""


async def _builder(farm: Bare) -> object:
    await asyncio.sleep(0)
    return farm.start_builder()


def test_whom_a_server_lets_in_may_be_told_elsewhere(certs: Path, tmp_path: Path) -> None:
    """Under systemd the certificate's files are copies of the unit's start."""
    listed = json.loads((certs / "server" / USERS).read_text())
    (tmp_path / "users.json").write_text(json.dumps({**listed, "users": []}))
    credentials = find_credentials(certs, "server")
    for let_in, some in ((tmp_path / "users.json", False), (None, True)):
        server = NatsServer(credentials, "127.0.0.1", 0, tmp_path, let_in=let_in)
        server._read_users()
        assert bool(server.users) is some


def test_routes_are_told_by_name(certs: Path, tmp_path: Path) -> None:
    """Since certificates are looked at for the hosts of the routes."""
    for route in ("127.0.0.1:8787", "[::1]:8787"):
        with pytest.raises(UsageError, match="name"):
            NatsServer(
                find_credentials(certs, "server"), "127.0.0.1", 0, tmp_path,
                cluster=Cluster("farm", "localhost:8787", ("localhost:8787", route)),
            )  # fmt: skip
