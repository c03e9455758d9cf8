"""What would be published: a source archive, and the wheel that is built of it alone."""

from __future__ import annotations

import contextlib
import email
import gzip
import json
import os
import re
import tarfile
import tomllib
import zipfile
from email.message import Message
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tilewright

ROOT = Path(__file__).parents[1]

hatchling = pytest.importorskip("hatchling.build", reason="building needs the development tools")
classifiers = pytest.importorskip("trove_classifiers").classifiers


class Built(NamedTuple):
    """Names in the archive (without its folder) and in the wheel, the wheel's metadata, and the wheel."""

    source: set[str]
    names: set[str]
    metadata: Message
    wheel: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    hasty = partial(gzip.GzipFile, compresslevel=1)  # as small as it can be it takes two seconds more
    with contextlib.chdir(ROOT), patch("hatchling.builders.sdist.gzip.GzipFile", hasty):
        name = hatchling.build_sdist(str(folder))
    with tarfile.open(folder / name) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    [unpacked] = (p for p in folder.iterdir() if p.is_dir())
    with contextlib.chdir(unpacked):
        path = folder / hatchling.build_wheel(str(folder))
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        [name] = [n for n in names if n.endswith(".dist-info/METADATA")]
        metadata = email.message_from_string(wheel.read(name).decode())
    return Built(source, names, metadata, path)


def test_the_packages_metadata_is_complete(built: Built) -> None:
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


def test_the_version_is_semantic_and_has_its_changes(built: Built) -> None:
    version = built[2]["Version"]
    assert version == tilewright.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version)
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_wheel_has_the_package_and_nothing_else(built: Built) -> None:
    names = {n for n in built[1] if ".dist-info/" not in n}
    package = ROOT / "src" / "tilewright"
    wanted = {
        f"tilewright/{p.relative_to(package).as_posix()}" for p in package.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }  # fmt: skip
    assert names == wanted
    assert "tilewright/py.typed" in names


def test_the_archive_has_what_its_makefile_needs(built: Built) -> None:
    source = built[0]
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", ".ci/run"))
    paths = {
        n
        for n in re.findall(r"[\w./-]+", text)
        if "/" in n and n[0] not in "/." and "_build" not in n and "node_modules" not in n
    }
    named = {n for n in paths if (ROOT / n).is_file()}
    assert len(named) >= 3
    pins = ("constraints.txt", "requirements.txt")
    assert not [n for n in (*named, *pins, "README.md", "LICENSE", "pyproject.toml", ".ci/run") if n not in source]


def test_two_builds_make_the_same_wheel(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the archive and from the sources, whose files have other times and modes."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    before = os.umask(0o077)
    try:
        with contextlib.chdir(ROOT):
            again = tmp_path / hatchling.build_wheel(str(tmp_path))
    finally:
        os.umask(before)
    assert again.name == built.wheel.name
    assert again.read_bytes() == built.wheel.read_bytes()


def test_the_wheel_has_a_bill_of_all_that_it_asks_for(built: Built) -> None:
    [name] = [n for n in built.names if "/sboms/" in n]
    assert name == f"tilewright-{tilewright.__version__}.dist-info/sboms/tilewright.cdx.json"
    with zipfile.ZipFile(built.wheel) as wheel:
        bill = json.loads(wheel.read(name))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/tilewright@{tilewright.__version__}"
    parts = {p["name"]: p for p in bill["components"]}
    asked = [Requirement(r) for r in built.metadata.get_all("Requires-Dist", [])]
    wanted = {canonicalize_name(r.name) for r in asked if not re.search(r"extra == .(dev|test)\b", str(r.marker))}
    assert set(parts) == wanted
    assert [n for n, p in parts.items() if p["scope"] == "required"] == ["numpy"]
    for name, version in pinned("constraints.txt").items():
        if name in parts:
            assert parts[name]["version"] == version
            assert parts[name]["bom-ref"] == parts[name]["purl"] == f"pkg:pypi/{name}@{version}"
    assert bill["dependencies"][0]["dependsOn"] == [p["bom-ref"] for p in bill["components"]]


# --------------------------------------------------------------------------- pins


def pinned(name: str) -> dict[str, str]:
    """Versions by the packages' normalised names."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(n): v.split()[0] for n, is_, v in (x.partition("==") for x in lines) if is_}


def test_each_pin_has_hashes() -> None:
    assert pinned("requirements.txt") == pinned("constraints.txt"), "run: make pins"
    blocks = re.split(r"\n(?=\S)", (ROOT / "requirements.txt").read_text(encoding="utf-8"))
    assert [b for b in blocks if b[0] != "#" and not re.search(r"--hash=sha256:[0-9a-f]{64}", b)] == []


def test_pins_name_no_package_index() -> None:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("constraints.txt", "requirements.txt"))
    assert not re.search(r"https?://|file:|--\w*index|--find-links|\.whl", text)


def test_what_the_development_tools_ask_for_is_pinned() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    pins = pinned("constraints.txt")
    asked = [Requirement(r) for extra in ("tune", "dashboard", "plot", "optuna", "dev") for r in extras[extra]]
    here = [r for r in asked if r.marker is None or r.marker.evaluate({"sys_platform": "linux"})]
    assert len(here) > 50
    assert [str(r) for r in here if pins.get(canonicalize_name(r.name), "0") not in r.specifier] == []
