"""Warnings that a tuned kernel exists but was not used."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_HERE = str(Path(__file__).parent)


class MissedKernelWarning(UserWarning):
    """A tuned kernel has a call's shapes but could not answer the call; the message says what to change."""


def warn(message: str, through: tuple[str, ...] = ()) -> None:
    """Warns at the line that called into this package, or into packages in the folders ``through``."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_HERE, *through)):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(MissedKernelWarning(message), stacklevel=depth)
