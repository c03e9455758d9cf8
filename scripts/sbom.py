"""Build hook: a bill of materials (CycloneDX 1.6, JSON) in each wheel's ``.dist-info/sboms/``, as PEP 770 says.

It lists what the wheel asks for and what its extras ask for, each with the version that CI tests (``constraints.txt``).
The wheel itself holds code of this project only. The same sources give the same bytes: no time, no random number.
"""

from __future__ import annotations

import json
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "tilewright.cdx.json"
NO_USERS = ("dev", "test")
"""Extras of those who work on the project."""


class BuildHook(BuildHookInterface):
    """Puts the bill into wheels, other than editable ones."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / NAME
        path.write_text(json.dumps(bill(Path(self.root), self.metadata.version), indent=1) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()


def bill(root: Path, version: str) -> dict[str, Any]:
    """The bill of materials of the project in ``root``."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {k: v for k, v in project["optional-dependencies"].items() if k not in NO_USERS}
    asked: dict[str, dict[str, list[str]]] = {}  # of a package: extras ("" for none) with their requirements
    for extra, requirements in {"": project["dependencies"], **extras}.items():
        for requirement in requirements:
            asked.setdefault(_name(requirement), {}).setdefault(extra, []).append(requirement)
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {_name(line): line.partition("==")[2] for line in lines if "==" in line}
    own = f"pkg:pypi/{project['name']}@{version}"
    parts = [_component(name, asked[name], pins) for name in sorted(asked)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library", "bom-ref": own, "name": project["name"], "version": version, "purl": own,
                "description": project["description"], "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": own, "dependsOn": [p["bom-ref"] for p in parts]}],
        # What those packages ask for in turn is theirs to say.
        "compositions": [{"aggregate": "incomplete_third_party_only", "dependencies": [own]}],
    }  # fmt: skip


def _component(name: str, asked: dict[str, list[str]], pins: dict[str, str]) -> dict[str, Any]:
    version = {"version": pins[name]} if name in pins else {}
    purl = f"pkg:pypi/{name}" + (f"@{pins[name]}" if name in pins else "")
    properties = [
        {"name": f"tilewright:requirement{f':{extra}' if extra else ''}", "value": requirement}
        for extra, requirements in asked.items()
        for requirement in requirements
    ]
    return {
        "type": "library", "bom-ref": purl, "name": name, **version, "purl": purl,
        "scope": "required" if "" in asked else "optional", "properties": properties,
    }  # fmt: skip


def _name(requirement: str) -> str:
    """The package's name, as package indexes normalise it."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()
