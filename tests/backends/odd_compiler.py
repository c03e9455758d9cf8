"""A compiler whose sources say what becomes of it, in a worker process."""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Sequence

from tilewright.backends import compiler_worker
from tilewright.backends.toolchain import CompileError
from tilewright.core import TilewrightError

compiler_worker.IDLE = float(os.environ.get("ODD_IDLE", "60"))
spoilt: list[str] = []


def compiled(source: str, arguments: Sequence[str]) -> tuple[bytes, str]:
    """The worker's process id as code, unless the source's first word asks for something else."""
    word, _, rest = source.partition(" ")
    if spoilt or word == "die":
        print("last words", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if word == "spoil":
        spoilt.append(source)
    elif word == "forge":
        for number in os.listdir("/proc/self/fd"):
            if os.path.exists(f"/proc/self/fd/{number}") or int(number) < 3:
                continue
            os.write(int(number), struct.pack("!I", len(rest)) + rest.encode())
    elif word == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif word == "exit":
        os._exit(int(rest))
    elif word == "raise":
        raise ValueError(rest)
    elif word == "wrong":
        raise CompileError("line 1: error: wrong", "all of the log")
    elif word == "host":
        raise TilewrightError("the disk is full", "Free some space")
    elif word == "hang":
        for path in arguments:  # one who waits for it to begin opens the other end
            with open(path, "w") as begun:
                begun.write(str(os.getpid()))
        signal.pause()
    elif word == "interrupt":
        os.kill(os.getppid(), signal.SIGINT)
        signal.pause()
    elif word == "large":
        return bytes(int(rest)), ""
    elif word == "grow":
        bytearray(int(rest))
    elif word == "environment":
        return "\n".join(os.environ).encode(), sys.stdin.read()
    elif word == "meet":
        with open(arguments[0], arguments[1]):
            pass
    return str(os.getpid()).encode(), f"{len(source)} characters"


if __name__ == "__main__":
    compiler_worker.serve(compiled)
