"""Models of which sizes stay open: read once for all of them, and compared with what they are for some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.core import Extent
from tilewright.extent import values_at
from tilewright.models.importer import Imported, Importer
from tilewright.models.model_file import Model

SHARES = (0.0, 0.55)
"""Places in the ranges at which a model is read once more."""

OTHERWISE = "it is stated otherwise for some of the sizes"


def imported(model: Model) -> Imported:
    """The model as a graph. Raises ``UsageError`` for inputs and weights that cannot be read.

    What an operator becomes is the same expression for every size: comparisons of sizes that differ from size to size
    leave it to onnxruntime, and so does a difference from what it becomes where sizes are numbers.
    """
    leave: dict[str, str] = {}
    while True:
        importer = Importer(model, leave=leave)
        found = importer.run()
        wrong = {n for sizes in tried(model.open_sizes) for n in _different(importer, model, sizes)} - leave.keys()
        if not wrong:
            return found
        leave.update(dict.fromkeys(wrong, OTHERWISE))


def tried(extents: Mapping[str, Extent]) -> Iterator[dict[str, int]]:
    """Sizes at which a model is compared: not of one element where others are, which is a case of its own."""
    if extents:
        for share in SHARES:
            yield {n: max(e.low + round(share * (e.high - e.low)), min(2, e.high)) for n, e in extents.items()}


def _different(importer: Importer, model: Model, sizes: Mapping[str, int]) -> Iterator[str]:
    """The first outputs of nodes that are otherwise for these sizes."""
    other = Importer(model.at(sizes))
    other.run()
    for name, made in importer.made.items():
        theirs = other.made.get(name)
        if theirs is None and name in other.constants:
            continue
        if theirs is None or repr(values_at(made, sizes)) != repr(theirs):
            yield name
