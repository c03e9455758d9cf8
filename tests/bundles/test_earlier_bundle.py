"""A bundle that an earlier version wrote opens, its signature holds, and its kernels are served.

``earlier/0.1.twb.xz`` holds a matmul, a softmax and a matmul for a range of rows, tuned for ``cpu:portable`` on x86-64 and
signed by the key of ``conftest.py``. Whoever changes the format adds a file of the version before.
"""

from __future__ import annotations

import lzma
import platform
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tilewright import Library
from tilewright.errors import TilewrightError
from tilewright.runtime.bundle.trusted import write_key

FILES = sorted((Path(__file__).parent / "earlier").glob("*.twb.xz"))


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "earlier.twb"
    path.write_bytes(lzma.decompress(request.param.read_bytes()))
    return path


def test_an_earlier_bundle_is_opened_for_its_own_signer_alone(earlier: Path, key: Ed25519PrivateKey) -> None:
    other = write_key(bytes(range(32)))
    with pytest.raises(TilewrightError, match="is not trusted"):
        Library(earlier, trust=[other])
    library = Library(earlier, trust=[write_key(key.public_key().public_bytes_raw())])
    assert library.explain("matmul", m=24, n=16, k=32).tier in ("exact", "fallback")  # the latter on another processor


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="its kernels are x86-64 code")
def test_kernels_of_an_earlier_bundle_are_served(earlier: Path) -> None:
    library = Library(earlier, trust=True)
    draw = np.random.default_rng(0).standard_normal
    a, b = draw((24, 32), dtype=np.float32), draw((32, 16), dtype=np.float32)
    np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-5, atol=1e-5)
    x = draw((8, 40), dtype=np.float32)
    np.testing.assert_allclose(library.softmax(x), np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-5)
    assert library.stats().tiers["exact"] == 2
    rows = draw((37, 32), dtype=np.float32)  # a size of the range that was not tuned by itself
    assert library.explain("matmul", m=37, n=16, k=32).tier == "range"
    np.testing.assert_allclose(library.matmul(rows, b), rows @ b, rtol=1e-5, atol=1e-5)
