"""The generic template (CPU): a loop nest for every stage of every program."""

from tilewright.kernels.templates.generic.template import GenericCpu

__all__ = ["GenericCpu"]
