#!/usr/bin/env python3
"""Fills a folder with links to the programs that a container with Debian, Python, make and g++ has, and to no others.

    python3 scripts/fresh_path.py FOLDER && PATH=FOLDER make test

With such a PATH a machine has what a fresh one has, whatever was installed on it since.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ASKED = {"make", "g++", "python3-venv"}
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
FIELDS = ("Package", "Essential", "Priority", "Pre-Depends", "Depends")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    owned = set(_said("dpkg-query", "--listfiles", *sorted(packages())))
    for place in map(Path, FOLDERS):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            if program.is_file() and not link.is_symlink() and {str(program), str(program.resolve())} & owned:
                link.symlink_to(program)
    for name in ("python3", "python"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(sys.executable)


def packages() -> set[str]:
    """What every Debian has, what is asked for, and what these depend on."""
    depends: dict[str, set[str]] = {}
    found = set(ASKED)
    for line in _said("dpkg-query", "--show", "--showformat", "\t".join(f"${{{f}}}" for f in FIELDS) + "\n"):
        package, essential, priority, *needed = line.split("\t")
        alternatives = ",".join(needed).replace("|", ",").split(",")
        depends[package] = {name for a in alternatives if (name := a.strip().partition(" ")[0].partition(":")[0])}
        if essential == "yes" or priority == "required":
            found.add(package)
    todo = list(found)
    while todo:
        new = depends.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found & depends.keys()


def _said(*command: str) -> list[str]:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
