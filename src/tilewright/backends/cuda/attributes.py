"""What a driver is asked about a device, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.core import Pairs, Value

# CUdevice_attribute, the same numbers as cudaDeviceAttr, by names in Target.limits.
_ATTRIBUTES = {
    "threads_per_block": 1,
    "sms": 16,
    "l2_bytes": 38,
    "threads_per_sm": 39,
    "shared_per_sm": 81,
    "registers_per_sm": 82,
    "shared_per_block": 97,
    "blocks_per_sm": 106,
    "shared_reserved": 111,
}
_CLOCK, _MEMORY_CLOCK, _BUS_WIDTH = 13, 36, 37  # kHz, kHz, bits
_MAJOR, _MINOR = 75, 76


def limits_of(attribute: Callable[[int], int], memory_bytes: int) -> Pairs:
    """A device's limits. ``attribute`` gives the value of a ``CUdevice_attribute``.

    Memory moves two words a clock of its bus.
    """
    found: list[tuple[str, Value]] = [("cc", 10 * attribute(_MAJOR) + attribute(_MINOR))]
    found += [(name, attribute(number)) for name, number in _ATTRIBUTES.items()]
    found.append(("clock_hz", 1e3 * attribute(_CLOCK)))
    found.append(("bandwidth", 2.0 * 1e3 * attribute(_MEMORY_CLOCK) * attribute(_BUS_WIDTH) / 8))
    found.append(("memory_bytes", memory_bytes))
    return tuple(found)
