"""Who may come in over HTTP: a token in a header or a cookie, and browsers only from this origin.

Without a token the server is on loopback. A page of another site could still make a browser on this
machine send requests there, by its own name for 127.0.0.1 or across origins; both are refused.
"""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from viewlet.server.page_files import is_page
from viewlet.server.settings import ServeSettings, is_loopback

COOKIE = "viewlet_token"
OPEN_PATHS = ("/healthz", "/login")


class Access:
    """Decides on every request and WebSocket."""

    def __init__(self, settings: ServeSettings) -> None:
        self._token = settings.token

    def refusal(self, connection: HTTPConnection) -> tuple[int, str] | None:
        """Status and reason where somebody may not come in."""
        host = connection.headers.get("host", "")
        origin = connection.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return 403, "requests from pages of other sites are refused"
        if self._token is None:
            name = urlsplit(f"//{host}").hostname or ""
            if not is_loopback(name):
                return 403, f"{name} is not this machine: a token is needed for other names"
            return None
        if connection.url.path in OPEN_PATHS or is_page(connection.url.path):
            return None
        if self.is_token(_sent_token(connection)):
            return None
        return 401, "the token is missing or wrong: send Authorization: Bearer TOKEN"

    def is_token(self, candidate: str | None) -> bool:
        """Whether it is the token, in a time that tells nothing of it."""
        expected = self._token or ""
        return candidate is not None and hmac.compare_digest(candidate.encode(), expected.encode())


def _sent_token(connection: HTTPConnection) -> str | None:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else connection.cookies.get(COOKIE)
