"""The public keys that a user trusts to sign bundles, and revoked keys.

The file has a line ``ed25519:... name`` for each key, with ``revoked`` in front of a revoked key. A line ``follow PLACE
FOLDER`` names a farm whose list of revoked certificates applies too.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Union

from tilewright.core import DatabaseError, UsageError
from tilewright.errors import explained_writing
from tilewright.files import locked, replace_file
from tilewright.forking import imported
from tilewright.paths import config_root
from tilewright.runtime.bundle.ed25519 import is_public_key
from tilewright.runtime.trust import require_own

if TYPE_CHECKING:
    from tilewright.farm.following import Followed

Trust = Union[bool, str, Iterable[str]]
"""The type of the argument ``trust`` of ``Library``, which describes it."""

UNSIGNED = "unsigned"
_PREFIX = "ed25519:"


@dataclass(frozen=True)
class Keys:
    """Public keys with their names: ``trusted``, and ``revoked``, which are never trusted.

    ``where``: the path of the file. ``follows``: the addresses of farms' lists of revoked certificates, each with a
    folder of that farm's certificates.
    """

    trusted: Mapping[bytes, str]
    revoked: Mapping[bytes, str]
    where: str
    follows: tuple[tuple[str, str], ...] = ()

    def lists(self) -> list[Followed]:
        """The farms' lists. Raises ``FarmError``."""
        if not self.follows:
            return []  # the farm's packages are not needed then
        follow = imported("tilewright.farm.following").follow
        return [follow(*farm) for farm in self.follows]


def write_key(public: bytes) -> str:
    """A public key as text: ``ed25519:`` and its 32 bytes in base64."""
    return _PREFIX + base64.b64encode(public).decode()


def parse_key(text: str) -> bytes:
    """The 32 bytes of a public key's text. Raises ``UsageError``."""
    given = text.strip()
    try:
        public = base64.b64decode(given.removeprefix(_PREFIX), validate=True) if given.startswith(_PREFIX) else b""
    except (binascii.Error, ValueError):
        public = b""
    if len(public) != 32 or write_key(public) != given or not is_public_key(public):
        raise UsageError(
            f"{text.strip()[:60]!r} is not a public key", "Pass ed25519:... as `tilewright bundle key show` prints it"
        )
    return public


def trust_file() -> Path:
    """``$TILEWRIGHT_TRUSTED_KEYS``, else ``tilewright/trusted_keys`` in ``$XDG_CONFIG_HOME`` (``~/.config``)."""
    given = os.environ.get("TILEWRIGHT_TRUSTED_KEYS")
    return Path(given).expanduser().absolute() if given else config_root() / "trusted_keys"


def read_keys(path: Path | None = None) -> Keys:
    """The keys in the user's file; no keys without a file.

    Raises ``DatabaseError`` for a file that other users can write, or that cannot be read, and ``UsageError`` for an
    invalid line.
    """
    path = Path(os.path.realpath(path or trust_file()))
    trusted: dict[bytes, str] = {}
    revoked: dict[bytes, str] = {}
    follows: dict[tuple[str, str], None] = {}
    try:
        text = path.read_text(encoding="utf-8")
        require_own(path, "the file of trusted keys", "it says whose code runs as you")
    except FileNotFoundError:
        return Keys({}, {}, str(path))
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not text"
        raise DatabaseError(f"the file of trusted keys {path} cannot be read: {why}", "Check its mode") from None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0] == "follow" and len(words) > 2:
            follows[words[1], " ".join(words[2:])] = None
            continue
        gone = words[0] == "revoked"
        try:
            public = parse_key(words[gone] if len(words) > gone else "")
        except UsageError:
            raise UsageError(
                f"{path}, line {number}, is not a key",
                "Write `ed25519:... name`, `revoked ed25519:... name` or `follow PLACE FOLDER`",
            ) from None
        (revoked if gone else trusted)[public] = " ".join(words[gone + 1 :])
    return Keys({k: n for k, n in trusted.items() if k not in revoked}, revoked, str(path), tuple(follows))


def change_keys(public: bytes, name: str, *, revoke: bool, path: Path | None = None) -> Path:
    """Writes into the user's file that a key is trusted from now on, or permanently revoked.

    Raises ``UsageError`` for a key that was revoked, and ``DatabaseError``.
    """
    path = path or trust_file()
    name = re.sub(r"[\s#]+", " ", name).strip()
    with _changing(path) as (keys, lines):
        if not revoke and public in keys.revoked:
            raise UsageError(
                f"{write_key(public)} was revoked", f"Make another key; or remove its line from {keys.where} by hand"
            )
        if public not in (keys.revoked if revoke else keys.trusted):
            words = ["revoked" if revoke else "", write_key(public), name or keys.trusted.get(public, "")]
            lines[:] = [x for x in lines if not revoke or write_key(public) not in x.split()]
            lines.append(" ".join(filter(None, words)))
    return path


def add_list(place: str, certs: str, path: Path | None = None) -> Path:
    """Writes into the user's file that a farm's list of revoked certificates applies: see :class:`Keys`.

    Raises ``UsageError`` for text that the file cannot hold, and ``DatabaseError``.
    """
    path = path or trust_file()
    for text, blanks in ((place, r"[\s#]"), (certs, r"[\n\r#]|^\s|\s{2}|\s$")):
        if re.search(blanks, text):
            raise UsageError(f"{text!r} cannot be written to {path}", "Use a path without blanks and #")
    with _changing(path) as (keys, lines):
        if (place, certs) not in keys.follows:
            lines.append(f"follow {place} {certs}")
    return path


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[tuple[Keys, list[str]]]:
    """The keys and lines of the user's file; lines that the caller changes are written back.

    Raises ``DatabaseError``, ``UsageError``.
    """
    folder = Path(os.path.realpath(path)).parent
    with explained_writing(path, "Check its folder and mode", DatabaseError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(folder):  # no other process may write between reading and writing
            keys = read_keys(path)
            before = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            lines = list(before)
            yield keys, lines
            if lines != before:
                replace_file(path, ("\n".join(lines) + "\n").encode())


def given_keys(trust: Trust) -> dict[bytes, str]:
    """Public keys that a program passed. Raises ``UsageError``."""
    texts = [trust] if isinstance(trust, str) else trust
    if isinstance(texts, bool) or not isinstance(texts, Iterable):
        raise UsageError(f"trust={trust!r} is not possible", 'Pass True, "unsigned", or public keys (ed25519:...)')
    return {parse_key(str(t)): "passed by the program" for t in texts}
