"""The template of a user's own kernel: one source file, whose macros are the knobs."""

from tilewright.kernels.templates.user_kernel.kernel import UserKernel, own_kernel
from tilewright.kernels.templates.user_kernel.template import UserTemplate

__all__ = ["UserKernel", "UserTemplate", "own_kernel"]
