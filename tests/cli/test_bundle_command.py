"""``tilewright bundle``: keys, building, signing, inspecting, verifying, exporting, and what each refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.farm.following import follow


@pytest.fixture(scope="module")
def bundle_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "t.db"
    tilewright.tune("matmul", trials=1, db=path, m=16, n=16, k=16)
    return path


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_TRUSTED_KEYS", str(tmp_path / "conf" / "trusted_keys"))
    monkeypatch.chdir(tmp_path)


def test_from_a_key_to_a_call(cli: Any, bundle_db: Path) -> None:
    made = cli("bundle", "key", "new", "author.pem", "--json").json
    assert Path("author.pem").stat().st_mode & 0o777 == 0o600
    assert Path("author.pem.pub").read_text() == f"{made['key']} author\n"
    assert cli("bundle", "key", "show", "author.pem").out.strip() == made["key"]
    built = cli("bundle", "build", "--db", bundle_db, "-o", "k.twb", "--key", "author.pem", "--json").json
    assert (built["kernels"], built["signer"]) == (1, made["key"])

    refused = cli("bundle", "inspect", "k.twb")
    assert refused.code == 1
    assert refused.err.strip() == (
        f"tilewright: the bundle {Path('k.twb').resolve()} is signed by {made['key']}, which is not trusted. "
        f"If that is its author's key, run: tilewright bundle key trust {made['key']}"
    )
    assert cli("bundle", "key", "list").out.strip().endswith("lists no key")
    assert cli("bundle", "key", "trust", "author.pem.pub", "--name", "kernels team").code == 0
    assert cli("bundle", "key", "list").out.split()[:2] == ["trusted", made["key"]]

    shown = cli("bundle", "inspect", "k.twb")
    assert "m=16 n=16 k=16" in shown.out
    assert "signed by kernels team" in shown.out
    kernel = cli("bundle", "inspect", "k.twb", "--json").json["kernels"][0]
    assert kernel["params"]["m"] == 16
    assert kernel["compiler"]
    assert cli("bundle", "verify", "k.twb").out.endswith("1 of 1 kernels load\n")
    ran = cli("bundle", "verify", "k.twb", "--run", "--json").json
    assert (ran["wrong"], ran["skipped"], ran["kernels"][0]["state"]) == (0, 0, "right")
    a = np.eye(16, dtype=np.float32)
    library = tilewright.Library("k.twb")
    assert (library.matmul(a, a) == a).all()
    assert library.stats().tiers["exact"] == 1


def test_rotation_and_revocation(cli: Any, bundle_db: Path) -> None:
    for name in ("old", "new"):
        cli("bundle", "key", "new", f"{name}.pem")
    cli("bundle", "key", "trust", "old.pem.pub")
    cli("bundle", "build", "--db", bundle_db, "-o", "k.twb", "--key", "old.pem")
    cli("bundle", "key", "trust", "new.pem.pub")
    assert cli("bundle", "sign", "k.twb", "--key", "new.pem", "-o", "rotated.twb").code == 0
    assert cli("bundle", "key", "revoke", "old.pem.pub").code == 0
    gone = cli("bundle", "verify", "k.twb", "--json")
    assert gone.code == 1
    assert "is signed by a revoked key, old" in gone.json["error"]["message"]
    assert cli("bundle", "verify", "rotated.twb").code == 0
    again = cli("bundle", "key", "trust", "old.pem.pub")
    assert (again.code, "was revoked" in again.err) == (2, True)
    # In place, by the key that is trusted now.
    assert cli("bundle", "build", "--db", bundle_db, "-o", "u.twb", "--unsigned").code == 0
    assert cli("bundle", "sign", "u.twb", "--key", "new.pem").code == 1
    assert cli("bundle", "sign", "u.twb", "--key", "new.pem", "--trust", "unsigned").code == 0
    assert cli("bundle", "verify", "u.twb").code == 0
    assert Path("u.twb").read_bytes() == Path("rotated.twb").read_bytes()


def test_following_a_farm(cli: Any, bundle_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    key = cli("bundle", "key", "new", "author.pem", "--json").json["key"]
    cli("bundle", "build", "--db", bundle_db, "-o", "k.twb", "--key", "author.pem")
    cli("bundle", "key", "trust", "author.pem.pub")
    assert cli("farm", "init", "farm").code == 0

    assert cli("bundle", "key", "follow", "nothing", "--certs", "farm/reader").code == 1
    refused = cli("bundle", "key", "follow", "farm/ca/revoked.pem")
    assert refused.code == 2
    assert refused.err.strip().endswith("Pass --certs DIR: a folder with its ca.pem")
    assert cli("bundle", "key", "list", "--json").json["follows"] == []
    said = cli("bundle", "key", "follow", "farm/ca/revoked.pem", "--certs", "farm/reader").out
    assert "revoked certificates (0), until " in said
    (follows,) = cli("bundle", "key", "list", "--json").json["follows"]
    assert follows == {"place": str(tmp_path / "farm/ca/revoked.pem"), "certs": str(tmp_path / "farm/reader")}
    assert cli("bundle", "verify", "k.twb").code == 0

    done = cli("farm", "revoke", "--bundle-key", "author.pem.pub", "--days", "90", "--dir", "farm")
    assert done.out.startswith(f"revoked author ed25519-{key[8:-1].replace('+', '-').replace('/', '_')}, serial ")
    assert "of revoked certificates (1), until " in done.out
    again = cli("bundle", "key", "follow", "farm/ca/revoked.pem", "--certs", "farm/reader", "--json").json
    assert len(again["list"]["serials"]) == 1
    follow.cache_clear()  # a process of its own would have asked
    refused = cli("bundle", "verify", "k.twb")
    assert refused.code == 1
    assert (
        f"is signed by a revoked key, author. Ask its author, or build it again; list {again['list']['number']} of "
        in (refused.err)
    )
    assert refused.err.count("\n") == 1


def test_what_is_refused(cli: Any, bundle_db: Path) -> None:
    def line(code: int, *arguments: str | Path) -> str:
        reply = cli("bundle", *arguments)
        assert reply.code == code, reply.err
        assert len(reply.err.strip().splitlines()) == 1, reply.err
        return str(reply.err)

    assert "no signing key is given" in line(2, "build", "--db", bundle_db, "-o", "k.twb")
    assert "cannot read the key" in line(2, "key", "show", "none.pem")
    assert "none.pem" in line(1, "build", "--db", bundle_db, "-o", "k.twb", "--key", "none.pem")
    cli("bundle", "key", "new", "a.pem")
    assert "exists already" in line(2, "key", "new", "a.pem")
    assert "given together" in line(2, "build", "--db", bundle_db, "-o", "k.twb", "--key", "a.pem", "--unsigned")
    Path("a.pem").chmod(0o644)
    assert "is open to other users" in line(1, "build", "--db", bundle_db, "-o", "k.twb", "--key", "a.pem")
    Path("text.pem").write_text("no key")
    Path("text.pem").chmod(0o600)
    assert "is not a private key" in line(2, "build", "--db", bundle_db, "-o", "k.twb", "--key", "text.pem")
    assert "is not a public key" in line(2, "key", "trust", "text.pem")
    assert "is not a public key" in line(2, "key", "trust", "ed25519:AAAA")
    assert not Path("k.twb").exists()
    assert cli("bundle", "build", "--db", bundle_db, "-o", "k.twb", "--unsigned").code == 0
    assert "is not signed" in line(1, "verify", "k.twb")
    assert "is not a bundle" in line(1, "verify", bundle_db)
    assert "there is no bundle" in line(1, "verify", "none.twb")
    data = bytearray(Path("k.twb").read_bytes())
    data[-1] ^= 1
    Path("k.twb").write_bytes(data)
    assert "is damaged" in line(1, "verify", "k.twb", "--trust", "unsigned")
    Path("k.twb").write_bytes(data[:-7])
    assert "is damaged: it has" in line(1, "inspect", "k.twb", "--trust", "unsigned")
    assert "accepts any key" in line(2, "inspect", "k.twb", "--trust", "unsigned", "--trust", "ed25519:x")


def test_bundles_are_exported(cli: Any, bundle_db: Path) -> None:
    cli("bundle", "build", "--db", bundle_db, "-o", "k.twb", "--unsigned")
    made = cli("bundle", "export", "k.twb", "--trust", "unsigned", "--format", "c", "-o", "lib", "--json").json
    assert made["functions"] == ["tilewright_matmul_m16_n16_k16_float32"]
    assert made["checked"] == 1
    assert [Path(f).name for f in made["files"]] == ["tilewright.h", "libtilewright.a", "libtilewright.so"]
    wheel = cli("bundle", "export", "k.twb", "--trust", "unsigned", "--format", "wheel", "--no-check", "--json").json
    assert Path(wheel["files"][0]).name.startswith("tilewright_kernels-1.0-py3-none-linux_")
    for arguments, why in (
        (["--name", "tilewright"], "cannot be called tilewright"),
        (["--version", "new"], "is not a package version"),
        (["--op", "conv2d"], "holds no such kernel"),
        (["--target", "cpu:none"], "holds no such kernel"),
    ):
        reply = cli("bundle", "export", "k.twb", "--trust", "unsigned", "--format", "wheel", *arguments)
        assert (reply.code, why in reply.err) == (2, True)


def test_signing_without_cryptography(tmp_path: Path) -> None:
    program = "import sys; sys.modules['cryptography'] = None; from tilewright.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, "bundle", "key", "new", str(tmp_path / "a.pem")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "pip install 'tilewright[sign]'" in done.stderr
    assert not (tmp_path / "a.pem").exists()
