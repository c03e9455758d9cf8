"""A farm from the command line: real processes, mutual TLS, real kernels on this machine's processor."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from harness.caches import with_support
from harness.farm import FarmProcesses
from tilewright import Library
from tilewright.backends.cpu.targets import detect
from tilewright.cli.app import run
from tilewright.database import Database
from tilewright.farm.pki.certificates import create_authority


class Tool:
    """The command line against one farm: by ``run`` in this process, by ``start`` in one of its own."""

    def __init__(self, farm: FarmProcesses, certs: Path, folder: Path) -> None:
        self.farm, self.certs, self.folder = farm, certs, folder

    def start(self, *words: str, code: int = 0) -> Reply:
        done = subprocess.run(
            [sys.executable, "-m", "tilewright", *words], capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, **self._environment()},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return Reply(done.stdout, done.stderr)

    def run(self, *words: str, code: int = 0, **environment: str) -> Reply:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name, value in {**self._environment(), **environment}.items():
                patch.setenv(name, value)
            found = run(list(words))
        reply = Reply(out.getvalue(), err.getvalue())
        assert found == code, reply
        return reply

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code).stdout)

    def workers(self) -> set[str]:
        return {w["name"] for w in self.json("farm", "status")["workers"]}

    def _environment(self) -> dict[str, str]:
        return {
            "TILEWRIGHT_FARM": self.farm.address, "TILEWRIGHT_CERTS": str(self.certs),
            "TILEWRIGHT_CACHE": str(self.folder / "client"), "COLUMNS": "200",
        }  # fmt: skip

    def done(self) -> dict[str, int]:
        """Jobs that each worker has done."""
        return {w["name"]: w["done"] for w in self.json("farm", "status")["workers"]}


class Reply(NamedTuple):
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tool]:
    folder = tmp_path_factory.mktemp("farm")
    create_authority(folder / "certs", ["localhost"], 30)
    for name in ("builder", "one", "both"):
        with_support(folder / name, detect())
    with FarmProcesses(folder, folder / "certs") as farm:
        farm.server()
        farm.builder("builder", 1, "--json")
        farm.runner("one", "cpu:0", "--json")
        found = Tool(farm, folder / "certs", folder)
        farm.wait_for(lambda: found.workers() == {"one", "builder"})
        yield found


LIMIT = 60.0  # seconds, for what takes one or two on a machine that does nothing else
TUNE = ("tune", "matmul", "m=64", "n=64", "k=64", "--cost-model", "random")


def test_tuning_on_a_farm_stores_what_a_local_run_stores(tool: Tool) -> None:
    db = str(tool.folder / "one.db")
    found = json.loads(tool.start(*TUNE, "--trials", "6", "--db", db, "--json").stdout)
    assert found["trials"] == 6
    assert found["best"]["seconds"] > 0
    assert found["device"].startswith("cpu-")
    with Database.open(db, readonly=True) as database:
        (run,) = database.runs()
        trials = database.trials(run.id)
        assert [t.number for t in trials] == list(range(6))
        kernel = database.kernels("matmul")[0]
        stored = database.artifact(kernel.artifact_sha256)
        assert stored is not None
        assert stored.source
    assert run.state == "done"
    a, b = (np.random.default_rng(n).standard_normal((64, 64), dtype=np.float32) for n in (1, 2))
    with Library(db) as library:
        np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
    tool.farm.wait_for(lambda: min(tool.done().values()) > 3)  # which they say with their next signs of life
    (limits,) = [w["offers"]["limits"] for w in tool.json("farm", "status")["workers"] if w["name"] == "one"]
    assert limits["file_size"] is True
    assert limits["core_files"] is True


@pytest.mark.parametrize("name", ["one", "builder"])
def test_a_worker_says_in_json_when_it_is_connected(tool: Tool, name: str) -> None:
    stdout = tool.farm.processes[name].stdout
    assert stdout is not None
    found = json.loads(stdout.readline())
    assert found["schema"] == 1
    assert (found["name"], found["address"]) == (name, tool.farm.address)
    (known,) = [w for w in tool.json("farm", "status")["workers"] if w["name"] == name]
    assert all(found[key] == known[key] for key in ("role", "places", "offers"))
    assert found.get("device", {}) == known["device"]


def test_a_farm_has_one_run_for_each_device_class(tool: Tool) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    p = tool.farm.runner("both", "cpu:0-1")
    tool.farm.wait_for(lambda: "both" in tool.workers())
    ambiguous = tool.run(*TUNE, "--trials", "4", "--db", str(tool.folder / "x.db"), code=2)
    assert "2 device classes" in ambiguous.stderr
    db = str(tool.folder / "each.db")
    found = tool.json(*TUNE, "--trials", "4", "--device", "all", "--db", db)["classes"]
    assert len(found) == 2
    assert {name[-2:] for name in found} == {"1c", "2c"}
    with Database.open(db, readonly=True) as database:
        assert {r.device_name for r in database.runs()} == set(found)
        assert all(len(database.trials(r.id)) == 4 for r in database.runs())
    tool.run("farm", "drain", "both")
    assert p.wait(LIMIT) == 0
    tool.farm.wait_for(lambda: "both" not in tool.workers())


def test_ping_ready_status_and_quarantine_answer(tool: Tool) -> None:
    assert tool.json("farm", "ping")["answers"]
    assert tool.json("farm", "ready", "--runners", "1")["ready"]
    late = tool.run("farm", "ready", "--runners", "5", code=1)
    assert "1 of 5 runners" in late.stderr
    shown = tool.run("farm", "status").stdout
    assert "one" in shown
    assert "builder" in shown
    tool.run("farm", "quarantine", "one", tool.farm.address, "--why", "it rattles", TILEWRIGHT_FARM="")
    assert not tool.json("farm", "ready", "--runners", "0")["runners"]
    assert "it rattles" in tool.run("farm", "status").stdout
    refused = tool.run(*TUNE, "--trials", "4", "--db", str(tool.folder / "q.db"), code=2)
    assert "no runner is connected" in refused.stderr
    tool.run("farm", "release", "one")
    assert tool.json("farm", "ready")["ready"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("farm", "drain", "nobody"), 1, "no runner or builder named 'nobody'"),
        (("farm", "release", "one"), 1, "not in quarantine"),
        ((*TUNE, "--device", "h200", "--db", "x.db"), 2, "no device class 'h200'"),
        ((*TUNE, "--threads", "64", "--db", "x.db"), 2, "not 64"),
        ((*TUNE, "--target", "cuda", "--db", "x.db"), 2, "does not run code for cuda"),
        ((*TUNE, "--farm", "tls://localhost:1", "--db", "x.db"), 1, "cannot reach tls://localhost:1"),
        ((*TUNE, "--farm", "nonsense://x", "--db", "x.db"), 1, "not a farm address"),
        (("farm", "ping", "tcp://192.0.2.1:8786"), 2, "unencrypted"),
        (("farm", "server", "--host", "0.0.0.0"), 1, "has no certificate for server"),
    ],
)
def test_what_is_wrong_is_said(tool: Tool, tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    certs = str(tmp_path) if words[-1] == "0.0.0.0" else str(tool.certs)
    done = tool.run(*words, code=code, TILEWRIGHT_CERTS=certs)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_another_farms_certificate_is_refused(tool: Tool, tmp_path: Path) -> None:
    create_authority(tmp_path / "other", ["localhost"], 30)
    done = tool.run("farm", "ping", "--certs", str(tmp_path / "other"), code=1)
    assert "certificate" in done.stderr


def test_sigterm_drains_a_runner(tool: Tool) -> None:
    p = tool.farm.runner("brief", "cpu:0")
    tool.farm.wait_for(lambda: "brief" in tool.workers())
    p.send_signal(signal.SIGTERM)
    assert p.wait(LIMIT) == 0
    assert "draining" in tool.farm.said("brief")
