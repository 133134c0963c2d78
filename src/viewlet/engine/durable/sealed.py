"""Contents behind magic and checksum: what was altered or cut short is never taken for whole."""

from __future__ import annotations

import hashlib

_SEAL = b"VIEWLET1"
DIGEST_BYTES = 16


class DamagedFile(Exception):
    """A file is missing, cut short or altered. Callers say what that means as a StateError."""


def digest_of(*parts: bytes | memoryview) -> str:
    """SHA-256 over all parts, cut to 128 bits, in hexadecimal."""
    hasher = hashlib.sha256()
    for part in parts:
        hasher.update(part)
    return hasher.hexdigest()[: 2 * DIGEST_BYTES]


def seal(payload: bytes, name: str = "") -> list[bytes]:
    """payload -> magic, digest, payload. With a name the digest is right under that name alone."""
    return [_SEAL, bytes.fromhex(digest_of(name.encode(), payload)), payload]


def unseal(path: str, data: bytes, name: str = "") -> bytes:
    """magic, digest, payload -> payload; DamagedFile names the path where they do not fit."""
    start = len(_SEAL) + DIGEST_BYTES
    payload = data[start:]
    digest = digest_of(name.encode(), payload)
    if data[: len(_SEAL)] != _SEAL or data[len(_SEAL) : start].hex() != digest:
        raise DamagedFile(f"{path}: the checksum does not fit the contents")
    return payload
