"""Programs and drivers that tests need and no package index has.

A test that is marked with ``pytest.mark.needs("promtool")`` is skipped where there is no promtool, and says what to
install. ``make test-needs`` runs the marked tests alone.
"""

from __future__ import annotations

import shutil

from tilewright.backends.cpu.targets import host_arch
from tilewright.backends.opencl import devices

PACKAGES = {
    "OpenCL": "pocl-opencl-icd",
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    "chromium": "chromium",
    "clang++": "clang",
    "git": "git",
    "munged": "munge",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "systemd-analyze": "systemd",
}
"""Debian's package of each."""

OTHER_NAMES = {
    "aarch64-linux-gnu-g++": ("g++", "c++", "clang++") if host_arch() == "aarch64" else (),
    "chromium": ("chromium-browser", "google-chrome"),
}


def find(program: str) -> str | None:
    """Path of a program on the PATH, under any of its names; ``None`` without one."""
    return next(filter(None, map(shutil.which, (program, *OTHER_NAMES.get(program, ())))), None)


def reason(*names: str) -> str:
    """What of these is missing, and how to install it; empty where all is there."""
    missing = [n for n in names if not (devices.usable() if n == "OpenCL" else find(n))]
    packages = dict.fromkeys(PACKAGES[n] for n in missing)
    return f"needs {', '.join(missing)}: apt-get install {' '.join(packages)}" if missing else ""
