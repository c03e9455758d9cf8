"""CUDA architectures: resource limits of each, and the peak rates of one well-known product.

Limits of an architecture come from the CUDA C++ Programming Guide, "Compute Capabilities", tables
"Technical Specifications per Compute Capability" and "Feature Support". Figures of a product
(multiprocessors, clock, caches, bandwidth, peaks) come from the document named beside it. On a machine with a GPU, the
GPU's own figures replace the product's (:func:`with_device`).

Names in ``Target.limits``: ``cc``, ``sms``, ``shared_per_block`` (opt-in maximum, bytes),
``shared_per_sm``, ``shared_reserved`` (bytes that the system takes from every block), ``registers_per_sm``
(32-bit), ``registers_per_thread``, ``threads_per_block``, ``threads_per_sm``, ``blocks_per_sm``, ``l2_bytes``,
``clock_hz``, ``bandwidth`` (bytes/s), ``fp32_flops``, ``fp64_flops`` (no Tensor Cores),
``fp16_tensor_flops`` (also bfloat16; float32 sums), ``tf32_tensor_flops``, ``int8_tensor_ops``,
``fp64_tensor_flops`` (the rate of CUDA cores if Tensor Cores are not faster): dense peaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.core import Pairs, Target, UsageError, Value

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class Architecture:
    """One compute capability, and the product that represents it without a device.

    ``lanes``: fused multiply-adds per clock and multiprocessor. The first two are float32 and float64. On Tensor Cores:
    float16 (float32 sums), TF32, int8 and float64 (the rate of CUDA cores if they are as fast).
    """

    cc: int
    product: str
    l1_bytes: int  # L1 and shared memory together, per multiprocessor
    shared_per_sm: int
    shared_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    lanes: tuple[float, float, float, float, float, float]
    sms: int
    clock_hz: float
    l2_bytes: int
    bandwidth: float
    peaks: tuple[float, float, float, float, float, float]  # of the product, as its vendor states them


# Shared memory, threads and blocks: CUDA C++ Programming Guide, table "Technical Specifications per Compute
# Capability". lanes: the same guide's "Arithmetic Instructions" throughput table, and the white papers' "Tensor
# Core FMA a clock and SM".
ARCHITECTURES: Mapping[str, Architecture] = {
    # A100 SXM 80 GB. "NVIDIA A100 Tensor Core GPU Architecture" white paper, table 4 (108 SMs, 1410 MHz, 40 MB L2,
    # peaks) and the A100 80GB data sheet (2039 GB/s).
    "sm_80": Architecture(
        80, "A100 SXM 80 GB", 192 * KIB, 164 * KIB, 163 * KIB, 2048, 32, (64, 32, 1024, 512, 2048, 64),
        108, 1.41e9, 40 * MIB, 2.039e12, (19.5e12, 9.7e12, 312e12, 156e12, 624e12, 19.5e12),
    ),
    # GeForce RTX 3090. "NVIDIA Ampere GA102 GPU Architecture" white paper, table 2 and appendix A (82 SMs,
    # 1695 MHz, 6144 KB L2, 936 GB/s, peaks; float64 is 1/64 of float32). Sums in float32 halve the float16 rate
    # of GeForce products; the A10 and A40 have the full one.
    "sm_86": Architecture(
        86, "GeForce RTX 3090", 128 * KIB, 100 * KIB, 99 * KIB, 1536, 16, (128, 2, 256, 128, 1024, 2),
        82, 1.695e9, 6 * MIB, 9.36e11, (35.6e12, 0.556e12, 71e12, 35.6e12, 284e12, 0.556e12),
    ),
    # Jetson AGX Orin 64 GB. "NVIDIA Jetson AGX Orin Series" technical brief (16 SMs, 1300 MHz, 4 MB L2, 204.8 GB/s;
    # float32 5.3 TFLOP/s and int8 170 TOP/s with sparsity, halved here; float16 and TF32 derived from the int8 rate).
    "sm_87": Architecture(
        87, "Jetson AGX Orin 64 GB", 192 * KIB, 164 * KIB, 163 * KIB, 1536, 16, (128, 2, 1024, 512, 2048, 2),
        16, 1.3e9, 4 * MIB, 2.048e11, (5.3e12, 0.083e12, 42.5e12, 21.3e12, 85e12, 0.083e12),
    ),
    # GeForce RTX 4090. "NVIDIA Ada GPU Architecture" white paper, table 2 and appendix A (128 SMs, 2520 MHz,
    # 73728 KB L2, 1008 GB/s, peaks). The L40S has the full float16 rate, 142 SMs and 864 GB/s.
    "sm_89": Architecture(
        89, "GeForce RTX 4090", 128 * KIB, 100 * KIB, 99 * KIB, 1536, 24, (128, 2, 256, 128, 1024, 2),
        128, 2.52e9, 72 * MIB, 1.008e12, (82.6e12, 1.29e12, 165.2e12, 82.6e12, 660.6e12, 1.29e12),
    ),
    # H200 SXM. Data sheet "NVIDIA H200 Tensor Core GPU" (4.8 TB/s; peaks with sparsity, halved here, given for a
    # clock of 1830 MHz); "NVIDIA H100 Tensor Core GPU Architecture" white paper, table 3 (132 SMs, one
    # chip for both). Clock: the maximum that the driver reports, at which 67 TFLOP/s of float64 on Tensor Cores are 128
    # multiply-adds per clock and SM; L2: 60 MB as the driver reports it (the H100 has 50).
    "sm_90a": Architecture(
        90, "H200 SXM", 256 * KIB, 228 * KIB, 227 * KIB, 2048, 32, (128, 64, 2048, 1024, 4096, 128),
        132, 1.98e9, 60 * MIB, 4.8e12, (67e12, 34e12, 989.5e12, 494.7e12, 1979e12, 67e12),
    ),
    # B200 SXM. Data sheets "NVIDIA DGX B200" and "HGX B200", an eighth of the system's figures (8 TB/s; float16
    # 4.5, TF32 2.25 PFLOP/s and int8 9 POP/s with sparsity, halved here; float32 75, float64 37 TFLOP/s). 148 SMs,
    # 1965 MHz and 126 MB of L2 as the driver reports them.
    "sm_100": Architecture(
        100, "B200 SXM", 256 * KIB, 228 * KIB, 227 * KIB, 2048, 32, (128, 64, 4096, 2048, 8192, 64),
        148, 1.965e9, 126 * MIB, 8.0e12, (75e12, 37e12, 2250e12, 1125e12, 4500e12, 37e12),
    ),
    # GeForce RTX 5090. "NVIDIA RTX Blackwell GPU Architecture" white paper, table 3 and appendix A (170 SMs,
    # 2407 MHz, 98304 KB L2, 1792 GB/s, peaks; float16 with float32 sums, int8 dense).
    "sm_120": Architecture(
        120, "GeForce RTX 5090", 128 * KIB, 100 * KIB, 99 * KIB, 1536, 24, (128, 2, 256, 128, 1024, 2),
        170, 2.407e9, 96 * MIB, 1.792e12, (104.8e12, 1.64e12, 209.5e12, 104.8e12, 838e12, 1.64e12),
    ),
}  # fmt: skip

VARIANTS = tuple(ARCHITECTURES)
"""Names of the architectures, oldest first."""

DEFAULT = "sm_90a"
"""Architecture that ``cuda`` means without a GPU, when only source or a cubin is wanted."""

_PEAKS = ("fp32_flops", "fp64_flops", "fp16_tensor_flops", "tf32_tensor_flops", "int8_tensor_ops", "fp64_tensor_flops")

# Architectures whose code runs on a device of a compute capability, best first. Code of an "a" variant runs on that
# capability alone, code of a plain one also on later minor versions of its generation. Jetson runs only its own code
# (CUDA C++ Programming Guide, "Binary Compatibility").
_RUNS: Mapping[int, tuple[str, ...]] = {
    80: ("sm_80",), 86: ("sm_86", "sm_80"), 87: ("sm_87",), 89: ("sm_89", "sm_86", "sm_80"), 90: ("sm_90a",),
    100: ("sm_100",), 103: ("sm_100",), 120: ("sm_120",), 121: ("sm_120",),
}  # fmt: skip


def target(variant: str) -> Target:
    """The target of an architecture, with the limits of its table. Raises ``UsageError`` for an unknown name."""
    a = ARCHITECTURES.get(variant)
    if a is None:
        raise UsageError(f"unknown CUDA architecture {variant!r}", _suggest(variant))
    limits: tuple[tuple[str, Value], ...] = (
        ("cc", a.cc),
        ("sms", a.sms),
        ("shared_per_block", a.shared_per_block),
        ("shared_per_sm", a.shared_per_sm),
        ("shared_reserved", KIB),
        ("registers_per_sm", 65536),
        ("registers_per_thread", 255),
        ("threads_per_block", 1024),
        ("threads_per_sm", a.threads_per_sm),
        ("blocks_per_sm", a.blocks_per_sm),
        ("l2_bytes", a.l2_bytes),
        ("clock_hz", a.clock_hz),
        ("bandwidth", a.bandwidth),
        *zip(_PEAKS, a.peaks, strict=True),
    )
    return _target(variant, limits)


def with_device(variant: str, found: Mapping[str, Value]) -> Target:
    """The target of an architecture with the limits that a device reports, under their names in ``limits``.

    Peaks are computed from the device's multiprocessors and clock. Values that it does not report (zero) stay as in the
    table.
    """
    plain = target(variant)
    limits: dict[str, Value] = dict(plain.limits)
    limits.update({k: v for k, v in found.items() if k in limits and k not in _PEAKS and v})
    # The device's own minor version is a fact about it; the variant says which features the code may use.
    limits["cc"] = ARCHITECTURES[variant].cc
    if found.get("sms") and found.get("clock_hz"):
        rate = 2.0 * float(found["sms"]) * float(found["clock_hz"])
        limits.update({k: rate * x for k, x in zip(_PEAKS, ARCHITECTURES[variant].lanes, strict=True)})
    return _target(variant, tuple(limits.items()))


def variants_for(cc: int) -> tuple[str, ...]:
    """Architectures whose code runs on a device of compute capability ``cc`` (90), best first; may be empty."""
    return _RUNS.get(cc, ())


def _target(variant: str, limits: Pairs) -> Target:
    values = dict(limits)
    l2 = int(values["l2_bytes"])
    return Target(
        kind="cuda", variant=variant, arch="cuda", isa=(variant,), vector_bytes=16, registers=255, threads=1,
        l1_bytes=ARCHITECTURES[variant].l1_bytes, l2_bytes=l2, l3_bytes=l2, limits=limits,
    )  # fmt: skip


def _suggest(variant: str) -> str:
    known = ", ".join(VARIANTS)
    for close in (f"{variant}a", variant.rstrip("af"), f"sm_{variant}", f"sm_{variant}a"):
        if close in ARCHITECTURES:
            return f"Use {close}; known are {known}"
    return f"Use one of {known}"


# --------------------------------------------------------------------------- a device's report

# CUdevice_attribute (numerically equal to cudaDeviceAttr), by names in Target.limits.
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
    """A device's limits. ``attribute`` returns the value of a ``CUdevice_attribute``.

    Memory transfers two words per clock of its bus.
    """
    found: list[tuple[str, Value]] = [("cc", 10 * attribute(_MAJOR) + attribute(_MINOR))]
    found += [(name, attribute(number)) for name, number in _ATTRIBUTES.items()]
    found.append(("clock_hz", 1e3 * attribute(_CLOCK)))
    found.append(("bandwidth", 2.0 * 1e3 * attribute(_MEMORY_CLOCK) * attribute(_BUS_WIDTH) / 8))
    found.append(("memory_bytes", memory_bytes))
    return tuple(found)
