"""The live page: its files, which need no token, since they say nothing of the database.

What the page shows it asks for through the same routes as every other client (http_app.py).
"""

from __future__ import annotations

from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

PATH = "/page/"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; form-action 'self'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
"""Nothing from elsewhere runs in the page, and no other page shows it in a frame. Program drawings
carry styles of their own."""


def _contents() -> dict[str, tuple[bytes, str]]:
    folder = files("viewlet.server") / "page"
    made = {}
    for file in folder.iterdir():
        kind = KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            made[file.name] = (file.read_bytes(), kind)
    return made


_FILES = _contents()


async def page_file(request: Request) -> Response:
    """One of the files; `/` is index.html, and `/api` says what may be asked for."""
    own = "api.html" if request.url.path == "/api" else "index.html"
    contents = _FILES.get(request.path_params.get("file", own))
    if contents is None:
        return Response("there is no such file", 404, HEADERS, "text/plain")
    return Response(contents[0], 200, HEADERS, contents[1])


def is_page(path: str) -> bool:
    """Whether a path is one of the page's files."""
    return path in ("/", "/api") or path.startswith(PATH)
