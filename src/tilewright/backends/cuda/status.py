"""CUDA's status codes as tilewright's errors.

Codes are the driver's (``CUresult``) and the runtime's (``cudaError_t``); both agree on the codes below.
"""

from __future__ import annotations

from tilewright.backends.driver import DeviceError, LaunchError, LoadError, NoDriver, OutOfMemory
from tilewright.core import TilewrightError

OUT_OF_MEMORY = 2
_NO_DEVICE = {100: "there is no CUDA device", 101: "there is no CUDA device of that number"}
_DRIVER_TOO_OLD = (35, 36, 803, 804)  # insufficient driver, call needs a newer one, mismatch, compatibility mode

# Errors after which every call of the process fails until it ends.
STICKY = {
    214: "an uncorrectable memory error",
    220: "an error of the link between GPUs",
    700: "an access to memory outside the kernel's buffers",
    702: "a kernel that ran too long and was stopped by the system",
    707: "a stack error",
    710: "a failed assertion",
    714: "a hardware stack error",
    715: "an illegal instruction",
    716: "a misaligned access",
    717: "an access to the wrong kind of memory",
    718: "a jump to an invalid address",
    719: "a kernel that failed for an unspecified reason",
    721: "a contained memory error of another process",
    999: "an unknown error",
    46: "the device is gone or busy",
    709: "the device's context was destroyed",
}
_LOAD = {
    200: "the code is damaged or of a kind that this driver does not know",
    209: "the code is for another architecture than the device's",
    218: "the code is damaged",
    222: "the code was made by a later CUDA than this driver knows",
    225: "the code was made by a later CUDA than this driver knows",
    300: "the code is damaged",
    500: "the code has no kernel of that name",
}
_LAUNCH = {
    1: "an argument is out of range",
    9: "the grid or the block is of an impossible size",
    98: "the kernel's code is not for this device",
    400: "a handle is of another context, or closed",
    701: "the block takes more registers or shared memory than there are",
    720: "a cooperative launch is too large",
}

# Texts of cuGetErrorString by code, for bindings whose exceptions have only the text.
_TEXTS = {
    "invalid argument": 1,
    "out of memory": 2,
    "no CUDA-capable device is detected": 100,
    "invalid device ordinal": 101,
    "device kernel image is invalid": 200,
    "invalid device context": 201,
    "no kernel image is available for execution on the device": 209,
    "uncorrectable ECC error encountered": 214,
    "a PTX JIT compilation failed": 218,
    "the provided PTX was compiled with an unsupported toolchain": 222,
    "named symbol not found": 500,
    "invalid resource handle": 400,
    "an illegal memory access was encountered": 700,
    "too many resources requested for launch": 701,
    "the launch timed out and was terminated": 702,
    "context is destroyed": 709,
    "device-side assert triggered": 710,
    "an illegal instruction was encountered": 715,
    "misaligned address": 716,
    "operation not supported on global/shared address space": 717,
    "invalid program counter": 718,
    "unspecified launch failure": 719,
    "system has unsupported display driver / cuda driver combination": 803,
    "unknown error": 999,
}


def code_of(text: str) -> int | None:
    """The status code of an error text, or ``None``."""
    for words, code in _TEXTS.items():
        if words in text:
            return code
    return None


def error_of(code: int | None, text: str, doing: str) -> TilewrightError:
    """The error for a status. ``text``: CUDA's own text; ``doing``: the failed action (``launching tw_x``)."""
    said = " ".join(text.split()) or f"status {code}"
    if code == OUT_OF_MEMORY:
        return OutOfMemory(f"the device is out of memory while {doing}", "Free some, or use smaller sizes")
    if code in STICKY:
        return DeviceError(
            f"the device failed with {STICKY[code]} ({said}), noticed while {doing}", True, "Start a new process"
        )
    if code in _NO_DEVICE:
        return NoDriver(_NO_DEVICE[code], "Use --target cpu, or run where there is an NVIDIA GPU")
    if code in _DRIVER_TOO_OLD:
        return NoDriver(f"the NVIDIA driver is too old or does not match ({said})", "Update the driver")
    if code in _LOAD:
        return LoadError(f"{_LOAD[code]} ({said}), while {doing}", "Build it again for this device and driver")
    if code in _LAUNCH:
        return LaunchError(f"{_LAUNCH[code]} ({said}), while {doing}")
    return DeviceError(f"the device failed ({said}) while {doing}", False)
