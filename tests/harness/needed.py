"""Programs and drivers that tests need and that no Python package provides.

A test marked with ``pytest.mark.needs("promtool")`` is skipped on a machine without promtool, and the skip's reason
says what to install. ``make test-needs`` runs only the marked tests.
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
"""Debian package of each program."""

OTHER_NAMES = {
    "aarch64-linux-gnu-g++": ("g++", "c++", "clang++") if host_arch() == "aarch64" else (),
    "chromium": ("chromium-browser", "google-chrome"),
}


def find(program: str) -> str | None:
    """Path of a program on the PATH, under any of its names; ``None`` if it is missing."""
    return next(filter(None, map(shutil.which, (program, *OTHER_NAMES.get(program, ())))), None)


def reason(*names: str) -> str:
    """Which programs are missing, and how to install them; empty if none is."""
    missing = [n for n in names if not (devices.usable() if n == "OpenCL" else find(n))]
    packages = dict.fromkeys(PACKAGES[n] for n in missing)
    return f"needs {', '.join(missing)}: apt-get install {' '.join(packages)}" if missing else ""
