"""The catalogue of knobs: for each idea a label in the field's terms and a sentence, for knobs of all templates."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Knob:
    """A knob of a template. ``name``: its stored name; ``label``: the idea's label; ``sentence``: the meaning of its
    values."""

    name: str
    label: str
    sentence: str = ""

    def __str__(self) -> str:
        return self.name if self.label == self.name else f"{self.label} ({self.name})"


@cache
def ideas() -> dict[str, tuple[str, tuple[str, ...]]]:
    """For each label, the sentence and the stored names of its knobs, as listed in ``knobs.toml``."""
    text = (files("tilewright.search_space") / "knobs.toml").read_text()
    return {label: (found["sentence"], tuple(found["knobs"])) for label, found in tomllib.loads(text).items()}


@cache
def knob(template: str, name: str) -> Knob:
    """The knob of a stored name. A knob outside of the catalogue, as of a user's kernel, has its name as its label."""
    labels, device = _labels(), template.partition("_")[0]
    built_in = any(known.startswith(f"{device}.") for known in labels)
    for short in _short(name) if built_in else ():
        for scope in (f"{template}.", f"{device}.", ""):
            if (label := labels.get(scope + short)) is not None:
                return Knob(name, label, ideas()[label][0])
    return Knob(name, name)


@cache
def _labels() -> dict[str, str]:
    return {name: label for label, (_, knobs) in ideas().items() for name in knobs}


def _short(name: str) -> Iterator[str]:
    """The name itself, then without a part's prefix (``p0.``), without a stage's (``y_``), and without an axis
    number."""
    name = re.sub(r"^p\d+\.", "", name)
    yield name
    for found in re.finditer("_", name):
        yield name[found.end() :]
    yield re.sub(r"\d+$", "", name)
