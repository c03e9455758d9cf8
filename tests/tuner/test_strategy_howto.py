"""The strategy how-to's code satisfies the contract that it promises."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tilewright.testing.strategy as contract

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "strategy.md"
for block in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
    exec(compile(block, str(PAGE), "exec"), globals())


def test_the_page_defines_what_it_describes() -> None:
    defined = sys.modules[__name__]
    assert issubclass(defined.TestHillClimbing, contract.StrategyContract)
