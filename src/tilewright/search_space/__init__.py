"""Search spaces: knobs, constraints, and the legal schedules that they span."""

from __future__ import annotations

from typing import Union

from tilewright.search_space.catalogue import Knob, knob
from tilewright.search_space.knobs import Choice, Constraint, rule
from tilewright.search_space.space import SearchSpace
from tilewright.search_space.union import UnionSpace

Space = Union[SearchSpace, UnionSpace]

__all__ = ["Choice", "Constraint", "Knob", "SearchSpace", "Space", "UnionSpace", "knob", "rule"]
