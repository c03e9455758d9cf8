"""Keys that sign bundles: private keys in PEM files that only their owner can read, public keys as a line of text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.core import TilewrightError, UsageError
from tilewright.errors import needed
from tilewright.runtime.bundle.trusted import parse_key, write_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_key(path: Path) -> str:
    """Writes a private key (PKCS #8, PEM, mode 0600) and beside it the public key, ``PATH.pub``; returns the public
    key.

    Raises ``UsageError`` where a file of either name exists, and ``TilewrightError``.
    """
    _require_cryptography()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public_path = path.with_name(path.name + ".pub")
    for taken in (path, public_path):
        if taken.exists():
            raise UsageError(f"{taken} exists already", "Name another file; keys are never replaced")
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    public = write_key(key.public_key().public_bytes_raw())
    try:
        for where, data, mode in ((path, pem, 0o600), (public_path, f"{public} {path.stem}\n".encode(), 0o644)):
            with open(os.open(where, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
                file.write(data)
    except OSError as e:
        raise TilewrightError(f"cannot write {where}: {e.strerror}", "Check the folder and the free disk space") from e
    return public


def load_key(path: Path) -> Ed25519PrivateKey:
    """A private key. Raises ``UsageError`` for a file without a key, ``TilewrightError`` for a file that others can
    read."""
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    from tilewright.farm.pki.private_files import require_private

    require_private(path)
    data = _read(path)
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError):
        raise UsageError(
            f"{path} is not a private key in PEM without a password", "Make one: tilewright bundle key new FILE"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path} is not an Ed25519 private key", "Make one: tilewright bundle key new FILE")
    return key


def public_key(given: str) -> tuple[str, str]:
    """The public key and its name, from a text ``ed25519:...``, a file that holds this text, or a private key's
    file."""
    path = Path(given).expanduser()
    if given.startswith("ed25519:"):
        return write_key(parse_key(given)), ""
    if _read(path).startswith(b"-----"):
        return write_key(load_key(path).public_key().public_bytes_raw()), path.stem
    text, _, name = _read(path).decode(errors="replace").strip().partition(" ")
    return write_key(parse_key(text)), name.strip() or path.stem


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise UsageError(f"cannot read the key {path}: {e.strerror}", "Name a key's file, or ed25519:...") from None


def _require_cryptography() -> None:
    needed("cryptography", "signing needs the package cryptography", "sign", TilewrightError)
