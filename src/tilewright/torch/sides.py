"""The two sides of a graph, forward and backward, for Inductor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Pair:
    """State that Inductor's compilation of a forward graph passes to its backward graph.

    ``device``: the device. ``partitioned``: whether CUDA graphs record the forward graph in several partitions.
    """

    device: Any = None
    partitioned: bool = False


@dataclass(frozen=True)
class Side:
    """A forward graph, or the backward graph of the same ``pair``.

    ``inference``: without gradients. ``static``: numbers of inputs with a constant address; for a backward graph,
    without the tensors that the forward graph saved. ``replays``: whether CUDA graphs may record its calls.
    """

    pair: Pair
    backward: bool
    inference: bool
    static: Sequence[int]
    replays: bool
