"""Libraries on bundles: what they serve, whom they trust, and that damage never gets through."""

from __future__ import annotations

import os
import random as stdlib_random
import shutil
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from runtime_kernels import Maker, random, sqdist, wait

from harness.waiting import until
from tilewright.bundles.build import build, sign_again
from tilewright.core import DatabaseError, Extent, Target, TilewrightError, UsageError
from tilewright.database import Database
from tilewright.farm.pki.certificates import create_authority, revoke
from tilewright.runtime import Library
from tilewright.runtime.bundle import trusted
from tilewright.runtime.bundle.layout import HEADER, SIGNED, unpack_header
from tilewright.runtime.bundle.reader import Bundle
from tilewright.runtime.bundle.store import BundleStore
from tilewright.runtime.bundle.trusted import change_keys, read_keys, write_key

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
A, B = random(4, 4), random(4, 4, seed=1)
WANT = A.astype(np.float64) @ B


def public(key: Ed25519PrivateKey) -> str:
    return write_key(key.public_key().public_bytes_raw())


@pytest.fixture(autouse=True)
def trust_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "trusted_keys"
    monkeypatch.setenv("TILEWRIGHT_TRUSTED_KEYS", str(path))
    return path


@pytest.fixture(scope="module")
def signed_bytes(filled_database: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return bundled(filled_database, tmp_path_factory.mktemp("bundle") / "k.twb", KEY).read_bytes()


@pytest.fixture
def bundle(signed_bytes: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "kernels.twb"
    path.write_bytes(signed_bytes)
    return path


def bundled(database: Path, path: Path, key: Ed25519PrivateKey | None = None) -> Path:
    with Database.open(database, create=False, readonly=True) as source:
        build(source, path, key)
    return path


def check_all(library: Library) -> None:
    """Every kernel of the filled database answers, and is right."""
    np.testing.assert_allclose(library.matmul(A, B), WANT, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(library.matmul(A, B, trans_b=True), A.astype(np.float64) @ B.T, rtol=1e-4, atol=1e-5)
    a, b = random(3, 7), random(7, 5, seed=1)
    np.testing.assert_allclose(library.plan("matmul", m=3, n=5, k=7)(a, b), a @ b, rtol=1e-4, atol=1e-5)
    x, y = random(4, 5), random(3, 5, seed=1)
    np.testing.assert_allclose(library.sqdist(x, y), ((x[:, None] - y) ** 2).sum(-1), rtol=1e-4)
    np.testing.assert_allclose(library.scale(random(64), np.float32(2)), 2 * random(64), rtol=1e-6)


# --------------------------------------------------------------------------- serving


def test_serves_what_the_database_does(bundle: Path) -> None:
    library = Library(bundle, trust=public(KEY))
    check_all(library)
    assert {n: c for n, c in library.stats().tiers.items() if c} == {"exact": 5}
    assert {"matmul", "scale", "sqdist"} <= set(library.operators())
    assert library.explain("matmul", m="4", n=4.0, k=np.int64(4)).tier == "exact"
    assert library.explain("matmul", m=4, n=4, k=4, trans_b=True, dtype="float32").tier == "exact"
    assert library.explain("matmul", m=4, n=4, k=5).tier == "fallback"
    assert library.explain(sqdist, m=4, n=3, k=5).tier == "exact"
    assert library.explain(sqdist.workload(m=4, n=3, k=5)).tier == "exact"
    assert library.plan(sqdist, m=2, n=2, k=2)(np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32))[0, 0] == 2


def test_errors_say_what_is_there(bundle: Path) -> None:
    library = Library(bundle, trust=public(KEY))
    with pytest.raises(UsageError, match=r"sqdist is not known for m=9 n=9 k=9.*It was tuned for m=4 n=3 k=5"):
        library.plan("sqdist", m=9, n=9, k=9)
    with pytest.raises(UsageError, match="It was tuned for m=4 n=3 k=5"):
        library.sqdist(A, A)
    with pytest.raises(AttributeError, match="has no operator 'nothing'"):
        _ = library.nothing
    with pytest.warns(UserWarning, match="tuned for these shapes, but for float32 arrays"):
        library.matmul(A.astype(np.float64), B.astype(np.float64))


def test_a_look_up_reads_few_rows(maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(1, 60):
        maker.matmul(4, 4, k)
    store = BundleStore(bundled(maker.path, tmp_path / "many.twb"), trust=True)
    library = Library(tmp_path / "many.twb", trust=True)
    read: list[int] = []
    from tilewright.runtime.bundle.layout import Index

    row = Index.row
    monkeypatch.setattr(Index, "row", lambda self, number: (read.append(number), row(self, number))[1])
    a, b = random(4, 37), random(37, 4, seed=1)
    np.testing.assert_allclose(library.matmul(a, b), a @ b, rtol=1e-4, atol=1e-5)
    assert library.explain("matmul", m=4, n=4, k=12).tier == "exact"
    assert library.explain("matmul", m=4, n=4, k=99).tier == "fallback"
    assert len(set(read)) <= 3
    assert len(store.entries("matmul")) == 59


def test_sizes_that_are_no_numbers_are_always_looked_at(maker: Maker, tmp_path: Path) -> None:
    """As a kernel for any size would have them."""
    maker.matmul(4, 4, 4)
    with Database.open(maker.path) as database:
        (kernel,) = database.kernels()
        from dataclasses import replace

        spec = replace(kernel.task.workload.inputs[0], shape=(Extent(4096, 1, "m"), 4))
        workload = replace(kernel.task.workload, inputs=(spec, *kernel.task.workload.inputs[1:]), program="other")
        task = replace(kernel.task, workload=replace(workload, params=(("m", "1..4096"), *workload.params[1:])))
        artifact = maker.built.stored(task.target)
        database.set_kernels(task, kernel.device_model, None, [replace(kernel, task=task)], [artifact])
    store = BundleStore(bundled(maker.path, tmp_path / "any.twb"), trust=True)
    assert {e.params["m"] for e in store.entries("matmul", shapes=[(4, 4), (4, 4)])} == {4, "1..4096"}
    assert [e.params["m"] for e in store.entries("matmul", shapes=[(9, 4), (4, 4)])] == ["1..4096"]
    assert [e.params["m"] for e in store.entries("matmul", params={"m": 9, "n": 4, "k": 4})] == ["1..4096"]


def test_a_lock_pins_the_kernels_of_a_bundle(bundle: Path, filled_database: Path, tmp_path: Path) -> None:
    from tilewright.cli.app import run

    assert run(["lock", "--db", str(filled_database), "-o", str(tmp_path / "all.lock")]) == 0
    check_all(Library(bundle, trust=True, pinned=tmp_path / "all.lock"))
    text = (tmp_path / "all.lock").read_text().replace('"code": "', '"code": "0')
    (tmp_path / "other.lock").write_text(text)
    with pytest.raises(DatabaseError, match=r"other.lock pins 5 kernels that .*kernels.twb lacks"):
        Library(bundle, trust=True, pinned=tmp_path / "other.lock")


def test_nothing_is_written(bundle: Path, signed_bytes: bytes) -> None:
    library = Library(bundle, trust=True)
    library.matmul(random(9, 9), random(9, 9))
    library.close()
    assert bundle.read_bytes() == signed_bytes
    bundle.chmod(0o400)
    check_all(Library(bundle, trust=True))


def test_a_bundle_that_is_replaced(maker: Maker, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    maker.matmul(4, 4, 4)
    path = bundled(maker.path, tmp_path / "k.twb", KEY)
    library = Library(path, trust=[public(KEY)])
    np.testing.assert_allclose(library.matmul(A, B), WANT, rtol=1e-4, atol=1e-5)
    maker.matmul(4, 4, 4, "tw_t_mm_twice")
    bundled(maker.path, path, OTHER)
    until(lambda: "stays in use: the bundle" in caplog.text)
    assert library.explain("matmul", m=4, n=4, k=4).tier == "exact"
    np.testing.assert_allclose(library.matmul(A, B), WANT, rtol=1e-4, atol=1e-5)
    assert "stays in use: the bundle" in caplog.text
    assert "is not trusted" in caplog.text
    bundled(maker.path, path, KEY)
    until(lambda: bool(np.allclose(library.matmul(A, B), 2 * WANT, rtol=1e-4, atol=1e-5)))
    path.unlink()
    np.testing.assert_allclose(library.matmul(A, B), 2 * WANT, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork(bundle: Path) -> None:
    library = Library(bundle, trust=True, watch=False)
    library.matmul(A, B)
    child = os.fork()
    if child == 0:
        try:
            check_all(library)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_needs_numpy_alone(bundle: Path, tmp_path: Path) -> None:
    """Neither cryptography nor a tuner's packages, in the whole way to a first call."""
    program = f"""
import sys
for name in ("cryptography", "sqlalchemy", "xgboost", "click", "rich", "scipy"):
    sys.modules[name] = None
import numpy as np, tilewright
a = np.ones((4, 4), np.float32)
library = tilewright.Library({str(bundle)!r}, trust={public(KEY)!r})
assert library.matmul(a, a)[0, 0] == 4
assert library.stats().tiers["exact"] == 1
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --------------------------------------------------------------------------- trust


def test_who_is_trusted(bundle: Path, trust_file: Path) -> None:
    with pytest.raises(DatabaseError, match=r"is signed by ed25519:\S+, which is not trusted.*bundle key trust"):
        Library(bundle)
    with pytest.raises(DatabaseError, match=r"which is not trusted. Pass that key as trust"):
        Library(bundle, trust=public(OTHER))
    check_all(Library(bundle, trust=[public(OTHER), public(KEY)]))
    check_all(Library(bundle, trust="unsigned"))
    trust_file.write_text(f"# ours\n\n{public(OTHER)} other\n{public(KEY)} kernels team # since May\n")
    assert Bundle(bundle).signer == "kernels team"
    check_all(Library(bundle))
    trust_file.write_text(f"{public(KEY)} kernels team\nrevoked {public(KEY)} kernels team\n")
    for trust in (False, True, "unsigned", public(KEY)):
        with pytest.raises(DatabaseError, match="is signed by a revoked key, kernels team"):
            Library(bundle, trust=trust)


def test_a_key_that_is_revoked_stops_a_bundle_that_is_open(bundle: Path, trust_file: Path) -> None:
    trust_file.write_text(f"{public(KEY)} kernels team\n")
    library = Library(bundle, watch=False)
    held = library.plan("matmul", m=4, n=4, k=4)
    trusted.change_keys(OTHER.public_key().public_bytes_raw(), "another", revoke=True)
    check_all(library)
    library = Library(bundle, watch=False)
    trusted.change_keys(KEY.public_key().public_bytes_raw(), "", revoke=True)
    for _ in range(2):
        with pytest.raises(DatabaseError, match="is signed by a revoked key, kernels team"):
            library.matmul(A, B)
    np.testing.assert_allclose(held(A, B), WANT, rtol=1e-4, atol=1e-5)
    trust_file.write_text("")
    with pytest.raises(DatabaseError, match="which is not trusted"):
        library.matmul(A, B)
    trust_file.write_text(f"{public(KEY)} kernels team\n")
    check_all(library)


def followed(tmp_path: Path, trust_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A farm's certificates, whose list of revoked certificates the user's file follows."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    farm = tmp_path / "farm"
    create_authority(farm)
    trust_file.write_text(f"{public(KEY)} kernels team\n")
    trusted.add_list(str(farm / "ca" / "revoked.pem"), str(farm / "reader"))
    return farm


def a_minute_later(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: steady() + 61.0)


def test_a_key_that_a_farm_revokes_stops_its_bundles_wherever_they_are_opened(
    bundle: Path, tmp_path: Path, trust_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = followed(tmp_path, trust_file, monkeypatch)
    opened = [Library(bundle, watch=False) for _ in range(2)]
    held = opened[0].plan("matmul", m=4, n=4, k=4)
    check_all(opened[0])
    revoke(farm, bundle_key=KEY.public_key().public_bytes_raw())
    a_minute_later(monkeypatch)
    said = r"is signed by a revoked key, kernels team\. Ask its author, or build it again; list \d+ of \S+ revokes the key$"
    for trust in (False, True, "unsigned", public(KEY)):
        with pytest.raises(DatabaseError, match=said):
            Library(bundle, trust=trust)
    for _ in range(2):
        with pytest.raises(DatabaseError, match=said):
            opened[1].matmul(A, B)
    np.testing.assert_allclose(held(A, B), WANT, rtol=1e-4, atol=1e-5)
    sign_again(bundle, tmp_path / "again.twb", OTHER)
    check_all(Library(tmp_path / "again.twb", trust=public(OTHER)))


def test_a_bundle_is_opened_by_the_list_that_is_known_where_its_place_is_gone(
    bundle: Path, tmp_path: Path, trust_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = followed(tmp_path, trust_file, monkeypatch)
    library = Library(bundle, watch=False)
    (farm / "ca" / "revoked.pem").unlink()
    a_minute_later(monkeypatch)
    check_all(library)
    check_all(Library(bundle))
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 366 * 86400)
    for stale in (lambda: Library(bundle), lambda: library.plan("matmul", m=3, n=5, k=7)):
        with pytest.raises(DatabaseError, match=r"not known whether its key is revoked, since the list .* ended on"):
            stale()


def test_a_farm_that_is_followed_and_cannot_be_heard_stops_bundles_until_it_is(
    bundle: Path, tmp_path: Path, trust_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farm = followed(tmp_path, trust_file, monkeypatch)
    (farm / "ca" / "revoked.pem").rename(tmp_path / "away")
    with pytest.raises(DatabaseError, match=r"not known .* since the farm has no list .*No such file"):
        Library(bundle)
    (tmp_path / "away").rename(farm / "ca" / "revoked.pem")
    a_minute_later(monkeypatch)
    library = Library(bundle)
    with trust_file.open("a") as file:
        file.write(f"follow place {tmp_path / 'nothing'}\n")
    with pytest.raises(DatabaseError, match=r"is not opened: .* since \S+nothing has no ca\.pem"):
        library.plan("matmul", m=3, n=5, k=7)
    trust_file.write_text(f"{public(KEY)} kernels team\nfollow place\n")
    with pytest.raises(UsageError, match=r"line 2, is not a key. Write .* or `follow PLACE FOLDER`"):
        Library(bundle)
    for place, certs in (("a b", "c"), ("a", "c  d"), ("a#", "c"), ("a", "c\nd")):
        with pytest.raises(UsageError, match="cannot be written to"):
            trusted.add_list(place, certs)
    trust_file.write_text("# ours\n")
    for _ in range(2):
        trusted.add_list("tls://example.org:1", "/etc/a farm")
    assert trust_file.read_text() == "# ours\nfollow tls://example.org:1 /etc/a farm\n"
    assert read_keys().follows == (("tls://example.org:1", "/etc/a farm"),)


def test_following_a_farm_needs_its_packages_and_says_so(
    bundle: Path, tmp_path: Path, trust_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed(tmp_path, trust_file, monkeypatch)
    program = f"""
import sys
sys.modules["cryptography"] = None
import tilewright
try:
    tilewright.Library({str(bundle)!r})
except tilewright.DatabaseError as e:
    assert str(e).endswith("since the farm's certificates need the package cryptography. Run: pip install 'tilewright[farm]'"), e
else:
    sys.exit(3)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unsigned_bundle(filled_database: Path, tmp_path: Path) -> None:
    path = bundled(filled_database, tmp_path / "k.twb")
    for trust in (False, public(KEY), [public(KEY)]):
        with pytest.raises(DatabaseError, match="is not signed, and its code would run as you"):
            Library(path, trust=trust)
    check_all(Library(path, trust="unsigned"))
    path.chmod(0o666)
    with pytest.raises(DatabaseError, match=r"the bundle .* can be written by every user"):
        Library(path, trust="unsigned")
    check_all(Library(path, trust=True))
    sign_again(path, path, KEY)
    path.chmod(0o666)  # what is signed may lie anywhere
    check_all(Library(path, trust=public(KEY)))


@pytest.mark.parametrize("trust", ["ed25519:", "yes", ["ed25519:AAAA"], 3, None, "ed25519:" + "A" * 43 + "="])
def test_trust_that_says_nothing(bundle: Path, trust: object) -> None:
    with pytest.raises(UsageError, match=r"is not a public key|is not possible"):
        Library(bundle, trust=trust)  # type: ignore[arg-type]


def test_keys_that_are_revoked_beside_others_that_are_trusted_stay_revoked(tmp_path: Path) -> None:
    path = tmp_path / "config" / "trusted_keys"
    keys = [Ed25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(8)]
    for key in keys[:4]:
        change_keys(key, "stolen", revoke=False, path=path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: change_keys(keys[n], "n", revoke=n < 4, path=path), range(8)))
    found = read_keys(path)
    assert (set(found.revoked), set(found.trusted)) == (set(keys[:4]), set(keys[4:]))
    assert [p.name for p in path.parent.iterdir()] == ["trusted_keys"]


def test_a_link_to_the_file_of_trusted_keys_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "trusted_keys"
    link.symlink_to(tmp_path / "real" / "keys")
    assert change_keys(KEY.public_key().public_bytes_raw(), "mine", revoke=False, path=link) == link
    assert link.is_symlink()
    assert set(read_keys(tmp_path / "real" / "keys").trusted) == {KEY.public_key().public_bytes_raw()}


def test_a_database_is_signed_by_nobody(filled_database: Path) -> None:
    with pytest.raises(UsageError, match="is a database, and databases are not signed"):
        Library(filled_database, trust=public(KEY))
    with pytest.raises(UsageError, match="is not a public key"):
        Library(filled_database, trust="sure")
    check_all(Library(filled_database, trust="unsigned"))


def test_the_file_of_trusted_keys(bundle: Path, trust_file: Path) -> None:
    key = KEY.public_key().public_bytes_raw()
    trusted.change_keys(key, "kernels\nteam #1", revoke=False)
    assert trust_file.read_text() == f"{public(KEY)} kernels team 1\n"
    assert trust_file.stat().st_mode & 0o777 == 0o600
    check_all(Library(bundle))
    trust_file.chmod(0o622)
    with pytest.raises(DatabaseError, match=r"the file of trusted keys .* can be written by"):
        Library(bundle)
    trust_file.chmod(0o600)
    trusted.change_keys(key, "", revoke=True)
    assert trust_file.read_text() == f"revoked {public(KEY)} kernels team 1\n"
    with pytest.raises(UsageError, match="was revoked"):
        trusted.change_keys(key, "again", revoke=False)
    for text in ("ed25519:AAAA x", "revoked", "something"):
        trust_file.write_text(text)
        with pytest.raises(UsageError, match=r"trusted_keys, line 1, is not a key"):
            Library(bundle)
    trust_file.write_bytes(b"\xff\xfe")
    with pytest.raises(DatabaseError, match="cannot be read: it is not text"):
        Library(bundle)


# --------------------------------------------------------------------------- damage


def test_files_that_are_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "x.twb"
    for data, why in (
        (b"TWBUNDLE", "is not a bundle, or only the beginning of one"),
        (b"TWBUNDLE" + struct.pack("<I", 2) + bytes(200), "of format 2, and this version reads 1"),
        (b"TWBUNDLE" + struct.pack("<I", 1) + bytes(200), "is damaged: it has 212 bytes of 0"),
    ):
        path.write_bytes(data)
        with pytest.raises(DatabaseError, match=why):
            Library(path, trust=True)


def resealed(data: bytes, index: bytes) -> bytes:
    """An unsigned bundle with another index, whose hash is right."""
    header = unpack_header(data[:HEADER], len(data), "")
    old = data[HEADER : HEADER + header.index]
    assert len(old) == len(index)
    head = bytearray(data[:HEADER])
    head[32:64] = sha256(index).digest()
    return bytes(head) + index + data[HEADER + len(index) :]


def test_an_index_that_makes_no_sense(filled_database: Path, tmp_path: Path) -> None:
    """Its author may be trusted, and its program wrong: errors, no crash."""
    path = bundled(filled_database, tmp_path / "k.twb")
    data = path.read_bytes()
    header = unpack_header(data[:HEADER], len(data), "")
    index = data[HEADER : HEADER + header.index]
    source = stdlib_random.Random(3)
    for _ in range(300):
        wrong = bytearray(index)
        for _ in range(source.choice((1, 4))):
            wrong[source.randrange(len(wrong) if source.random() < 0.5 else 400)] = source.randrange(256)
        path.write_bytes(resealed(data, bytes(wrong)))
        try:
            library = Library(path, trust=True, watch=False)
            library.operators()
            bundle = Bundle(path, True)
            bundle.check()
            BundleStore(path, trust=True).every()
        except TilewrightError:
            pass


def test_parts_outside_of_the_file(filled_database: Path, tmp_path: Path) -> None:
    """An index that is whole, and asks for more memory than there is."""
    path = bundled(filled_database, tmp_path / "k.twb")
    data = path.read_bytes()
    opened = Bundle(path, True)
    index = bytearray(data[HEADER : HEADER + opened.header.index])
    for at in range(opened.index._blobs, opened.index._heap, 48):
        index[at + 40 : at + 48] = b"\xff" * 8
    path.write_bytes(resealed(data, bytes(index)))
    with pytest.raises(DatabaseError, match="a part of it lies outside of the file"):
        Library(path, trust=True).matmul(A, B)
    with pytest.raises(DatabaseError, match="its parts"):
        Bundle(path, True).check()


def mutations(data: bytes, other: bytes, source: stdlib_random.Random) -> bytes:
    """One mutation of ``data``: bits, cuts, additions, swapped parts, another bundle's signature, key or parts."""
    header = unpack_header(data[:HEADER], len(data), "")
    end = HEADER + header.index
    kind = source.randrange(8)
    out = bytearray(data)
    if kind in (0, 1):  # bits, in one of the three parts
        low, high = source.choice(((0, HEADER), (HEADER, end), (end, len(data))))
        for _ in range(source.choice((1, 1, 8))):
            out[source.randrange(low, high)] ^= 1 << source.randrange(8)
    elif kind == 2:  # cut off
        del out[source.randrange(len(out)) :]
    elif kind == 3:  # more
        out += source.randbytes(source.randrange(1, 200))
    elif kind == 4:  # two stretches swapped
        size = source.randrange(1, 400)
        a, b = sorted(source.sample(range(len(out) - size), 2))
        out[a : a + size], out[b : b + size] = out[b : b + size], out[a : a + size]
    elif kind == 5:  # a stretch of the other's
        a, size = source.randrange(len(out)), source.randrange(1, 4000)
        out[a : a + size] = other[a : a + size]
    elif kind == 6:  # its key, its signature, both, its whole header
        a, b = source.choice(((64, 96), (96, 160), (64, 160), (0, HEADER), (0, SIGNED)))
        out[a:b] = other[a:b]
    else:  # the signature taken away, or the bundle said to be unsigned
        out[12:16] = bytes(4)
        if source.random() < 0.5:
            out[64:160] = bytes(96)
    return bytes(out)


@pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_mutated_bundles_are_refused_or_right(
    count: int, signed_bytes: bytes, filled_database: Path, tmp_path: Path
) -> None:
    maker = Maker(tmp_path / "other.db", None)  # type: ignore[arg-type]
    shutil.copy(filled_database, maker.path)
    other = bundled(maker.path, tmp_path / "other.twb", OTHER).read_bytes()
    source = stdlib_random.Random(count)
    path = tmp_path / "mutated.twb"
    refused = right = 0
    for _ in range(count):
        data = mutations(signed_bytes, other, source)
        path.write_bytes(data)
        try:
            library = Library(path, trust=public(KEY), watch=False, count_misses=False)
            check_all(library)
            assert library.stats().tiers["exact"] == 5
            right += 1
            whole = data == signed_bytes
            if not whole:  # damage in what no call needs shows when it is looked at
                with pytest.raises(DatabaseError):
                    Bundle(path, public(KEY)).check()
        except TilewrightError:
            refused += 1
    assert refused + right == count
    assert refused > count * 0.8


def test_other_targets_are_passed_over(maker: Maker, tmp_path: Path) -> None:
    from dataclasses import replace

    from tilewright.backends.cpu.targets import detect

    elsewhere: Target = replace(detect(), isa=("nothing",), variant="nothing")
    maker.matmul(4, 4, 4, target=elsewhere)
    maker.add(wait.workload(n=1), "tw_t_wait")
    library = Library(bundled(maker.path, tmp_path / "k.twb"), trust=True)
    explanation = library.explain("matmul", m=4, n=4, k=4)
    assert explanation.tier == "fallback"
    assert "tuned only for cpu:nothing, which this machine lacks" in explanation.reason
