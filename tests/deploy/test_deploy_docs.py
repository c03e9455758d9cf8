"""The commands that ``docs/deploy.md`` and ``docs/configuration.md`` tell people to type exist as they are written."""

from __future__ import annotations

import re
import shlex

import pytest
from deploy_files import DEPLOY, ROOT, refused

FARM = {"TILEWRIGHT_FARM": "tls://farm.example.org:8786", "TILEWRIGHT_CERTS": "/certs"}


def commands() -> list[str]:
    """Every ``tilewright ...`` in a code block or between backquotes, with options or arguments."""
    out = []
    for name in ("deploy.md", "configuration.md"):
        text = (ROOT / "docs" / name).read_text()
        blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
        lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
        out += [m[1] for line in lines if (m := re.search(r"(?:^|-- )tilewright (.*)", line.split("  #")[0]))]
        spans = re.findall(r"`tilewright ([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        out += [s for s in spans if "..." not in s]
    return list(dict.fromkeys(out))


@pytest.mark.parametrize("line", commands())
def test_documented_commands_exist(line: str) -> None:
    if line.split() in (["--help"], ["--version"]):
        return
    words = shlex.split(line)
    online = words[0] != "farm" or words[1] not in ("init", "issue", "revoke", "certs")
    why = refused(words, FARM) if online else refused_offline(words)
    assert not why


def refused_offline(words: list[str]) -> str:
    """The commands about certificates take no ``--certs``, which the others must have."""
    why = refused(words, FARM)
    return "" if why.endswith("has no certificates") else why


def test_the_commands_are_found() -> None:
    assert len(commands()) >= 12


def test_documented_files_exist() -> None:
    text = (ROOT / "docs" / "deploy.md").read_text()
    for path in re.findall(r"deploy/[\w./-]+\w", text):
        assert (ROOT / path).exists() or list(ROOT.glob(path + "*")), path
    for folder in DEPLOY.iterdir():
        assert f"{folder.name}/" in text
