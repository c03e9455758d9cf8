"""``tilewright doctor``: checks packages, compilers and devices, and lists problems that prevent tuning."""

from __future__ import annotations

import platform
from typing import Any

from tilewright.cli.declare import declared, option
from tilewright.cli.output import report
from tilewright.installed import installed_version

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
    ("Darwin", "arm64"): "untested",
    ("Darwin", "aarch64"): "untested",
}


def _problems(packages: dict[str, str | None]) -> list[str]:
    out = []
    if packages["xgboost"] and packages["xgboost-cpu"]:
        out.append(
            "xgboost and xgboost-cpu are both installed, and overwrite each other. Run: pip uninstall xgboost-cpu"
        )
    if not (packages["xgboost"] or packages["xgboost-cpu"]):
        out.append("xgboost is not installed, and tuning needs it. Run: pip install 'tilewright[tune]'")
    if not packages["SQLAlchemy"]:
        out.append("SQLAlchemy is not installed, and tuning needs it. Run: pip install 'tilewright[tune]'")
    if platform.system() == "Windows":
        out.append("Windows is supported through WSL only. Run wsl --install, and work there")
    return out


@declared("doctor")
def command(
    no_measure: bool = option(help="Do not measure peak and bandwidth (half a second), and load no GPU packages."),
) -> int:
    """Check the installation: packages, compilers and devices, and which of them tuning uses.

    Exit code 1 if a problem prevents tuning.

    \b
    Examples:
      tilewright doctor
      tilewright doctor --json
    """
    from rich.text import Text

    from tilewright import __version__
    from tilewright.backends import BACKENDS, get_backend
    from tilewright.paths import cache_root, default_path

    backends = [get_backend(name) for name in BACKENDS]
    reports = {"machine" if b.in_process else b.name: b.report(not no_measure) for b in backends if not b.emulated}
    packages = {name: installed_version(name) for name in PACKAGES}
    problems = [*_problems(packages), *(p for r in reports.values() for p in r.problems)]
    support = PLATFORMS.get((platform.system(), platform.machine()), "not supported")
    data: dict[str, Any] = {
        "tilewright": __version__,
        "python": platform.python_version(),
        "platform": {"name": f"{platform.system()} {platform.machine()}", "support": support},
        "packages": packages,
        **{name: r.facts for name, r in reports.items()},
        "database": default_path(),
        "cache": str(cache_root()),
        "problems": problems,
    }
    rows = [
        ("tilewright", f"{__version__} on Python {data['python']}"),
        ("platform", f"{data['platform']['name']} ({support})"),
        *(row for r in reports.values() for row in r.rows),
        ("database", data["database"]),
        ("cache", data["cache"]),
        *((name, f"{packages[name] or 'not installed'} - {why}") for name, why in PACKAGES.items()),
    ]
    lines = [Text(f"{name:<12} {value}") for name, value in rows]
    lines += [Text(f"noise        {w}", "yellow") for w in data["machine"]["noise"]]
    lines += [Text(f"problem      {p}", "red") for p in problems] or [Text("Ready to tune.")]
    report(data, *lines)
    return 1 if problems else 0
