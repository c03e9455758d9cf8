"""The CUDA backend under the contract that every backend meets, once through each driver.

Where there is no GPU, what builds and refuses is tested all the same, and what runs is skipped with the reason.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cuda_kernels import SAXPY, SHARED, nvrtc

from tilewright.backends import Backend
from tilewright.backends.arguments import Arguments
from tilewright.backends.cuda.backend import CudaBackend
from tilewright.backends.cuda.driver import get_driver
from tilewright.backends.cuda.targets import gpus_or_none
from tilewright.backends.driver import Context, LaunchError, NoDriver
from tilewright.core import Launch, LaunchProgram, Target, UsageError
from tilewright.testing.backend import SYMBOL, BackendContract, Floats


class CudaContract(BackendContract):
    kind = "cuda"
    threads = 1
    foreign = "cuda:sm_90a"
    returns_codes = False
    driver: str

    def saxpy(self, target: Target) -> str:
        return SAXPY

    def broken(self, target: Target) -> str:
        return SAXPY + "\n__device__ int twice(int x) { return 2 * y; }\n"

    def program(self) -> LaunchProgram:
        grid = (["max", 1, ["ceildiv", "n", 256]],)
        return LaunchProgram((Launch(SYMBOL, ("n", "a"), grid=grid, block=(256,)),), align=4)

    def context(self) -> Context:
        return get_driver(self.driver).open(0)

    def upload(self, array: Floats) -> tuple[object, int]:
        address = self.context().allocate(array.nbytes)
        self.context().upload(address, array)
        return (address, array.shape), address

    def download(self, owner: object) -> Floats:
        assert isinstance(owner, tuple)
        out = np.empty(owner[1], np.float32)
        self.context().download(owner[0], out)
        return out

    @pytest.fixture
    def backend(self) -> Backend:
        nvrtc()  # skips without a compiler
        return CudaBackend(self.driver)

    @pytest.fixture
    def here(self, backend: Backend) -> Target:
        if not gpus_or_none():
            pytest.skip("this machine has no GPU")
        try:
            get_driver(self.driver)
        except NoDriver as e:
            pytest.skip(e.message)
        return backend.targets()[0]

    # ------------------------------------------------------------------ of CUDA alone

    def test_threads_are_refused(self, backend: Backend, target: Target, shared_cache: Path) -> None:
        library = self.load(backend, target, shared_cache)
        with pytest.raises(UsageError, match="takes no number of threads"):
            library.kernel(self.program(), {"n": 1, "a": 1}, threads=2)

    def test_arguments_of_every_kind_and_much_shared_memory(self, here: Target, shared_cache: Path) -> None:
        backend = CudaBackend(self.driver)
        built = backend.build([SHARED], here, shared_cache)
        library = backend.load(Path(built.path).read_bytes(), built.sha256)
        parameters = (("tensor", 0), ("int64", "n"), ("float64", 0.5))
        launch = Launch("tw_shared", (), grid=(1,), block=(128,), shared="bytes", parameters=parameters)
        values = np.arange(256, dtype=np.float32)
        for size in (512, 49152, 90 << 10):  # the last takes an attribute of the function
            owner, address = self.upload(values)
            library.kernel(LaunchProgram((launch,)), {"n": 128, "bytes": size}).run([address])
            tile = np.zeros(200, np.float32)
            tile[:128] = values[:128]
            got = self.download(owner)[72:128]  # what comes from the part of the tile that was written
            np.testing.assert_allclose(got, 0.5 * tile[199 - np.arange(72, 128)] + values[255 - np.arange(72, 128)])

    def test_workspace_is_cleared(self, here: Target, shared_cache: Path) -> None:
        source = """extern "C" __global__ void tw_clear(int *out, unsigned char *ws, int n) {
            int sum = 0;
            for (int i = 0; i < n; i++) sum += ws[i];
            ws[0] = 1;
            out[0] = sum;
        }"""
        backend = CudaBackend(self.driver)
        built = backend.build([source], here, shared_cache)
        library = backend.load(Path(built.path).read_bytes())
        launch = Launch("tw_clear", ("n",), grid=(1,), block=(1,))
        kernel = library.kernel(LaunchProgram((launch,), workspace="n", zero_fill="n"), {"n": 1000})
        owner, address = self.upload(np.ones(1, np.float32))
        for _ in range(3):
            kernel.run([address])
            assert self.download(owner)[0] == 0

    def test_impossible_launches_leave_the_device_working(self, here: Target, shared_cache: Path) -> None:
        backend = CudaBackend(self.driver)
        library = self.load(backend, here, shared_cache)
        _, pointers = zip(*(self.upload(np.ones(4, np.float32)) for _ in range(3)), strict=True)
        for shared, block in ((10 << 20, 256), (0, 2048)):
            launch = Launch(SYMBOL, ("n", "a"), grid=(1,), block=(block,), shared=shared)
            with pytest.raises(LaunchError):
                library.kernel(LaunchProgram((launch,)), {"n": 4, "a": 1}).run(pointers)
        library.kernel(self.program(), {"n": 4, "a": 1}).run(pointers)

    def test_driver_captures_what_is_queued(self, here: Target, shared_cache: Path) -> None:
        context = self.context()
        built = CudaBackend(self.driver).build([SAXPY], here, shared_cache)
        saxpy = context.load(Path(built.path).read_bytes()).function(SYMBOL)
        addresses = [self.upload(np.ones(8, np.float32))[1] for _ in range(3)]
        out = addresses[-1]
        arguments = Arguments([*(("pointer", a) for a in addresses), ("pointer", 0), ("int32", 8), ("int32", 2)])
        saxpy.launch((1, 1, 1), (256, 1, 1), 0, arguments)

        def work() -> None:
            context.fill(addresses[0], 0, 32)
            for factor in (3, 5):
                arguments.values[-1] = factor
                saxpy.launch((1, 1, 1), (256, 1, 1), 0, arguments)

        graph = context.capture(work)
        if graph is None:
            pytest.skip(f"{self.driver} captures nothing")
        got = np.empty(8, np.float32)
        context.download(out, got)
        np.testing.assert_array_equal(got, 3.0)  # nothing of it is done yet
        for _ in range(2):
            context.fill(out, 0, 32)
            graph.launch()
            context.download(out, got)
            np.testing.assert_array_equal(got, 1.0)
        with pytest.raises(ZeroDivisionError):
            context.capture(lambda: print(1 / 0))
        graph.launch()
        context.synchronize()

    def test_driver_copies_fills_and_times(self, here: Target) -> None:
        context = self.context()
        data = np.arange(1000, dtype=np.int32)
        first, second = context.allocate(4000), context.allocate(4000)
        assert first % 256 == second % 256 == 0
        context.upload(first, data)
        context.fill(second, 0xFF, 4000)
        context.copy(second, first, 2000)
        out = np.empty_like(data)
        context.download(second, out)
        np.testing.assert_array_equal(out[:500], data[:500])
        assert (out[500:] == -1).all()
        start, stop = context.event(), context.event()
        start.record()
        context.busy(5e-3)
        stop.record()
        context.synchronize()
        assert 4e-3 < context.elapsed(start, stop) < 0.1
        with pytest.raises(UsageError, match="contiguous"):
            context.upload(first, data[::2])
        context.free(first)
        context.free(second)


class TestCupy(CudaContract):
    driver = "cupy"


class TestPycuda(CudaContract):
    driver = "pycuda"
