"""SCRAM-SHA-256 as PostgreSQL's clients speak it: they prove that they know the password.

    client first    n,,n=,r=NONCE
    server first    r=NONCE+OURS,s=SALT,i=COUNT
    client final    c=biws,r=NONCE+OURS,p=PROOF
    server final    v=SIGNATURE

with PROOF = ClientKey xor HMAC(H(ClientKey), all that was said), and the client believed if the
hash of the ClientKey that follows from it is the stored one. The library scramp (1.5) has a
server's side, but refuses the empty user name that libpq always sends; hence these lines.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

ROUNDS = 4096
MECHANISM = "SCRAM-SHA-256"


class WrongPasswordError(Exception):
    """What the client sent does not prove that it knows the password."""


class ScramServer:
    """One client's attempt."""

    def __init__(self, password: str) -> None:
        self._salt = secrets.token_bytes(16)
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), self._salt, ROUNDS)
        self._stored_key = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
        self._server_key = _hmac(salted, b"Server Key")
        self._header = ""
        self._nonce = ""
        self._said = ""

    def first(self, text: str) -> str:
        """The client's first message -> ours."""
        flag, _, rest = text.partition(",")
        authzid, _, bare = rest.partition(",")
        if flag not in ("n", "y"):  # p is for channel binding, which was not offered
            raise WrongPasswordError
        self._header = f"{flag},{authzid},"
        self._nonce = _attributes(bare).get("r", "") + secrets.token_urlsafe(18)
        answer = f"r={self._nonce},s={base64.b64encode(self._salt).decode()},i={ROUNDS}"
        self._said = f"{bare},{answer}"
        return answer

    def final(self, text: str) -> str:
        """The client's proof -> ours, if it is right."""
        without_proof, _, proof_text = text.rpartition(",p=")
        attributes = _attributes(without_proof)
        said = f"{self._said},{without_proof}".encode()
        try:
            proof = base64.b64decode(proof_text, validate=True)
            header = base64.b64decode(attributes.get("c", ""), validate=True)
        except (binascii.Error, ValueError):
            raise WrongPasswordError from None
        signature = _hmac(self._stored_key, said)
        if len(proof) != len(signature) or header != self._header.encode():
            raise WrongPasswordError
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        is_known = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._stored_key)
        if not is_known or attributes.get("r") != self._nonce:
            raise WrongPasswordError
        return "v=" + base64.b64encode(_hmac(self._server_key, said)).decode()


def _hmac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, hashlib.sha256).digest()


def _attributes(text: str) -> dict[str, str]:
    """a=1,b=2 -> {"a": "1", "b": "2"}"""
    parts = (part.partition("=") for part in text.split(","))
    return {name: value for name, _, value in parts}
