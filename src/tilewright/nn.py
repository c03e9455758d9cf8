"""``import tilewright.nn``: functions on tensors; an alias of the module ``tilewright.kernels.nn``."""

import sys

from tilewright.kernels import nn
from tilewright.kernels.nn import *  # noqa: F403 (for type checkers)

sys.modules[__name__] = nn
