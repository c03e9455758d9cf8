"""What every test shares: no test touches the user's own database or cache, or wakes golden files."""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, find, settings, strategies

from harness import needed
from harness.shared import session_folder

# For this process and all that tests start: NumPy's library makes a thread for each core, which costs as much as all the
# rest of its import. What compares with more threads asks for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What passes must pass again, on a machine that is busy too: the same examples each time, however long one takes.
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
# Other examples each time: pytest --hypothesis-profile=exploring
settings.register_profile("exploring", deadline=None)
settings.load_profile("repeatable")
# At its first example Hypothesis asks every object whether it holds its random numbers: now, while there are few.
find(strategies.just(0), lambda _: True)


FRAMEWORKS = Path(__file__).parent / "frameworks"
PACKAGE = Path(__file__).parents[1] / "src" / "tilewright"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What imports PyTorch and JAX runs only where it is asked for: once JAX is imported, no fork passes unwarned."""
    asked = any(Path(a.partition("::")[0]).resolve().is_relative_to(FRAMEWORKS) for a in config.args)
    return True if collection_path == FRAMEWORKS and not asked else None


@pytest.fixture(scope="session", autouse=True)
def own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One artifact cache for the whole session, shared by its workers, and a default database that is nobody's."""
    folder = tmp_path_factory.mktemp("tilewright")
    session = session_folder(tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE", str(session / "tilewright-cache"))
        patch.setenv("TILEWRIGHT_DB", str(folder / "default.db"))
        patch.setenv("TILEWRIGHT_CONFIG", os.devnull)
        # Hundreds of runs end with what the machine can do at best. Where a share of it is looked at, roughly is enough.
        patch.setattr("tilewright.backends.cpu.backend.PEAK_SECONDS", 0.01)
        yield folder


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A test run that a shell started in the background ignores Ctrl-C, and so would every command it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """Where nightly tests are left out, not even their parameters are worked out: there are more of them than others."""
    marks = getattr(obj, "pytestmark", ())
    left_out = isinstance(marks, list) and any(m.name == "nightly" for m in marks)
    return [] if left_out and collector.config.getoption("-m") == "not nightly" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """What no package index has may be missing: the test is skipped, and says what to install."""
    if why := needed.reason(*(program for mark in item.iter_markers("needs") for program in mark.args)):
        pytest.skip(why)


MEASURING = tuple(f"tests/{folder}/" for folder in ("cli", "dashboard", "docs", "farm", "runtime", "tuner"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that measure wait for each other's cores: they come first, all in one worker's part of the list."""
    share: int = config.getoption("--share")
    if share > 1:
        left_out = set(_left_out([item.nodeid for item in items if _of_many_kernels(item)], share))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
        items[:] = [item for item in items if item.nodeid not in left_out]
    items.sort(key=lambda item: not item.nodeid.startswith(MEASURING))


FEW = 8
"""A test of fewer cases runs them all."""


def _of_many_kernels(item: pytest.Item) -> bool:
    parameters = getattr(getattr(item, "callspec", None), "params", ())
    return "pair" in parameters or item.get_closest_marker("sampled") is not None


def _left_out(cases: Sequence[str], share: int) -> Iterator[str]:
    """Of each test's cases all but one in ``share``; other ones stay whenever a source of the package changes."""
    sources = sorted(p for p in PACKAGE.rglob("*") if p.suffix in (".py", ".h"))
    salt = sha256(b"".join(p.read_bytes() for p in sources)).digest()
    tests = defaultdict[str, list[str]](list)
    for case in cases:
        tests[case.partition("[")[0]].append(case)
    for of_test in tests.values():
        if len(of_test) >= FEW:
            of_test.sort(key=lambda case: sha256(salt + case.encode()).digest())
            yield from of_test[-(-len(of_test) // share) :]


def pytest_collection() -> None:
    """The tests themselves, a million objects that live to the end, are not searched for garbage again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", type=int, default=1, help="of tests over many kernels run one case in so many")
    parser.addoption(
        "--update-golden", action="store_true", help="write generated sources of new template versions to tests/golden"
    )


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files may be written."""
    return bool(request.config.getoption("--update-golden"))
