"""What shells complete, and the scripts that make them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import BashComplete

from tilewright.cli.app import app
from tilewright.kernels.operators import OPERATORS
from tilewright.tuner.strategies import STRATEGIES


def completed(*words: str) -> list[str]:
    """What is offered for the last word."""
    found = BashComplete(app, {}, "tilewright", "_TILEWRIGHT_COMPLETE").get_completions(list(words[:-1]), words[-1])
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("tu",), ["tune"]),
        (("tune", "soft"), ["softmax", "softmax_backward"]),
        (("tune", "matmul", "m=4", ""), None),
        (("tune", "conv2d", "lay"), ["layout="]),
        (("tune", "conv2d", "layout=N"), ["layout=NCHW", "layout=NHWC"]),
        (("tune", "conv2d", "layout", "="), ["NCHW", "NHWC"]),
        (("tune", "conv2d", "layout", "=", "NH"), ["NHWC"]),
        (("tune", "attention", "is_causal=t"), ["is_causal=true"]),
        (("tune", "matmul", "nothing=x"), []),
        (("tune", "no_such_operator", ""), []),
        (("tune", "matmul", "--strategy", "optuna-t"), ["optuna-tpe"]),
        (("bench", "transp"), ["transpose"]),
        (("check", "attent"), ["attention"]),
    ],
)
def test_words_are_completed(words: tuple[str, ...], expected: list[str] | None) -> None:
    found = completed(*words)
    if expected is not None:
        assert found == expected
    else:
        assert {"n=", "k=", "trans_b="} <= set(found)
        assert "m=" not in found


def test_everything_is_offered_for_nothing() -> None:
    assert set(OPERATORS) <= set(completed("space", ""))
    assert set(STRATEGIES) == set(completed("tune", "matmul", "--strategy", ""))


def test_runs_of_the_database(cli: Any, tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    assert completed("show", "--db", str(tmp_path / "none.db"), "") == ["last"]
    made = cli("tune", "matmul", "m=8", "n=8", "k=8", "--trials", "1", "--db", db, "--json").json["run"]
    assert completed("show", "--db", str(db), "") == ["last", made, "matmul"]
    assert completed("explain", "--db", str(db), "la") == ["last"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed_for_each_shell(cli: Any, shell: str) -> None:
    reply = cli("completion", shell)
    assert reply.code == 0
    assert "_TILEWRIGHT_COMPLETE" in reply.out


def test_the_shell_in_use_is_the_default(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert cli("completion").out == cli("completion", "zsh").out
    monkeypatch.setenv("SHELL", "/bin/ksh")
    refused = cli("completion")
    assert refused.code == 2
    assert "tilewright completion bash|zsh|fish" in refused.err


def test_bash_completes_with_the_script() -> None:
    bash, program = shutil.which("bash"), Path(sys.executable).with_name("tilewright")
    if bash is None or not program.exists():
        pytest.skip("no bash, or the program is not installed beside this Python")
    script = (
        'eval "$(tilewright completion bash)"; COMP_WORDS=(tilewright tune soft); COMP_CWORD=2; '
        "_tilewright_completion tilewright; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    environment = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["softmax", "softmax_backward"]
