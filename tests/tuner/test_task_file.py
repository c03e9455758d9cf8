"""Files of tasks: what they say, and what is wrong with them, with the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core import UsageError
from tilewright.tuner.task_file import read_tasks, target_of

GOOD = """
# two of them
[[task]]
operator = "matmul"
params = { m = 512, n = 256, k = 64, activation = "relu" }
weight = 12

[[task]]
operator = "softmax"
dtype = "float64"
threads = 2
[task.params]
shape = "64,1000"
dim = 1
"""


def read(folder: Path, text: str) -> str:
    """What is said of a file that is refused, and what to do."""
    path = folder / "tasks.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_tasks(path)
    return f"{caught.value.message} / {caught.value.hint}".replace(str(path), "FILE")


def test_what_a_file_says(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(GOOD)
    first, second = read_tasks(path, threads=4)
    assert (first.operator, first.weight, first.threads) == ("matmul", 12.0, 4)
    assert first.params == {"m": 512, "n": 256, "k": 64, "activation": "relu"}
    assert (second.operator, second.weight, second.threads) == ("softmax", 1.0, 2)
    assert second.params == {"shape": "64,1000", "dim": 1, "dtype": "float64"}


@pytest.mark.parametrize(("old", "new", "said"), [
    ('"softmax"', '"sofmax"', "FILE, line 9: unknown operator 'sofmax' / Did you mean softmax?"),
    ("weight = 12", "wieght = 12", "FILE, line 6: 'wieght' is unknown / Did you mean weight?"),
    ("weight = 12", "weight = 0", "FILE, line 6: a weight is a number above 0"),
    ("weight = 12", 'weight = "12"', "FILE, line 6: a weight is a number above 0"),
    ("threads = 2", "threads = 0", "FILE, line 11: threads are a whole number above 0"),
    ("dim = 1", "dmi = 1", "FILE, line 14: softmax has no parameter 'dmi'"),
    ("m = 512", "m = 0", "FILE, line 5: matmul: m=0 is not positive"),
    ("m = 512, ", "", "FILE, line 5: matmul needs m"),
    ('dtype = "float64"', 'dtype = "floaty"', "FILE, line 10: "),
    ('dtype = "float64"', "dtype = 3", "FILE, line 10: dtype is one name"),
    ('operator = "matmul"\n', "", "FILE, line 3: a task has an operator"),
    ("{ m = 512, n = 256, k = 64, activation = \"relu\" }", "7", "FILE, line 5: params are sizes and attributes"),
    ("# two of them", "workers = 3", "FILE, line 2: 'workers' is unknown"),
    ("[[task]]", "[[task]", "FILE is not TOML"),
])  # fmt: skip
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert read(tmp_path, GOOD.replace(old, new, 1)).startswith(said)


@pytest.mark.parametrize("text", ["", "task = 3", "task = []", "[task]\noperator = 'matmul'"])
def test_a_file_without_tasks_is_refused(tmp_path: Path, text: str) -> None:
    assert "FILE has no tasks" in read(tmp_path, text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_tasks(tmp_path / "none.toml")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        read_tasks(tmp_path / "binary")


def test_a_file_names_the_target_of_its_tasks(tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    task = '[[task]]\noperator = "matmul"\nparams = { m = 8, n = 8, k = 8 }\n'
    for head, target in (("", "auto"), ('target = "cuda:sm_90a"\n', "cuda:sm_90a")):
        path.write_text(head + task)
        assert len(read_tasks(path)) == 1
        assert target_of(path) == target
    path.write_text("target = 90\n" + task)
    with pytest.raises(UsageError, match="line 1: a target is a name"):
        read_tasks(path)
