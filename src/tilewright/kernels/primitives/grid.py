"""Launches that begin before the one in front of them has ended, and what a thread reads of that one's results.

Programmatic dependent launch: blocks of the next launch may start once every block of this one has said so or ended;
``grid_wait`` ends when the launches before have, whose writes are seen then. Before Hopper, and where the launch was
not allowed to begin early, both do nothing.
"""

from __future__ import annotations

from tilewright.kernels.primitives.primitive import Conformance, Primitive, words

_PTX = """
#if __CUDA_ARCH__ >= 900
TW_DEVICE void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
TW_DEVICE void grid_launch() { asm volatile("griddepcontrol.launch_dependents;"); }
#else
TW_DEVICE void grid_wait() {}
TW_DEVICE void grid_launch() {}
#endif
"""

_EMULATED = """
TW_DEVICE void grid_wait(int line = __builtin_LINE()) { emu::grid_wait(line); }
TW_DEVICE void grid_launch(int = __builtin_LINE()) {}
"""

_BODY = """
    tw::grid_launch();
    tw::grid_wait();
    out[threadIdx.x] = x0[threadIdx.x] + 1;
"""

PRIMITIVE = Primitive(
    "grid",
    "the end of the launches before this one, and leave for the next one to begin",
    80,
    _PTX,
    _EMULATED,
    ("grid_wait", "grid_launch"),
    (Conformance("alone", _BODY, lambda: (words(32, 81),), "uint32", 32, lambda x: x + 1),),
)
