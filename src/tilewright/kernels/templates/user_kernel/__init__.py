"""A kernel that the user wrote, its macros tuned: the template of one source file."""

from tilewright.kernels.templates.user_kernel.kernel import UserKernel, own_kernel
from tilewright.kernels.templates.user_kernel.template import UserTemplate

__all__ = ["UserKernel", "UserTemplate", "own_kernel"]
