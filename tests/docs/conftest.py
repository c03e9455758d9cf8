"""Fixtures that tests of the documentation share."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT

from harness.browser import browser, page, pytest_itemcollected, record, watched
from harness.shared import made_once

__all__ = ["browser", "page", "pytest_itemcollected", "record", "site", "watched"]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site. It is built from a copy, so that two test runs do not write the same figures."""
    pytest.importorskip("sphinx", reason="the site needs the development tools")
    return made_once(tmp_path_factory, "site", _build) / "html"


def _build(folder: Path) -> None:
    ignored = shutil.ignore_patterns("_build", "_generated", "__pycache__")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=ignored)
    for name in ("benchmarks", "CHANGELOG.md", "SECURITY.md"):
        (folder / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "html"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
