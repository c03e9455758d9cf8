"""The driver's compiler in a process that may die of it: ``python -m ... VARIANT OUTPUT OPTIONS... < SOURCE``.

Exit status 0: the artifact was written; 1: the source is at fault, with the compiler's log on standard error.
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
        return 1
    info = cl.kernel_work_group_info
    kernels = {
        k.function_name: {
            "shared_bytes": int(k.get_work_group_info(info.LOCAL_MEM_SIZE, device.handle)),
            "private_bytes": int(k.get_work_group_info(info.PRIVATE_MEM_SIZE, device.handle)),
            "max_threads": int(k.get_work_group_info(info.WORK_GROUP_SIZE, device.handle)),
        }
        for k in program.all_kernels()
    }
    Path(argv[2]).write_bytes(packed(program.binaries[0], device.version, kernels))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
