"""The script that runs the suite in random order, on a suite of three tests."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.waiting import until

SCRIPT = Path(__file__).parents[1] / "scripts" / "soak_tests.py"
TESTS = """
seen = []

def test_first():
    seen.append("first")

def test_second():
    assert seen == ["first"]

class TestThird:
    def test_it(self):
        pass
"""
FAILING, PASSING = 4, 5  # seeds, one after the other: test_second before test_first, and after it


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_pair.py").write_text(TESTS)
    return tmp_path


def given(suite: Path) -> list[str]:
    return ["--", "-p", "no:cacheprovider", "-c", str(suite / "pytest.ini"), f"--rootdir={suite}", str(suite)]


def start(suite: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), "--jobs", "0", "--logs", str(suite / "logs"), *options, *given(suite)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_failing_order_is_named_with_the_command_that_repeats_it(suite: Path) -> None:
    process = start(suite, "--runs", "2", "--seed", str(FAILING), "--busy", "0")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (1, ""), out
    _, failing, name, passing, log, again = out.splitlines()
    assert failing.startswith(f"seed {FAILING}: ")
    assert failing.endswith(" s, 2 passed, 1 failed, 0 skipped, exit code 1")
    assert name == "  test_pair.py::test_second"
    assert passing.startswith(f"seed {PASSING}: ")
    assert passing.endswith(" s, 3 passed, 0 failed, 0 skipped")
    assert "assert seen ==" in Path(log.partition(";")[0]).read_text()
    options = ["--runs", "1", "--seed", str(FAILING), "--jobs", "0", "--busy", "0"]
    assert shlex.split(again) == [sys.executable, str(SCRIPT), *options, *given(suite)]


def test_ctrl_c_ends_everything(suite: Path) -> None:
    (suite / "test_pair.py").write_text(
        "import os, pathlib, threading\n\ndef test_it():\n"
        "    pathlib.Path(__file__).with_name('pid').write_text(f'{os.getpid()}\\n')\n    threading.Event().wait()\n"
    )
    process = start(suite, "--busy", "1")
    pid = suite / "pid"
    until(lambda: process.poll() is not None or (pid.exists() and pid.read_text().endswith("\n")))
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "stopped\n"), out
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
