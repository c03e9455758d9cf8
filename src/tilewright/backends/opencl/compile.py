"""The driver's compiler in a process that may die of it: ``python -m ... VARIANT OUTPUT OPTIONS... < SOURCE``.

Exit status 0: the artifact was written; 3: the source is at fault, with the compiler's log on standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilewright.backends.opencl import devices
from tilewright.backends.opencl.code import packed


def main(argv: list[str]) -> int:
    """Compile standard input for a device."""
    cl, device = devices.pyopencl(), devices.find(argv[1])
    program = cl.Program(cl.Context([device.handle]), sys.stdin.read())
    try:
        program.build(argv[3:], cache_dir=False)
    except cl.Error as e:
        print(e, file=sys.stderr)
        return 3
    i = cl.kernel_work_group_info
    facts = {"shared_bytes": i.LOCAL_MEM_SIZE, "private_bytes": i.PRIVATE_MEM_SIZE, "max_threads": i.WORK_GROUP_SIZE}
    kernels = {
        k.function_name: {name: int(k.get_work_group_info(what, device.handle)) for name, what in facts.items()}
        for k in program.all_kernels()
    }
    Path(argv[2]).write_bytes(packed(program.binaries[0], device.version, kernels))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
