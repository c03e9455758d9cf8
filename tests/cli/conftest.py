"""Calling the command line in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.app import run


class Reply:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        assert value["schema"] == 1
        return value


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("COLUMNS", "140")  # test runners set others

    def call(*arguments: str | Path) -> Reply:
        capfd.readouterr()
        code = run([str(a) for a in arguments])
        return Reply(code, *capfd.readouterr())

    return call
