"""Running a page: its blocks in order, in one folder and one Python namespace."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from blocks import ROOT, Block

from tilewright.cli.app import app, run
from tilewright.cli.commands import tune

TRIALS = 1
"""Of every tuning run: the first trial is the default schedule, which is then played in a final and stored."""

SHELL = re.compile(r"[|<>&;$`*~]|^\w+=|^cd ")
SERVICES = (("farm", "up"), ("farm", "server"), ("farm", "runner"), ("farm", "builder"), ("dashboard",))
"""Commands that go on until they are stopped: they run beside the rest of their page."""


def _once(compare: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``compare`` the first time, and nothing later."""
    compared: list[Any] = []

    def against_numpy(result: Any) -> Any:
        compared.append(result)
        return compare(result) if len(compared) == 1 else None

    return against_numpy


AGAINST_NUMPY = _once(tune._against_numpy)
"""NumPy is timed, by a process of its own, after the first run of all pages alone."""


class Page:
    """``folder``: where the page's commands and code run. Use it as a context manager, which ends what goes on."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.patch = patch
        self.capture = capture
        self.names: dict[str, Any] = {"__name__": "documented"}
        self.services: list[tuple[str, subprocess.Popen[str], Path]] = []
        self.port, self.port2 = free_port(), free_port()
        patch.chdir(folder)
        patch.setenv("TILEWRIGHT_DB", str(folder / "default.db"))
        patch.setenv("TILEWRIGHT_TRUSTED_KEYS", str(folder / "trusted_keys"))
        patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        patch.setattr(tune, "_against_numpy", AGAINST_NUMPY)
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("benchmarks", "deploy"):
            (folder / name).symlink_to(ROOT / name)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(self.folder)):
                del sys.modules[name]
        ended = []
        for name, process, log in reversed(self.services):
            process.send_signal(signal.SIGTERM)
            try:
                ended.append((name, process.wait(20), log))
            except subprocess.TimeoutExpired:
                process.kill()
                ended.append((name, process.wait(), log))
            assert process.stdout is not None
            process.stdout.close()
        for name, code, log in ended:
            assert code in (0, 143), f"{name} ended with {code}:\n{log.read_text()}"

    def run(self, block: Block) -> None:
        text = block.replaced(block.text).replace("{port}", str(self.port)).replace("{port2}", str(self.port2))
        if before := block.mark("before"):
            self._python(before, block)
        if name := block.mark("file") or _named(block):
            Path(name).write_text(text, encoding="utf-8")
        if block.kind == "data":
            return
        if block.kind == "python":
            self._python(re.sub(r"\btrials=\d+", f"trials={TRIALS}", text), block)
        elif block.kind == "c":
            self._c(text, block)
        else:
            for line, runs in Block(block.page, block.line, block.language, text, block.marks).commands():
                if runs:
                    self._command(line, block)

    def _python(self, text: str, block: Block) -> None:
        code = compile("\n" * block.line + text, str(ROOT / block.page), "exec", dont_inherit=True)
        exec(code, self.names)

    def _c(self, text: str, block: Block) -> None:
        done = subprocess.run(
            ["g++", "-fsyntax-only", "-std=c++17", "-x", "c++", "-"], input=text, capture_output=True, text=True, check=False
        )  # fmt: skip
        assert not done.returncode, f"{block.name}:\n{done.stderr}"

    def _command(self, line: str, block: Block) -> None:
        words = shlex.split(line, comments=True)
        unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", line.partition(" #")[0])
        if not SHELL.search(unquoted) and words[0] == "tilewright":
            self._tilewright(small(words[1:]), block)
        elif words[0] == "cd":
            self.patch.chdir(words[1])
        else:
            done = subprocess.run(["sh", "-ec", line], capture_output=True, text=True, check=False)
            assert not done.returncode, f"{block.name}: {line}\n{done.stdout}{done.stderr}"

    def _tilewright(self, words: list[str], block: Block) -> None:
        if any(tuple(words[: len(s)]) == s for s in SERVICES) and "--help" not in words:
            self._service(words)
            return
        code = run(words)
        said = self.capture.readouterr()
        assert code == 0, f"{block.name}: tilewright {shlex.join(words)} gave {code}\n{said.out}{said.err}"

    def _service(self, words: list[str]) -> None:
        name = " ".join(w for w in words[:2] if w[0] != "-")
        log = self.folder / f"service-{len(self.services)}.log"
        with open(log, "w", encoding="utf-8") as to:
            process = subprocess.Popen(
                [sys.executable, "-m", "tilewright", *words], stdout=subprocess.PIPE, stderr=to, stdin=subprocess.DEVNULL,
                text=True,
            )  # fmt: skip
        self.services.append((name, process, log))
        if words[0] == "dashboard" or words[1] in ("up", "server"):
            assert process.stdout is not None
            assert process.stdout.readline(), f"{name} did not start:\n{log.read_text()}"
            return
        until = time.monotonic() + 60
        while "connected to" not in log.read_text():
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"{name} did not start:\n{log.read_text()}")
            time.sleep(0.02)


def _named(block: Block) -> str:
    """The file that a block of Python names in its first line."""
    found = re.match(r"# ([\w/]+\.py)\n", block.text)
    return found[1] if found and block.kind == "python" else ""


def small(words: list[str]) -> list[str]:
    """The same command with few trials."""
    if words[0] != "tune":
        return words
    trials = str(TRIALS + 1 if "--resume" in words else TRIALS)
    if "--trials" not in words:
        return [*words, "--trials", trials]
    at = words.index("--trials") + 1
    return [*words[:at], trials, *words[at + 1 :]]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def check_syntax(block: Block) -> None:
    """Python compiles, data parses; an error names the block."""
    try:
        if block.kind == "python":
            compile(block.text, block.name, "exec")
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language in ("yaml", "json"):
            list(yaml.safe_load_all(block.text))
        elif block.language == "ini":
            ConfigParser(strict=False, interpolation=None).read_string(block.text)
    except Exception as e:
        raise AssertionError(f"{block.name}: {e}") from e


def refused(words: list[str]) -> str:
    """Why ``tilewright WORDS`` is no command with such options and arguments; empty if it is one."""
    command: click.Command | None = app
    ctx = click.Context(app, info_name="tilewright")
    rest = list(words)
    try:
        while isinstance(command, click.Group) and rest and rest[0][0] != "-":
            name = rest.pop(0)
            command = command.get_command(ctx, name)
            if command is None:
                return f"there is no command {name}"
            ctx = click.Context(command, info_name=name, parent=ctx)
        assert command is not None
        if isinstance(command, click.Group) and not rest:
            return ""
        command.make_context(ctx.info_name, rest, parent=ctx.parent).close()
    except click.exceptions.Exit:
        return ""
    except click.ClickException as e:
        return e.format_message()
    return ""


def tilewright_commands(line: str) -> list[list[str]]:
    """Every ``tilewright ...`` of a shell line: alone, in a pipe, behind variables or another command's ``--``."""
    out = []
    for part in re.split(r"\s[|]\s|\s&&\s|;\s", line):
        found = re.match(r"(?:.*\s--\s+|(?:\w+=\S*\s+)*)tilewright\s+(.*)", part.strip())
        if found:
            words = shlex.split(re.sub(r"\s[12]?>\s*\S+", "", found[1]), comments=True)
            out.append([w for w in words if w != "&"])
    return out
