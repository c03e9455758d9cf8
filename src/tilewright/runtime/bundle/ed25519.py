"""Checks Ed25519 signatures (RFC 8032) in plain Python, without secrets that timing could leak.

Stricter than the RFC requires, so that a signature has one form: S is below the group's order, and points are
canonically encoded. A public key of small order is refused, as it would accept forged signatures.
"""

from __future__ import annotations

from hashlib import sha512

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)  # of -1

Point = tuple[int, int, int, int]
"""Extended coordinates (RFC 8032, 5.1.4): X, Y, Z and T, with x = X/Z, y = Y/Z, xy = T/Z."""

_NEUTRAL: Point = (0, 1, 1, 0)


def is_public_key(public: bytes) -> bool:
    """Whether 32 bytes are the canonical encoding of a point that may be a public key."""
    point = _decode(public)
    return point is not None and not _small(point)


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether ``signature`` (64 bytes) signs ``message`` under ``public`` (32 bytes)."""
    if len(signature) != 64:
        return False
    point = _decode(public)
    s = int.from_bytes(signature[32:], "little")
    if point is None or _small(point) or s >= _L:
        return False
    k = int.from_bytes(sha512(signature[:32] + public + message).digest(), "little") % _L
    x, y, z, t = point
    # R = sB - kA, compared in encoded form, so that a non-canonical R never matches.
    return _encode(_both(s, _BASE, k, (_P - x, y, z, _P - t))) == signature[:32]


def _decode(data: bytes) -> Point | None:
    """The point of an encoding; ``None`` for a non-canonical encoding or a point off the curve (RFC 8032, 5.1.3)."""
    if len(data) != 32:
        return None
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if y >= _P:
        return None
    u, v = (y * y - 1) % _P, (_D * y * y + 1) % _P
    x = u * pow(v, 3, _P) * pow(u * pow(v, 7, _P), (_P - 5) // 8, _P) % _P
    if v * x * x % _P != u:
        x = x * _ROOT % _P
        if v * x * x % _P != u:
            return None
    if x == 0 and sign:
        return None
    if x & 1 != sign:
        x = _P - x
    return (x, y, 1, x * y % _P)


def _encode(p: Point) -> bytes:
    inverse = pow(p[2], -1, _P)
    x, y = p[0] * inverse % _P, p[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _P, (p[1] + p[0]) * (q[1] + q[0]) % _P
    c, d = 2 * p[3] * q[3] * _D % _P, 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _double(p: Point) -> Point:
    a, b, c = p[0] * p[0] % _P, p[1] * p[1] % _P, 2 * p[2] * p[2]
    h = a + b
    e, g = h - (p[0] + p[1]) * (p[0] + p[1]), a - b
    f = c + g
    return (e * f % _P, g * h % _P, f * g % _P, e * h % _P)


def _both(m: int, p: Point, n: int, q: Point) -> Point:
    """mP + nQ, by one pass over the bits of both scalars."""
    terms = (None, p, q, _add(p, q))
    total = _NEUTRAL
    for bit in range(max(m.bit_length(), n.bit_length()) - 1, -1, -1):
        total = _double(total)
        term = terms[(m >> bit & 1) | (n >> bit & 1) << 1]
        if term is not None:
            total = _add(total, term)
    return total


def _small(p: Point) -> bool:
    """Whether a point has small order: eight times the point is neutral."""
    x, y, z, _ = _double(_double(_double(p)))
    return x == 0 and y == z


def _base() -> Point:
    found = _decode((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))
    assert found is not None
    return found


_BASE = _base()
