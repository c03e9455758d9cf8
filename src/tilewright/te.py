"""``import tilewright.te``: the language of operators; an alias of the module ``tilewright.kernels.te``."""

import sys

from tilewright.kernels import te
from tilewright.kernels.te import *  # noqa: F403 (for type checkers)

sys.modules[__name__] = te
