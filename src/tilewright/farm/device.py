"""A runner's description of its device, read from a message."""

from __future__ import annotations

import re
from typing import Any

from tilewright.backends import BACKENDS, get_backend
from tilewright.farm.jobs import understood
from tilewright.measure.devices import DeviceDescription
from tilewright.serialization import WORD, decode
from tilewright.units import counted

_CLASS = r"[a-z0-9][a-z0-9.+-]{0,99}"


class RunnerDevice(DeviceDescription):
    """A device description that a runner sent."""

    @staticmethod
    def from_json(data: Any) -> RunnerDevice:
        """Reads and checks an untrusted description. Raises ``FarmError`` that names the field at fault.

        Whether the target exists is not checked here; the builder that compiles for it decides.
        """
        with understood("a runner described its device wrongly", "Use the same Tilewright version on both ends"):
            found = decode(RunnerDevice, data)
            target = found.target
            name = found.device.partition(":")[0]
            backend = get_backend(name if name in BACKENDS else next(iter(BACKENDS)))
            most = found.cores if backend.in_process else 1 << 16
            rules = (
                (_is(backend.device_form, found.device), "device is not a device's name"),
                (_is(_CLASS, found.device_class), "device_class is not a class' name"),
                (found.model, "model is empty"),
                # The target's names select compilers and their flags.
                (_is(WORD, target.variant), "target.variant is not a word"),
                (_is(WORD, target.arch), "target.arch is not a word"),
                (all(_is(WORD, x) for x in target.isa), "target.isa is not a list of words"),
                (target.vector_bytes and target.registers, "target.vector_bytes or target.registers is zero"),
                (target.kind in backend.kinds, f"target.kind {target.kind} does not run on {found.device}"),
                (
                    1 <= target.threads <= most,
                    f"target.threads: {target.threads} do not fit on {counted(found.cores, 'core')}",
                ),
            )
            for holds, otherwise in rules:
                if not holds:
                    raise ValueError(otherwise)
        return found


def _is(form: str, text: str) -> bool:
    return re.fullmatch(form, text, re.ASCII) is not None
