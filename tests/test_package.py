"""What would be published: a source archive, and the wheel that is built of it alone."""

from __future__ import annotations

import contextlib
import email
import gzip
import re
import tarfile
import tomllib
import zipfile
from email.message import Message
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

import tilewright

ROOT = Path(__file__).parents[1]

hatchling = pytest.importorskip("hatchling.build", reason="building needs the development tools")
classifiers = pytest.importorskip("trove_classifiers").classifiers


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str], Message]:
    """Names in the archive (without its folder) and in the wheel, and the wheel's metadata."""
    folder = tmp_path_factory.mktemp("dist")
    hasty = partial(gzip.GzipFile, compresslevel=1)  # as small as it can be it takes two seconds more
    with contextlib.chdir(ROOT), patch("hatchling.builders.sdist.gzip.GzipFile", hasty):
        name = hatchling.build_sdist(str(folder))
    with tarfile.open(folder / name) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    [unpacked] = (p for p in folder.iterdir() if p.is_dir())
    with contextlib.chdir(unpacked), zipfile.ZipFile(folder / hatchling.build_wheel(str(folder))) as wheel:
        names = set(wheel.namelist())
        [path] = [n for n in names if n.endswith(".dist-info/METADATA")]
        metadata = email.message_from_string(wheel.read(path).decode())
    return source, names, metadata


def test_metadata(built: tuple[set[str], set[str], Message]) -> None:
    metadata = built[2]
    for name in ("Summary", "Keywords", "License-Expression", "License-File", "Requires-Python", "Classifier"):
        assert metadata[name], name
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
    given = metadata.get_all("Classifier", [])
    assert not [c for c in given if c not in classifiers]
    least = metadata["Requires-Python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {least}" in given
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])


def test_the_version_is_semantic_and_has_its_changes(built: tuple[set[str], set[str], Message]) -> None:
    version = built[2]["Version"]
    assert version == tilewright.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version)
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_has_the_package_and_nothing_else(built: tuple[set[str], set[str], Message]) -> None:
    names = {n for n in built[1] if ".dist-info/" not in n}
    package = ROOT / "src" / "tilewright"
    wanted = {
        f"tilewright/{p.relative_to(package).as_posix()}" for p in package.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }  # fmt: skip
    assert names == wanted
    assert "tilewright/py.typed" in names


def test_the_archive_has_what_its_makefile_needs(built: tuple[set[str], set[str], Message]) -> None:
    source = built[0]
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", ".ci/run"))
    paths = {n for n in re.findall(r"[\w./-]+", text) if "/" in n and n[0] not in "/." and "_build" not in n}
    named = {n for n in paths if (ROOT / n).is_file()}
    assert len(named) >= 3
    assert not [n for n in (*named, "README.md", "LICENSE", "pyproject.toml", ".ci/run") if n not in source]
