"""Every template on programs that vary in which axis is innermost, in the inputs and in the result."""

from __future__ import annotations

from axis_order_programs import PROGRAMS

from tilewright.kernels.templates import TEMPLATES
from tilewright.testing.template import ResultContract


class TestAxisOrders(ResultContract):
    templates = tuple(n for n, t in TEMPLATES.items() if "cpu" in t.kinds and n not in ("cpu_generic", "cpu_partition"))
    programs = PROGRAMS
    schedules = 0
