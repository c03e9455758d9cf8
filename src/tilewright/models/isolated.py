"""Computes a model's node with onnxruntime in a child process with limited memory and time.

So no model file can exhaust the machine's memory or time. The child receives requests as JSON, and arrays go through
two files. The child may run a hostile model, so its answer is limited to bytes with a type and a shape; the parent
executes nothing from it.
"""

from __future__ import annotations

import math
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tilewright.backends.channel import Channel, ChannelClosed
from tilewright.closing import Closing
from tilewright.measure import sandbox
from tilewright.measure.child import Child, ChildDied
from tilewright.measure.lifetime import die_with_parent
from tilewright.measure.messages import Ready, send
from tilewright.measure.worker import limit_resources
from tilewright.models.model_file import Array, onnx_module

MEMORY = 1 << 30
"""Bytes of memory that the child may use for a node, on top of onnxruntime's own."""

Described = list[tuple[str, str, tuple[int, ...]]]
"""Arrays in the order of their bytes in the file: name, element type, shape."""


class IsolatedRuntime(Closing):
    """A child process that computes nodes one after the other; it starts with the first node."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._folder: TemporaryDirectory[str] | None = None

    def run(self, proto: Any, large: Mapping[str, Array], seconds: float) -> dict[str, Array] | None:
        """The outputs of a model without inputs, or ``None``.

        ``None``: onnxruntime refuses the model, or it exceeds the child's memory or ``seconds``. ``large``: weights
        that are kept out of the ``ModelProto``.
        """
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="tilewright-")
        given, made = (Path(self._folder.name, n) for n in ("given", "made"))
        whole = np.frombuffer(proto.SerializeToString(), np.uint8)
        request = {"given": str(given), "made": str(made), "arrays": write_arrays(given, {"": whole, **large})}
        try:
            if self._child is None:
                command = [sys.executable, "-m", "tilewright.models.isolated"]
                self._child = Child({"memory": MEMORY}, command)
            self._child.channel.send(request)
            answer = self._child.channel.receive(max(0.0, seconds))
            return read_arrays(made, answer["arrays"]) if "arrays" in answer else None
        except (ChannelClosed, TimeoutError, ChildDied):
            self.close_child()
            return None

    def close_child(self) -> None:
        """Kills the child; the next node starts a new one."""
        if self._child is not None:
            self._child.kill()
            self._child.bury()
            self._child = None

    def close(self) -> None:
        self.close_child()
        if self._folder is not None:
            self._folder.cleanup()


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> Described:
    """Writes numeric arrays one behind the other and returns their descriptions."""
    with path.open("wb") as out:
        for a in arrays.values():
            out.write(np.ascontiguousarray(a).reshape(-1).view(np.uint8).data)
    return [(n, a.dtype.name, a.shape) for n, a in arrays.items()]


def read_arrays(path: Path, described: Described) -> dict[str, Array]:
    """Reads the arrays that :func:`write_arrays` wrote. Raises ``ChannelClosed`` where the file's bytes do not fit."""
    data = np.fromfile(path, np.uint8)
    found: dict[str, Array] = {}
    at = 0
    try:
        for name, dtype, shape in described:
            size = math.prod(shape) * np.dtype(dtype).itemsize
            found[name] = data[at : at + size].view(np.dtype(dtype)).reshape(shape)
            at += size
    except (TypeError, ValueError) as e:
        raise ChannelClosed("arrays that do not fit their description") from e
    return found


def main(argv: list[str]) -> int:
    """Serves requests until the socket closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    die_with_parent(int(argv[2]))
    channel = Channel(socket.socket(fileno=int(argv[1])))
    try:
        settings = channel.receive()
        limits = sandbox.apply(True)  # before onnxruntime starts threads
        from tilewright.models import sessions

        sessions.runtime()
        limits |= limit_resources(settings["memory"])
        send(channel, Ready(limits))
        while True:
            channel.send(_answer(channel.receive(), sessions))
    except ChannelClosed:
        return 0


def _answer(request: Mapping[str, Any], sessions: Any) -> dict[str, Any]:
    try:
        given = read_arrays(Path(request["given"]), request["arrays"])
        proto = onnx_module().ModelProto.FromString(given.pop("").tobytes())
        made = sessions.Session(proto, given, optimised=False).run({})
        if not all(isinstance(a, np.ndarray) and a.dtype.kind != "O" for a in made.values()):
            return {"error": "no arrays of numbers"}
        return {"arrays": write_arrays(Path(request["made"]), made)}
    except Exception as e:  # for any error the parent leaves the node unfolded
        return {"error": f"{type(e).__name__}: {e!s:.200}"}


if __name__ == "__main__":
    sys.exit(main(sys.argv))
