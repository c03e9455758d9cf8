"""``tilewright doctor``: what is installed, what the machine is, what would be used and why."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

import click

from tilewright.cli.options import json_option
from tilewright.cli.output import console, emit_json

PACKAGES = {
    "numpy": "required",
    "xgboost-cpu": "cost model (extra: tune)",
    "xgboost": "cost model (extra: tune-gpu)",
    "SQLAlchemy": "database (extra: tune)",
    "alembic": "database migrations (extra: tune)",
    "click": "command line (extra: tune)",
    "rich": "command line (extra: tune)",
    "torch": "a baseline in bench (optional)",
}

PLATFORMS = {
    ("Linux", "x86_64"): "supported",
    ("Linux", "aarch64"): "supported",
    ("Darwin", "arm64"): "written for, unproven",
    ("Darwin", "aarch64"): "written for, unproven",
}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _problems(packages: dict[str, str | None]) -> list[str]:
    out = []
    if packages["xgboost"] and packages["xgboost-cpu"]:
        out.append("xgboost and xgboost-cpu are both installed and overwrite each other: pip uninstall one of them")
    if not (packages["xgboost"] or packages["xgboost-cpu"]):
        out.append("no xgboost: tuning needs it. Install it: pip install 'tilewright[tune]'")
    if not packages["SQLAlchemy"]:
        out.append("no SQLAlchemy: tuning needs it. Install it: pip install 'tilewright[tune]'")
    if platform.system() == "Windows":
        out.append("Windows is supported through WSL only: install it with wsl --install and work there")
    return out


def _cuda_rows(cuda: dict[str, Any]) -> list[tuple[str, str]]:
    """What of CUDA is here: the compiler, the GPUs, the packages that reach them."""
    nvrtc = cuda["nvrtc"]
    targets = " ".join(t.partition(":")[2] for t in nvrtc["targets"]) if nvrtc else ""
    rows = [("nvrtc", f"{nvrtc['version']} at {nvrtc['path']}, for {targets}" if nvrtc else "none")]
    for d in cuda["devices"]:
        rows.append((d["name"], f"{d['model']}, target {d['target'] or 'none'}, CUDA driver {cuda['cuda_driver']}"))
    if not cuda["devices"]:
        rows.append(("gpu", f"none: {'; '.join(p.partition('. ')[0] for p in cuda['problems'])}"))
    for name, entry in cuda["drivers"].items():
        if entry["installed"]:
            state = {True: "works", False: f"does not work: {entry.get('problem', '')}", None: "not tried"}[
                entry["works"]
            ]
            rows.append((name, f"{entry.get('version') or ''} {state}".strip()))
    return rows


@click.command("doctor")
@click.option(
    "--no-measure", is_flag=True, help="Skip measuring peak and bandwidth (half a second) and loading GPU packages."
)
@json_option
def command(no_measure: bool, as_json: bool) -> int:
    """Say what is installed, what the machine is, and what would be used and why.

    Exit code 1 if something stands in the way of tuning.

    \b
    Examples:
      tilewright doctor
      tilewright doctor --json
    """
    from tilewright import __version__
    from tilewright.backends.cpu.device import describe_machine
    from tilewright.backends.cuda.device import describe_cuda
    from tilewright.paths import cache_root, default_path

    machine = describe_machine(measure=not no_measure)
    packages = {name: _version(name) for name in PACKAGES}
    cuda = describe_cuda(load=not no_measure)
    # Without a GPU nothing of CUDA stands in the way of tuning here.
    problems = [*machine.pop("problems"), *_problems(packages), *(cuda["problems"] if cuda["devices"] else [])]
    support = PLATFORMS.get((platform.system(), platform.machine()), "not supported")
    data: dict[str, Any] = {
        "tilewright": __version__,
        "python": platform.python_version(),
        "platform": {"name": f"{platform.system()} {platform.machine()}", "support": support},
        "packages": packages,
        "machine": machine,
        "cuda": cuda,
        "database": default_path(),
        "cache": str(cache_root()),
        "problems": problems,
    }
    if as_json:
        emit_json(data)
        return 1 if problems else 0
    out = console()
    compiler = machine["compiler"]
    rows = [
        ("tilewright", f"{__version__} on Python {data['python']}"),
        ("platform", f"{data['platform']['name']} ({support})"),
        ("processor", f"{machine['model']}; {machine['available_cores']} core(s) to use"),
        ("target", f"{machine['target']}: the widest of {', '.join(machine['targets'])} that runs here"),
        (
            "compiler",
            f"{compiler['path']} ({compiler['family']} {compiler['version']})" if compiler else "none",
        ),
        ("caches", ", ".join(f"{k.upper()} {v >> 10} KiB" for k, v in machine["caches"].items())),
    ]
    if machine["peak_gflops"]:
        rows.append(
            (
                "measured",
                f"one core: {machine['peak_gflops']:.0f} GFLOP/s float32, reads {machine['read_gbytes']:.0f} GB/s, "
                f"copies {machine['copy_gbytes']:.0f} GB/s",
            )
        )
    rows += _cuda_rows(cuda)
    rows += [("database", data["database"]), ("cache", data["cache"])]
    rows += [(name, f"{packages[name] or 'not installed'} - {why}") for name, why in PACKAGES.items()]
    for name, value in rows:
        out.print(f"{name:<12} {value}", markup=False)
    for w in machine["noise"]:
        out.print(f"noise        {w}", style="yellow", markup=False)
    for p in problems:
        out.print(f"problem      {p}", style="red", markup=False)
    if not problems:
        out.print("Ready to tune.")
    return 1 if problems else 0
