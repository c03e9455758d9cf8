"""What knobs mean: a label in the field's terms and a sentence for each idea, whatever templates call it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Knob:
    """A knob of a template. ``name``: as it is stored; ``label``: the idea's, ``sentence``: what a value of it says."""

    name: str
    label: str
    sentence: str = ""

    def __str__(self) -> str:
        return self.name if self.label == self.name else f"{self.label} ({self.name})"


@cache
def ideas() -> dict[str, tuple[str, tuple[str, ...]]]:
    """By label: the sentence, and the knobs that it stands for, as ``knobs.toml`` lists them."""
    text = (files("tilewright.search_space") / "knobs.toml").read_text()
    return {label: (found["sentence"], tuple(found["knobs"])) for label, found in tomllib.loads(text).items()}


@cache
def knob(template: str, name: str) -> Knob:
    """The knob of that stored name. One that the catalogue does not have, as of a user's kernel, is its own label."""
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
    """The name, then without a segment (``p0.``), a stage (``y_``), and the number of an axis."""
    name = re.sub(r"^p\d+\.", "", name)
    yield name
    for found in re.finditer("_", name):
        yield name[found.end() :]
    yield re.sub(r"\d+$", "", name)
