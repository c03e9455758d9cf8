"""Finds the programs of NVIDIA's toolkit on this machine."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from tilewright.core import TargetUnavailable


def find_tool(name: str, variable: str, missing: type[TargetUnavailable], purpose: str, hint: str) -> str:
    """The path of a program: from the environment's ``variable``, NVIDIA's wheels, ``$CUDA_HOME``, ``$CUDA_PATH``,
    /usr/local/cuda, ``$PATH`` or /opt/nvidia, in this order. Raises ``missing`` if it is nowhere."""
    given = os.environ.get(variable, "").strip()
    if given:
        if not os.access(given, os.X_OK):
            raise missing(f"{variable}={given} is not a program", hint)
        return given
    places: list[Path] = []
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        places += sorted(Path(folder).glob(f"*/bin/{name}"), reverse=True)
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if root:
            places.append(Path(root, "bin", name))
    if (found := shutil.which(name)) is not None:
        places.append(Path(found))
    places += sorted(Path("/opt/nvidia").glob(f"*/*/{name}"), reverse=True)
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    raise missing(f"there is no {name}, which {purpose}, on this machine", hint)
