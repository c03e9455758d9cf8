"""The contract of backends. Derive from :class:`BackendContract` in a test module and implement its methods.

::

    class TestMyBackend(BackendContract):
        kind = "mine"

        def saxpy(self, target): return "source of a kernel, see below"
        def broken(self, target): return "source that does not compile"

If no target runs, as for a GPU on a machine without a GPU, tests that run kernels are skipped. The other tests build
for ``foreign``, a target that need not run here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.backends import Backend, Library, backend_for, get_backend
from tilewright.core import Launch, LaunchProgram, Target, TilewrightError, UsageError

SYMBOL = "tw_contract_saxpy"
Floats = npt.NDArray[np.float32]


class BackendContract(ABC):
    """Tests of a backend, through the :class:`~tilewright.backends.Backend` protocol alone."""

    kind: str
    threads = 2  # requested if the number of threads can be chosen
    foreign: str | None = None
    returns_codes = True  # whether a kernel returns an error code

    @abstractmethod
    def saxpy(self, target: Target) -> str:
        """Source of ``tw_contract_saxpy``: float32 tensors x, y, out of n elements; arguments n, a.

        It computes ``out[i] = a * x[i] + y[i]``. If n is negative, it returns 7 and writes nothing.
        """

    @abstractmethod
    def broken(self, target: Target) -> str:
        """Source that does not compile."""

    def program(self) -> LaunchProgram:
        """The launch program of ``tw_contract_saxpy``."""
        return LaunchProgram((Launch(SYMBOL, ("n", "a")),), align=4)

    def upload(self, array: Floats) -> tuple[object, int]:
        """Copies an array to the device's memory; returns an owner to keep alive, and the address."""
        return array, array.ctypes.data

    def download(self, owner: object) -> Floats:
        """The current contents of an array; ``owner`` is from ``upload``."""
        assert isinstance(owner, np.ndarray)
        return owner

    # ------------------------------------------------------------------ fixtures

    @pytest.fixture
    def backend(self) -> Backend:
        return get_backend(self.kind)

    @pytest.fixture
    def target(self, backend: Backend) -> Target:
        """A target to build for."""
        found = backend.targets()
        if found:
            return found[0]
        if self.foreign is None:
            pytest.skip(f"no {self.kind} target runs on this machine")
        return backend.parse_target(self.foreign, allow_foreign=True)

    @pytest.fixture
    def here(self, backend: Backend) -> Target:
        """A target that runs here."""
        found = backend.targets()
        if not found:
            pytest.skip(f"no {self.kind} target runs on this machine")
        return found[0]

    @pytest.fixture
    def shared_cache(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.getbasetemp() / f"contract-{self.kind}"

    def load(self, backend: Backend, target: Target, cache: Path) -> Library:
        built = backend.build([self.saxpy(target)], target, cache)
        return backend.load(Path(built.path).read_bytes(), built.sha256)

    # ------------------------------------------------------------------ targets

    def test_targets_of_this_machine(self, backend: Backend, here: Target) -> None:
        targets = backend.targets(self.threads)
        assert targets[0].name == here.name
        for t in targets:
            assert t.kind in backend.kinds
            assert t.threads == self.threads
            assert backend.runs_here(t)
            assert backend_for(t).name == backend.name
            assert backend.parse_target(t.name, self.threads) == t
            assert Target.from_json(t.to_json()) == t
        assert len({t.key for t in targets}) == len(targets)
        assert backend.parse_target(self.kind, self.threads) == targets[0]

    @pytest.mark.parametrize("text", ["nonsense", "", ":", "{kind}:", "{kind}:nonsense", "{kind}:auto:x"])
    def test_unknown_target_is_a_usage_error(self, backend: Backend, text: str) -> None:
        with pytest.raises(UsageError) as e:
            backend.parse_target(text.format(kind=self.kind))
        assert e.value.hint

    # ------------------------------------------------------------------ building

    def test_build_is_cached_and_repeatable(self, backend: Backend, target: Target, tmp_path: Path) -> None:
        first = backend.build([self.saxpy(target)], target, tmp_path / "a")
        again = backend.build([self.saxpy(target)], target, tmp_path / "a")
        elsewhere = backend.build([self.saxpy(target)], target, tmp_path / "b")
        assert (first.cached, again.cached, elsewhere.cached) == (False, True, False)
        assert first.path == again.path != elsewhere.path
        assert first.sha256 == again.sha256 == elsewhere.sha256
        assert first.compiler
        assert Path(first.path).read_bytes() == Path(elsewhere.path).read_bytes()

    def test_broken_source_is_one_clear_line(self, backend: Backend, target: Target, shared_cache: Path) -> None:
        with pytest.raises(TilewrightError) as e:
            backend.build([self.broken(target)], target, shared_cache)
        assert e.value.kind == "compile"
        assert e.value.message.strip()
        assert "\n" not in e.value.message

    # ------------------------------------------------------------------ running

    def test_runs_and_is_right(self, backend: Backend, here: Target, shared_cache: Path) -> None:
        rng = np.random.default_rng(0)
        for target in backend.targets():
            library = self.load(backend, target, shared_cache)
            for n in (0, 1, 1000):
                kernel = library.kernel(self.program(), {"n": n, "a": 3})
                x, y = (rng.standard_normal(n + 1).astype(np.float32) for _ in range(2))
                out = np.full(n + 1, 5, np.float32)
                owners, pointers = zip(*(self.upload(v) for v in (x, y, out)), strict=True)
                kernel.run(pointers)
                got = self.download(owners[2])
                np.testing.assert_allclose(got[:n], 3 * x[:n] + y[:n], rtol=1e-6, atol=1e-6)
                assert got[n] == 5

    def test_time_is_positive(self, backend: Backend, here: Target, shared_cache: Path) -> None:
        kernel = self.load(backend, here, shared_cache).kernel(self.program(), {"n": 1000, "a": 3})
        owners, pointers = zip(*(self.upload(np.ones(1000, np.float32)) for _ in range(3)), strict=True)
        assert 0 < kernel.time(pointers, 50) < 10
        assert self.download(owners[2])[0] == 4

    def test_failing_kernel_is_a_launch_error(self, backend: Backend, here: Target, shared_cache: Path) -> None:
        if not self.returns_codes:
            pytest.skip(f"a {self.kind} kernel returns nothing")
        kernel = self.load(backend, here, shared_cache).kernel(self.program(), {"n": -1, "a": 3})
        _, pointers = zip(*(self.upload(np.ones(4, np.float32)) for _ in range(3)), strict=True)
        for call in (lambda: kernel.run(pointers), lambda: kernel.time(pointers, 3)):
            with pytest.raises(TilewrightError) as e:
                call()
            assert e.value.kind == "launch"
            assert "7" in e.value.message

    # ------------------------------------------------------------------ invalid libraries

    def test_damaged_bytes_are_refused(self, backend: Backend, target: Target, shared_cache: Path) -> None:
        built = backend.build([self.saxpy(target)], target, shared_cache)
        data = bytearray(Path(built.path).read_bytes())
        data[len(data) // 2] ^= 1
        with pytest.raises(TilewrightError) as e:
            backend.load(bytes(data), built.sha256)
        assert e.value.kind == "load"

    @pytest.mark.parametrize("data", [b"", b"not a library", b"\x7fELF" + bytes(100)])
    def test_other_bytes_are_refused(self, backend: Backend, data: bytes) -> None:
        with pytest.raises(TilewrightError) as e:
            backend.load(data)
        assert e.value.kind == "load"

    def test_a_program_that_does_not_fit_is_refused(self, backend: Backend, target: Target, shared_cache: Path) -> None:
        library = self.load(backend, target, shared_cache)
        wrong: tuple[tuple[LaunchProgram, dict[str, int]], ...] = (
            (LaunchProgram((Launch("tw_absent", ()),)), {}),
            (self.program(), {"n": 1}),
            (LaunchProgram(self.program().launches, abi=self.program().abi + 1), {"n": 1, "a": 1}),
        )
        for program, launch in wrong:
            with pytest.raises(TilewrightError) as e:
                library.kernel(program, launch)
            assert e.value.kind == "load"

    def test_loading_again_and_closing(self, backend: Backend, here: Target, shared_cache: Path) -> None:
        keep = self.load(backend, here, shared_cache)
        self.load(backend, here, shared_cache).close()
        _, pointers = zip(*(self.upload(np.ones(4, np.float32)) for _ in range(3)), strict=True)
        keep.kernel(self.program(), {"n": 4, "a": 3}).run(pointers)
        keep.close()
