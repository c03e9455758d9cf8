"""What a person types and sees: commands and snippets of Python, one after the other in one folder."""

from __future__ import annotations

import ast
import shlex
import sys
import traceback
import warnings
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tilewright.cli.app import run


class Typed(NamedTuple):
    """``text``: a command, perhaps behind variables (``COLUMNS=80 tilewright ...``), or Python. Every one of ``says`` is
    in what comes of it, on either stream, and none of ``never``; ``{run}`` stands for what the prompt calls ``run``.
    ``code``: how a command ends; of Python 1 for an error.
    """

    text: str
    says: Sequence[str] = ()
    code: int = 0
    never: Sequence[str] = ()


class Desk:
    """Where someone sits: a folder, the variables of a shell, the names of a Python prompt."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.patch, self.capture = patch, capture
        self.names: dict[str, Any] = {"__name__": "typed"}
        patch.chdir(folder)
        patch.delenv("COLUMNS", raising=False)
        patch.setenv("HOME", str(folder))
        for name in ("TILEWRIGHT_DB", "XDG_DATA_HOME"):
            patch.delenv(name, raising=False)

    def problems(self, lines: Sequence[Typed]) -> list[str]:
        """What did not come out as expected, each with all that was printed."""
        found = []
        for typed in lines:
            run_id = str(self.names.get("run"))
            line = typed._replace(
                text=typed.text.replace("{run}", run_id), says=[s.replace("{run}", run_id) for s in typed.says]
            )
            code, shown = self.type(line.text)
            # Words are compared: where a line ends depends on the widths of numbers and paths.
            plain = " ".join(shown.split())
            wrong = [f"ended with {code}, not {line.code}"] if code != line.code else []
            wrong += [f"does not say {s!r}" for s in line.says if s not in plain]
            wrong += [f"says {s!r}" for s in (*line.never, "Traceback") if s in plain]
            if wrong:
                found.append(f"> {line.text}\n{'; '.join(wrong)}:\n{shown}")
        return found

    def type(self, text: str) -> tuple[int, str]:
        """How it ended, and what it printed."""
        self.capture.readouterr()
        words = [] if "\n" in text else shlex.split(text.partition("  #")[0])
        variables = list(takewhile(lambda w: w.partition("=")[0].isupper(), words))
        if words[len(variables) : len(variables) + 1] == ["tilewright"]:
            with self.patch.context() as patch:
                for variable in variables:
                    patch.setenv(*variable.split("=", 1))
                code = run(words[len(variables) + 1 :])
        else:
            code = self._python(text)
        out, err = self.capture.readouterr()
        return code, out + err

    def _python(self, text: str) -> int:
        """As at a prompt: expressions show their values, errors their last line."""
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda m, kind, *_: sys.stderr.write(f"{kind.__name__}: {m}\n") and None
            try:
                for s in ast.parse(text).body:
                    if isinstance(s, ast.Expr):
                        value = eval(compile(ast.Expression(s.value), "<typed>", "eval", dont_inherit=True), self.names)
                        if value is not None:
                            print(repr(value))
                    else:
                        exec(compile(ast.Module([s], []), "<typed>", "exec", dont_inherit=True), self.names)
            except Exception as e:
                sys.stderr.write("".join(traceback.format_exception_only(e)))
                return 1
        return 0
