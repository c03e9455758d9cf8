"""A forward graph and its backward graph, as Inductor is told of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Pair:
    """What Inductor remembers of a forward graph for its backward graph: the device, and whether CUDA graphs hold it
    in parts."""

    device: Any = None
    partitioned: bool = False


@dataclass(frozen=True)
class Side:
    """A forward graph, or the backward graph of the same ``pair``.

    ``inference``: without gradients. ``static``: inputs that are the same memory in every call, by number; of a
    backward graph those beside what the forward graph saved. ``replays``: whether CUDA graphs may hold its calls.
    """

    pair: Pair
    backward: bool
    inference: bool
    static: Sequence[int]
    replays: bool
