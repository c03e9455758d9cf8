"""Sessions of commands and Python snippets as a user types them, one after the other in one folder, and their
output."""

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
    """A command or Python snippet, and its expected output.

    ``text``: a command, which variables may precede (``COLUMNS=80 tilewright ...``), or Python. Its output on either
    stream must contain every string of ``says`` and none of ``never``. ``{run}`` stands for the value of the prompt's
    variable ``run``. ``code``: the exit status of a command; 1 for a Python error.
    """

    text: str
    says: Sequence[str] = ()
    code: int = 0
    never: Sequence[str] = ()


class Desk:
    """A user's session: a folder, shell variables, and the names of a Python prompt."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.patch, self.capture = patch, capture
        self.names: dict[str, Any] = {"__name__": "typed"}
        patch.chdir(folder)
        patch.delenv("COLUMNS", raising=False)
        patch.setenv("HOME", str(folder))
        for name in ("TILEWRIGHT_DB", "XDG_DATA_HOME"):
            patch.delenv(name, raising=False)

    def problems(self, lines: Sequence[Typed]) -> list[str]:
        """Differences from the expected output, each with the whole output."""
        found = []
        for typed in lines:
            run_id = str(self.names.get("run"))
            line = typed._replace(
                text=typed.text.replace("{run}", run_id), says=[s.replace("{run}", run_id) for s in typed.says]
            )
            code, shown = self.type(line.text)
            # Compares words, because line breaks depend on the widths of numbers and paths.
            plain = " ".join(shown.split())
            wrong = [f"ended with {code}, not {line.code}"] if code != line.code else []
            wrong += [f"does not say {s!r}" for s in line.says if s not in plain]
            wrong += [f"says {s!r}" for s in (*line.never, "Traceback") if s in plain]
            if wrong:
                found.append(f"> {line.text}\n{'; '.join(wrong)}:\n{shown}")
        return found

    def type(self, text: str) -> tuple[int, str]:
        """Runs ``text``; returns the exit status and the output."""
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
        """Runs Python as a prompt does: expressions print their values, errors their last line."""
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
