"""``import tilewright.te``: the language of operators, the module that ``tilewright.te`` is."""

import sys

from tilewright.kernels import te
from tilewright.kernels.te import *  # noqa: F403 (for type checkers)

sys.modules[__name__] = te
