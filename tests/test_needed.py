"""What tests need of the system: who skips and says so, and a PATH that has a fresh machine's programs alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.needed import find, reason

SCRIPT = Path(__file__).parents[1] / "scripts" / "fresh_path.py"


def test_the_reason_names_what_is_missing_and_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said = "needs promtool, prometheus, chromium: apt-get install prometheus chromium"
    assert reason("promtool", "prometheus", "chromium") == said
    for name in ("promtool", "google-chrome"):
        (tmp_path / name).symlink_to(sys.executable)
    assert reason("promtool", "chromium") == ""
    assert find("chromium") == str(tmp_path / "google-chrome")
    assert reason("promtool", "prometheus") == "needs prometheus: apt-get install prometheus"


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="needs dpkg-query, which Debian has")
def test_a_fresh_path_has_a_compiler_and_no_program_that_was_installed_since(tmp_path: Path) -> None:
    path = tmp_path / "path"
    path.mkdir()
    (path / "nats-server").symlink_to("/bin/true")
    subprocess.run([sys.executable, SCRIPT, path], check=True)
    names = {p.name for p in path.iterdir()}
    assert {"sh", "ls", "awk", "make", "g++", "c++", "ld", "python3"} <= names
    assert not {"nats-server", "chromium", "npm", "promtool", "srun", "aarch64-linux-gnu-g++", "git"} & names
    assert all(p.resolve().is_file() for p in path.iterdir())
    text = "import sys; print(sys.base_prefix)"
    ran = subprocess.run([path / "python3", "-c", text], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == sys.base_prefix
