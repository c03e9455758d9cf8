"""A kernel that the user wrote, its macros tuned: the template of one source file."""

from tilewright.kernels.templates.own.kernel import OwnKernel, own_kernel
from tilewright.kernels.templates.own.template import OwnTemplate

__all__ = ["OwnKernel", "OwnTemplate", "own_kernel"]
