"""What `viewlet serve` is told: where it listens, who may come in, and how much they may ask."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from viewlet.errors import StateError


@dataclass(frozen=True)
class ServeSettings:
    """Where the server listens, and its limits.

    Without a token everybody who reaches it may do everything, so it listens on loopback alone.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    pg_port: int | None = None
    token: str | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    read_only: bool = False
    files: bool = False
    max_body: int = 64 * 2**20
    max_rows: int = 100_000
    max_seconds: float = 10.0

    def check(self) -> None:
        """StateError where it would be open to strangers, or cannot be."""
        if self.token is None and not is_loopback(self.host):
            raise StateError(
                f"{self.host} can be reached by others, and no token is asked for",
                hint="set VIEWLET_TOKEN, or serve on 127.0.0.1",
            )
        if self.token is not None and (not self.token.isascii() or len(self.token) < 8):
            raise StateError("the token is too weak", hint="give 8 ASCII characters or more")
        if (self.certificate is None) != (self.private_key is None):
            raise StateError(
                "TLS needs a certificate and its key", hint="give --certificate and --key"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address or name."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
