"""Runs a driver's compiler in a worker process, which a source may crash."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.backends.compiler_worker import serve
from tilewright.backends.confine import one_line
from tilewright.backends.opencl import devices
from tilewright.backends.opencl.code import packed
from tilewright.backends.toolchain import CompileError


def compiled(source: str, arguments: Sequence[str]) -> tuple[bytes, str]:
    """Artifact of a source. ``arguments``: the device's variant, then the compiler's options."""
    cl, device = devices.pyopencl(), devices.find(arguments[0])
    program = cl.Program(cl.Context([device.handle]), source)
    try:
        program.build(list(arguments[1:]), cache_dir=False)
    except cl.Error as e:
        lines = [x for x in str(e).splitlines() if "error" in x.lower()]
        raise CompileError(one_line((lines or ["the OpenCL compiler failed"])[0]), str(e)) from None
    i = cl.kernel_work_group_info
    facts = {"shared_bytes": i.LOCAL_MEM_SIZE, "private_bytes": i.PRIVATE_MEM_SIZE, "max_threads": i.WORK_GROUP_SIZE}
    kernels = {
        k.function_name: {name: int(k.get_work_group_info(what, device.handle)) for name, what in facts.items()}
        for k in program.all_kernels()
    }
    return packed(program.binaries[0], device.version, kernels), ""


if __name__ == "__main__":
    serve(compiled)
