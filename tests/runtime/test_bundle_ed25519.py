"""Signatures: the RFC's vectors, another implementation, and forms that must not pass."""

from __future__ import annotations

import hashlib
import random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tilewright.runtime.bundle.ed25519 import _L, _P, is_public_key, verify

VECTORS = [  # RFC 8032, 7.1
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
    (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        hashlib.sha512(b"abc").hexdigest(),
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    ),
]


@pytest.mark.parametrize(("public", "message", "signature"), VECTORS)
def test_the_rfcs_vectors(public: str, message: str, signature: str) -> None:
    given = bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature)
    assert verify(*given)
    assert is_public_key(given[0])
    for byte in (0, 31, 32, 63):
        wrong = bytearray(given[2])
        wrong[byte] ^= 1
        assert not verify(given[0], given[1], bytes(wrong))
    assert not verify(given[0], given[1] + b"x", given[2])


def test_agrees_with_another_implementation() -> None:
    source = random.Random(7)
    for length in (0, 1, 32, 96, 1000):
        key = Ed25519PrivateKey.from_private_bytes(source.randbytes(32))
        public, message = key.public_key().public_bytes_raw(), source.randbytes(length)
        signature = key.sign(message)
        assert verify(public, message, signature)
        for _ in range(4):
            wrong = bytearray(signature)
            wrong[source.randrange(64)] ^= 1 << source.randrange(8)
            assert not verify(public, message, bytes(wrong))


def test_a_signature_has_one_form() -> None:
    public, message, signature = (bytes.fromhex(x) for x in VECTORS[1])
    s = int.from_bytes(signature[32:], "little")
    assert not verify(public, message, signature[:32] + (s + _L).to_bytes(32, "little"))
    assert not verify(public, message, signature + b"\0")
    assert not verify(public, message, signature[:63])


@pytest.mark.parametrize(
    "public",
    [
        (1).to_bytes(32, "little"),  # neutral
        (_P - 1).to_bytes(32, "little"),  # of order two
        bytes(32),  # of order four
        (_P + 1).to_bytes(32, "little"),  # 1, not canonical
        (1 | 1 << 255).to_bytes(32, "little"),  # x = 0 with a sign
        (2).to_bytes(32, "little"),  # on no point of the curve
        bytes(31),
        b"",
    ],
)
def test_keys_that_are_none(public: bytes) -> None:
    assert not is_public_key(public)
    # With a key of small order this signature would pass for any message.
    assert not verify(public, b"any", (1).to_bytes(32, "little") + bytes(32))
