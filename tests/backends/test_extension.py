"""C++ that is compiled once against another package's headers."""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path

import pytest

from tilewright.backends.cpu import extension
from tilewright.backends.cpu.extension import Extension
from tilewright.core import TilewrightError

LOG = logging.getLogger("tilewright.test")


def of(folder: Path, text: str, version: str = "1") -> Extension:
    source = folder / "native.cpp"
    source.write_text(text)
    return Extension(source, ["example", version], [f"-DVERSION={version}"], (), LOG)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))


def test_an_extension_is_compiled_once_for_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '#include "tw.h"\nextern "C" TW_API int version(void) { return VERSION; }\n'
    paths = [of(tmp_path, text, v).path() for v in ("1", "2")]
    assert [ctypes.CDLL(str(p)).version() for p in paths] == [1, 2]
    monkeypatch.setattr(extension, "compiled", None)  # not called again
    assert [of(tmp_path, text, v).path() for v in ("1", "2")] == paths


def test_headers_that_the_compiler_refuses_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refused = of(tmp_path, "#include <no/such/header.h>\n")
    with caplog.at_level(logging.WARNING, "tilewright.test"):
        assert [refused.path(), refused.path()] == [None, None]
    (said,) = caplog.records
    assert said.getMessage().startswith("calls go through Python, which is slower: ")
    assert "no/such/header.h" in said.getMessage()


def test_no_compiler_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "none")
    with pytest.raises(TilewrightError, match="CXX names 'none'"):
        of(tmp_path, "").path()
