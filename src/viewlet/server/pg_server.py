"""PostgreSQL's wire: listening, TLS, passwords, and canceling.

The protocol layer is our own, over asyncio. Of the libraries, buenavista 0.5 has a thread for each
connection, no TLS, no COPY, md5 passwords alone, and answers every Describe of a statement by
running it with made-up parameters; riffq did not build on Python 3.13. The password is the
server's token, checked by SCRAM-SHA-256 (pg_password.py).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct

from viewlet.server import pg_messages as wire
from viewlet.server.feeds import Feeds
from viewlet.server.gateway import Gateway
from viewlet.server.pg_catalog import WireCatalog
from viewlet.server.pg_messages import MessageReader, WireError
from viewlet.server.pg_password import MECHANISM, ScramServer, WrongPasswordError
from viewlet.server.pg_session import PgSession, Report
from viewlet.server.pg_shapes import SETTINGS

LOG = logging.getLogger("viewlet.server")
PROTOCOL, TLS_REQUEST, GSS_REQUEST, CANCEL = 196608, 80877103, 80877104, 80877102
STARTUP_SECONDS = 30.0
MAX_CONNECTIONS = 500
MAX_UNPROVED = 200
"""Connections that have not come to their first statement."""
REPORTED = (
    *("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone"),
    *("integer_datetimes", "standard_conforming_strings", "is_superuser"),
)


class PgServer:
    """Accepts clients and knows their sessions, by which others cancel."""

    def __init__(
        self, gateway: Gateway, feeds: Feeds, tls: ssl.SSLContext | None, report: Report
    ) -> None:
        self._gateway = gateway
        self._feeds = feeds
        self._tls = tls
        self._report = report
        self._catalog = WireCatalog(gateway.database)
        self._sessions: dict[int, PgSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._number = 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its first byte to its last."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._tasks) - len(self._sessions) >= MAX_UNPROVED:
            writer.write(refusal("53300", "too many clients have not said who they are"))
            writer.close()
            return
        self._tasks.add(task)
        try:
            await self._converse(reader, writer)
        except (WireError, EOFError, ConnectionError, TimeoutError, ssl.SSLError) as error:
            LOG.debug("a connection ended: %s", error)
            if isinstance(error, WireError) and not writer.is_closing():
                writer.write(refusal("08P01", str(error)))
        except asyncio.CancelledError:
            writer.write(refusal("57P01", "the server ends"))
        except Exception:
            LOG.exception("a connection failed")
            writer.write(refusal("XX000", "the server failed; its log says why"))
        finally:
            self._tasks.discard(task)
            writer.close()

    async def close(self) -> None:
        """End all connections."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=5)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parameters = await asyncio.wait_for(self._startup(reader, writer), STARTUP_SECONDS)
        if parameters is None:
            return
        if len(self._sessions) >= MAX_CONNECTIONS:
            writer.write(refusal("53300", "there are too many connections"))
            return
        session = PgSession(self._gateway, self._feeds, self._catalog, reader, writer, self._report)
        try:
            await self._serve(session)
        finally:
            session.stream.close()

    async def _serve(self, session: PgSession) -> None:
        if self._gateway.settings.token is not None:
            await asyncio.wait_for(self._authenticate(session), STARTUP_SECONDS)
        session.stream.longest = wire.MAX_MESSAGE
        session.send(wire.AUTHENTICATION_OK)
        for name in REPORTED:
            session.send(wire.parameter_status(name, SETTINGS[name]))
        self._number += 1
        number = self._number
        session.send(wire.backend_key(number, session.secret))
        self._sessions[number] = session
        try:
            await session.run()
        finally:
            del self._sessions[number]

    async def _startup(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> dict[str, str] | None:
        """The parameters of the client; None if it only came to cancel."""
        while True:
            (size,) = struct.unpack("!i", await reader.readexactly(4))
            if not 8 <= size <= wire.MAX_STARTUP:
                raise WireError("this is not PostgreSQL's protocol")
            message = MessageReader(await reader.readexactly(size - 4))
            (code,) = message.numbers("i")
            if code == TLS_REQUEST and self._tls is not None:
                writer.write(b"S")
                await writer.start_tls(self._tls)
            elif code in (TLS_REQUEST, GSS_REQUEST):
                writer.write(b"N")
            elif code == CANCEL:
                number, secret = message.numbers("iI")
                session = self._sessions.get(number)
                if session is not None and session.secret == secret:
                    session.cancel()
                return None
            elif code >> 16 == 3:
                if self._tls is not None and writer.get_extra_info("sslcontext") is None:
                    writer.write(refusal("28000", "this server asks for TLS"))
                    return None
                return _parameters(message)
            else:
                raise WireError("this version of the protocol is not spoken")

    async def _authenticate(self, session: PgSession) -> None:
        """SCRAM-SHA-256; the token is the password of every user."""
        scram = ScramServer(self._gateway.settings.token or "")
        session.send(wire.authentication(10, wire.text(MECHANISM) + b"\0"))
        await session.writer.drain()
        try:
            first = MessageReader(await self._password(session))
            if first.string() != MECHANISM:
                raise WireError("no such mechanism")
            first.numbers("i")
            session.send(wire.authentication(11, scram.first(first.rest().decode()).encode()))
            await session.writer.drain()
            final = (await self._password(session)).decode()
            session.send(wire.authentication(12, scram.final(final).encode()))
        except (WrongPasswordError, UnicodeDecodeError):
            session.send(refusal("28P01", "the password is wrong"))
            raise ConnectionError("the password is wrong") from None

    async def _password(self, session: PgSession) -> bytes:
        letter, content = await session.stream.read()
        if letter != b"p":
            raise WireError("a password belongs here")
        return content


def _parameters(message: MessageReader) -> dict[str, str]:
    parameters = {}
    while name := message.string():
        parameters[name] = message.string()
    return parameters


def refusal(code: str, text: str) -> bytes:
    """An error after which the connection ends."""
    return wire.fields(b"E", {"S": "FATAL", "V": "FATAL", "C": code, "M": text})
