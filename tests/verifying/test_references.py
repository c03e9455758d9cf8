from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.kernels.expression.program import Program
from tilewright.kernels.operators import get_operator
from tilewright.verifying import references
from tilewright.verifying.inputs import RECIPES, make_inputs
from tilewright.verifying.references import References, as_interval

PROGRAM = Program.loads(get_operator("matmul").workload(m=6, n=8, k=10).program)
WHOLE = (slice(0, 6), slice(0, 8))


@pytest.fixture
def keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "WORTH_KEEPING", -1.0)


def find(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    values = make_inputs(PROGRAM, RECIPES[0], {})
    (i,) = References(PROGRAM, folder).intervals(RECIPES[0], values, [WHOLE], frozenset())
    return i.low, i.high


def refuse(*_: object) -> None:
    raise AssertionError("computed again")


@pytest.mark.usefixtures("keep_all")
def test_what_was_kept_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = find(tmp_path / "r")
    monkeypatch.setattr(references, "compute", refuse)
    again = find(tmp_path / "r")
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])


@pytest.mark.usefixtures("keep_all")
@pytest.mark.parametrize("damage", [lambda d: d[:-9], lambda d: d[:200] + b"\1" + d[201:], lambda d: b""])
def test_damaged_files_are_computed_anew(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    first = find(tmp_path)
    (file,) = tmp_path.glob("*.npy")
    file.write_bytes(damage(file.read_bytes()))
    assert np.array_equal(first[0], find(tmp_path)[0])
    assert len(file.read_bytes()) > 200  # written again


@pytest.mark.usefixtures("keep_all")
def test_a_folder_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert np.array_equal(find(tmp_path / "file")[0], find(None)[0])


def test_quick_references_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "WORTH_KEEPING", 1e6)
    find(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("keep_all")
def test_the_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "FOLDER_LIMIT", 1500)
    values = make_inputs(PROGRAM, RECIPES[0], {})
    blocks = [(slice(n, n + 1), slice(0, 8)) for n in range(6)]
    sizes = []
    make_room = references._make_room

    def watched(folder: Path, more: int) -> None:
        make_room(folder, more)
        sizes.append(sum(f.stat().st_size for f in folder.iterdir()) + more)

    monkeypatch.setattr(references, "_make_room", watched)
    References(PROGRAM, tmp_path).intervals(RECIPES[0], values, blocks, frozenset())
    assert len(sizes) == 6
    assert 0 < sum(f.stat().st_size for f in tmp_path.iterdir()) <= max(sizes) <= 1500


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_intervals_round_outward(kind: str) -> None:
    rng = np.random.default_rng(0)
    value, error = rng.standard_normal(1000), np.abs(rng.standard_normal(1000)) * 1e-4
    i = as_interval((slice(0, 1000),), value, error, np.dtype(kind))
    assert i.low.dtype == np.dtype(kind)
    assert (i.low.astype(np.float64) <= value - error).all()
    assert (i.high.astype(np.float64) >= value + error).all()
    assert i.free is None


def test_an_exact_value_leaves_no_room() -> None:
    i = as_interval((slice(0, 3),), np.array([1.0, -2.0, 0.0]), np.zeros(3), np.dtype(np.float32))
    assert np.array_equal(i.low, i.high)
