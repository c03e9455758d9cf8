"""docs/gpu_status.md lists every CUDA template and primitive, and what acceptance rows say is written into it."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from argparse import Namespace
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tilewright.kernels.primitives import PRIMITIVES
from tilewright.kernels.primitives.conformance import cases
from tilewright.kernels.templates import TEMPLATES

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu_acceptance.py"
sys.path.insert(0, str(SCRIPT.parent))

import gpu_acceptance  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "gpu_status.md"


def proven(text: str) -> dict[str, str]:
    """By primitive, where the page's table says that it is proven."""
    section = text.split("## Primitives\n")[1].split("\n## ", maxsplit=1)[0]
    items = re.findall(r"^\| (.*) \| (`.*`) \|$", section, re.MULTILINE)
    return {name: where for where, names in items for name in re.findall(r"\w+", names)}


def unseen(text: str) -> str:
    """The page as it is before anything was seen."""
    text = re.sub(r"^Ran on .*\.$", "No CUDA code of this project has run on a GPU yet.", text, flags=re.MULTILINE)
    text = re.sub(r"^(\| `\w+` \|[^|]*\| )NVIDIA [^|]*(\|[^|]*\|)$", r"\1not yet \2", text, flags=re.MULTILINE)
    text = re.sub(
        r"(?:^\| NVIDIA .*\n)+",
        f"| not yet | {', '.join(f'`{n}`' for n in proven(text))} |\n",
        text,
        flags=re.MULTILINE,
    )
    return re.sub(r"^(\| `\w+` .*\| not yet \|)[^|]*\([^|]*\|$", r"\1 not measured |", text, flags=re.MULTILINE)


TEXT = unseen(PAGE.read_text(encoding="utf-8"))
GPU = "NVIDIA H200"
SHAPE = "matmul m=4096 n=4096 k=4096 dtype=bfloat16"


def table(text: str = TEXT) -> dict[str, list[str]]:
    """The table of templates: a row's cells by its name."""
    section = text.split("## Templates\n")[1].split("\n## ", maxsplit=1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {parts[0].strip(" `"): [p.strip() for p in parts[1:]] for parts in rows}


def test_every_template_and_primitive_has_a_row() -> None:
    assert set(table()) == {n for n, t in TEMPLATES.items() if "cuda" in t.kinds and n != "own"}
    assert set(proven(TEXT)) == {p.name for p in PRIMITIVES}


def odd(template: str, state: str, number: int = 0) -> dict[str, Any]:
    return {"id": f"odd/shape/{template}/{number}", "state": state, "template": template}


def ratio(template: str, choice: str, rival: str, value: float, shape: str = SHAPE) -> dict[str, Any]:
    return {
        "id": f"light/{shape}/{choice}/{rival}", "state": "measured", "template": template, "choice": choice,
        "rival": rival, "ratio": value, "low": value - 0.01, "high": value + 0.01, "shape": shape, "rate": 6e14, "unit": "operations/s", "share": 0.6,
    }  # fmt: skip


class Acceptance:
    """A folder of made-up rows and a copy of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.page = folder / "gpu_status.md"
        self.page.write_text(TEXT, encoding="utf-8")

    def rows(self, command: str, *rows: dict[str, Any], device: str = GPU, date: str = "2027-01-02") -> None:
        with open(self.folder / f"{command}.jsonl", "a", encoding="utf-8") as f:
            f.writelines(json.dumps({**r, "device": device, "date": date}) + "\n" for r in rows)

    def write(self) -> str:
        out = io.StringIO()
        with redirect_stdout(out):
            assert gpu_acceptance.status(Namespace(out=self.folder, page=self.page)) == 0
        return out.getvalue()

    def cell(self, name: str, column: int) -> str:
        return table(self.page.read_text(encoding="utf-8"))[name][column]

    def primitive(self, name: str) -> str:
        return proven(self.page.read_text(encoding="utf-8"))[name]


@pytest.fixture
def acceptance(tmp_path: Path) -> Acceptance:
    return Acceptance(tmp_path)


def test_what_was_right_is_proven_on_the_device(acceptance: Acceptance) -> None:
    mine = [{"id": f"conformance/{c.name}", "state": "same", "primitive": c.primitive.name} for c in cases()]
    sync = [r for r in mine if r["primitive"] == "sync"]
    shuffle = [r for r in mine if r["primitive"] == "shuffle"]
    acceptance.rows("correctness", *sync, *shuffle[1:], {**mine[-1], "state": "differs"})
    acceptance.rows("correctness", odd("cuda_mma", "right"), odd("cuda_mma", "resources", 1))
    acceptance.rows("correctness", odd("cuda_rows", "right"), odd("cuda_rows", "crash", 1))
    acceptance.rows("correctness", odd("cuda_map", "skipped"))
    acceptance.write()
    on = "NVIDIA H200, 2027-01-02"
    assert acceptance.primitive("sync") == on
    assert acceptance.primitive("shuffle") == "not yet"  # one of its cases is missing
    assert acceptance.primitive(str(mine[-1]["primitive"])) == f"wrong on {on}: 1 of 1"
    assert acceptance.cell("cuda_mma", 1) == on
    assert acceptance.cell("cuda_rows", 1) == f"wrong on {on}: 1 of 2"
    assert acceptance.cell("cuda_map", 1) == "not yet"
    text = acceptance.page.read_text(encoding="utf-8")
    assert "Ran on NVIDIA H200 (2027-01-02).\n" in text
    assert "has run on a GPU yet" not in text
    # All else stays as it was: primitives have two more rows, and one is shorter.
    assert len(text.splitlines()) == len(TEXT.splitlines()) + 2
    assert len(set(TEXT.splitlines()) - set(text.splitlines())) == 4


def test_the_ratio_is_of_the_best_kernel_to_the_fastest_library(acceptance: Acceptance) -> None:
    acceptance.rows(
        "first-light", ratio("cuda_simt", "default", "cublas", 0.2), ratio("cuda_mma", "best", "cublas", 0.8),
        ratio("cuda_mma", "best", "cublaslt", 0.7), ratio("cuda_mma", "best", "triton", 0.1),
        ratio("cuda_mma", "default", "cudnn", 1.25, "conv2d n=1"), ratio("cuda_rows", "default", "torch", 1.5, "softmax"),
    )  # fmt: skip
    said = acceptance.write()
    assert acceptance.cell("cuda_mma", 2) == "0.70 to 1.25, median 0.97 of 2 shapes (NVIDIA H200)"
    assert acceptance.cell("cuda_rows", 2) == "1.50 on one shape (NVIDIA H200)"
    assert acceptance.cell("cuda_simt", 2) == "not measured"
    assert acceptance.cell("cuda_mma", 1) == "not yet"  # being fast is no proof
    beside = "cublas 0.800 (0.790 to 0.810); cublaslt 0.700 (0.690 to 0.710); triton 0.100 (0.090 to 0.110)"
    assert f"| {SHAPE} | `cuda_mma`, best | 600 TFLOP | 60% | {beside} |" in said
    acceptance.rows("tune", ratio("cuda_mma", "tuned", "cublas", 0.9))
    said = acceptance.write()
    assert f"| {SHAPE} | `cuda_mma`, tuned | 600 TFLOP | 60% | cublas 0.900 (0.890 to 0.910); triton" in said
    assert acceptance.cell("cuda_mma", 2).startswith("0.90 to 1.25")


def test_rows_of_one_command_say_the_share_at_the_clock(acceptance: Acceptance) -> None:
    at_clock = {"share_at_clock": 0.81, "during": {"sm_hz": 1.605e9}}
    acceptance.rows("rent", odd("cuda_mma", "right"), {**ratio("cuda_mma", "best", "cublas", 0.9), **at_clock})
    said = acceptance.write()
    assert acceptance.cell("cuda_mma", 1) == "NVIDIA H200, 2027-01-02"
    assert f"| {SHAPE} | `cuda_mma`, best | 600 TFLOP | 60%, 81% at 1605 MHz | cublas 0.900" in said


def test_where_the_default_is_best_its_libraries_count(acceptance: Acceptance) -> None:
    acceptance.rows(
        "first-light", ratio("cuda_mma", "default", "cublas", 1.1), ratio("cuda_mma", "best", "triton", 1.2)
    )  # fmt: skip
    acceptance.write()
    assert acceptance.cell("cuda_mma", 2) == "1.10 on one shape (NVIDIA H200)"


def test_devices_stand_beside_each_other_and_a_later_run_replaces(acceptance: Acceptance) -> None:
    acceptance.rows("correctness", odd("cuda_mma", "wrong_result"))
    acceptance.write()
    other = {"device": "NVIDIA H200 NVL", "date": "2027-02-03"}
    acceptance.rows("correctness", odd("cuda_mma", "right"), **other)
    acceptance.rows("correctness", odd("cuda_mma", "right"), date="2027-03-04")
    acceptance.write()
    assert acceptance.cell("cuda_mma", 1) == "NVIDIA H200 NVL, 2027-02-03; NVIDIA H200, 2027-03-04"
    text = acceptance.page.read_text(encoding="utf-8")
    assert re.search(r"^Ran on NVIDIA H200 NVL \(2027-02-03\); NVIDIA H200 \(2027-03-04\)\.$", text, re.MULTILINE)


def test_the_emulator_proves_nothing(acceptance: Acceptance) -> None:
    acceptance.rows("correctness", odd("cuda_mma", "right"), device="emulator")
    acceptance.rows("first-light", ratio("cuda_mma", "best", "cublas", 9.0), device="emulator")
    words = [sys.executable, str(SCRIPT), "status", "--out", str(acceptance.folder), "--page", str(acceptance.page)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, "no row of a GPU" in done.stdout) == (3, True), done.stderr
    assert acceptance.page.read_text(encoding="utf-8") == TEXT
