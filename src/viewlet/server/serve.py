"""`viewlet serve`: a database, HTTP and the PostgreSQL wire in one process and one event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn

from viewlet.errors import StateError, ViewletError
from viewlet.interfaces.connect import connect
from viewlet.interfaces.database import Database
from viewlet.server.gateway import Gateway
from viewlet.server.http_app import HttpInterface, http_app
from viewlet.server.pg_server import PgServer
from viewlet.server.settings import ServeSettings

Announce = Callable[[str], None]
SHUTDOWN_SECONDS = 5
ENDING_SECONDS = 0.05


def open_database(source: str | None, settings: ServeSettings) -> Database:
    """A directory -> the database on disk; a file of SQL -> what it defines, in memory."""
    if source is None:
        return connect(files=settings.files)
    if not source.endswith(".sql"):
        return connect(source, files=settings.files)
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise StateError(f"cannot read {source}: {reason}") from None
    database = connect(files=settings.files)
    try:
        database.execute(text)
    except ViewletError:
        database.close()
        raise
    return database


def serve(database: Database, settings: ServeSettings, announce: Announce) -> None:
    """Serve until Ctrl-C or SIGTERM; what was acknowledged is in the database then."""
    RunningServer(database, settings, announce).run()


class RunningServer:
    """A server and the ports that it got; `run` blocks until `stop` or a signal."""

    def __init__(
        self, database: Database, settings: ServeSettings, announce: Announce = lambda text: None
    ) -> None:
        settings.check()
        self.gateway = Gateway(database, settings)
        self.port = 0
        self.pg_port: int | None = None
        self.started = threading.Event()
        self._settings = settings
        self._announce = announce
        self._server: uvicorn.Server | None = None

    def run(self) -> None:
        """Listen and answer."""
        asyncio.run(self._run())

    def stop(self) -> None:
        """End it, from any thread."""
        if self._server is not None:
            self._server.should_exit = True

    async def _run(self) -> None:
        settings = self._settings
        app, interface = http_app(self.gateway)
        tls = None if settings.certificate is None else tls_context(settings)
        listening = listening_socket(settings.host, settings.port)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            ws="websockets-sansio",
            ws_max_size=2**16,
            h11_max_incomplete_event_size=2**16,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.private_key,
        )
        self._server = uvicorn.Server(config)
        self.port = listening.getsockname()[1]
        self._announce(f"{'https' if tls else 'http'}://{settings.host}:{self.port}/")
        wire = await self._listen_pg(interface, tls)
        self.started.set()
        ending = asyncio.create_task(self._end_feeds(interface))
        try:
            await self._server.serve(sockets=[listening])
        finally:
            ending.cancel()
            if wire is not None:
                wire[1].close()
                await wire[0].close()
            interface.feeds.close()
            listening.close()
            await asyncio.to_thread(self.gateway.close)

    async def _end_feeds(self, interface: HttpInterface) -> None:
        """Change streams end when the server is told to: it would wait for their clients."""
        assert self._server is not None
        while not self._server.should_exit:
            await asyncio.sleep(ENDING_SECONDS)
        interface.feeds.close()

    async def _listen_pg(
        self, interface: HttpInterface, tls: ssl.SSLContext | None
    ) -> tuple[PgServer, asyncio.Server] | None:
        settings = self._settings
        if settings.pg_port is None:
            return None
        server = PgServer(self.gateway, interface.feeds, tls, interface.report)
        listening = listening_socket(settings.host, settings.pg_port)
        listener = await asyncio.start_server(server.accept, sock=listening, limit=2**20)
        self.pg_port = listening.getsockname()[1]
        self._announce(f"postgresql://viewlet@{settings.host}:{self.pg_port}/viewlet")
        return server, listener


def tls_context(settings: ServeSettings) -> ssl.SSLContext:
    """For the PostgreSQL wire; HTTP makes its own."""
    assert settings.certificate is not None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(settings.certificate, settings.private_key)
    except (OSError, ssl.SSLError) as error:
        raise StateError(f"the certificate cannot be used: {error}") from None
    return context


def listening_socket(host: str, port: int) -> socket.socket:
    """A port of ours, or an error that says why not."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _notice_lost_clients(listening)
    try:
        listening.bind((host.strip("[]"), port))
    except OSError as error:
        listening.close()
        raise StateError(
            f"cannot listen on {host}:{port}: {error.strerror or error}", hint="give another port"
        ) from None
    listening.listen(1024)
    listening.setblocking(False)
    return listening


def _notice_lost_clients(listening: socket.socket) -> None:
    """A client whose machine is gone is noticed within two minutes, also while it says nothing."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, option):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def log_to_stderr() -> None:
    """Requests as lines of JSON."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("viewlet.server")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
