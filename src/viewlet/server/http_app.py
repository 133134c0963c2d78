"""The HTTP interface: views, rows, SQL, change streams, and figures.

Routes are in one table, from which /openapi.json is made as well (openapi.py). An error of the
family is a JSON object with message, hint and position; anything else is logged and is status 500.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from viewlet.errors import DataError, ParseError, ResolutionError, ViewletError
from viewlet.interfaces.cancellation import Cancellation
from viewlet.interfaces.dml import Change
from viewlet.server.admission import COOKIE, Access
from viewlet.server.bodies import BodyFile, TooLargeError, small_body, spooled
from viewlet.server.feeds import FeedMessage, FeedReader, Feeds
from viewlet.server.figures import FigureBook
from viewlet.server.gateway import BusyError, Gateway
from viewlet.server.openapi import document
from viewlet.server.page_files import page_file
from viewlet.server.prometheus import ServerMetrics
from viewlet.server.row_formats import (
    MEDIA_TYPES,
    json_body,
    json_rows,
    one_batch,
    read_rows,
    written,
)

LOG = logging.getLogger("viewlet.server")
PAGE_ROWS = 1_000
PING_SECONDS = 15
MAX_SQL = 2**20
STREAMED_ROWS = 1_000
SHOWN_BATCHES = 100
Handler = Callable[[Request], Awaitable[Response]]


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(json_body(value), status, headers, "application/json")


def error_body(error: ViewletError) -> dict[str, Any]:
    """An error for tools: a page can mark the position."""
    position = error.position
    return {
        "type": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "line": position.line if position else None,
        "column": position.column if position else None,
    }


def status_of(error: ViewletError) -> int:
    """413 for too much, 503 for too many, 404 for a name that is not there, else 400."""
    if isinstance(error, BusyError):
        return 503
    if isinstance(error, TooLargeError):
        return 413
    return 404 if isinstance(error, ResolutionError) and error.position is None else 400


class HttpInterface:
    """The handlers of all routes."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.feeds = Feeds(gateway)
        self.figures = FigureBook(gateway, self.feeds)
        self.metrics = ServerMetrics(gateway, self.figures, self.feeds)
        self._access = Access(gateway.settings)

    # --- reading ----------------------------------------------------------------------------------

    async def list_views(self, request: Request) -> Response:
        """Every view, with its columns and figures."""
        database = self.gateway.database
        figures = self.figures.views
        listed = []
        for name in database.views:
            schema = dataclasses.asdict(database.schema(name))
            view = figures.get(name)
            listed.append({**schema, "figures": dataclasses.asdict(view) if view else None})
        tables = [dataclasses.asdict(database.schema(name)) for name in database.tables]
        return reply({"version": self.gateway.version, "views": listed, "tables": tables})

    async def read_view(self, request: Request) -> Response:
        """A page of a view's rows."""
        name, parameters = request.path_params["name"], request.query_params
        format = parameters.get("format", "json")
        if format not in MEDIA_TYPES:
            raise DataError(f"there is no format {format}", hint=f"{', '.join(MEDIA_TYPES)}")
        most = self.gateway.settings.max_rows
        limit = _number(parameters.get("limit"), PAGE_ROWS if format == "json" else most, "limit")
        offset = _number(parameters.get("offset"), 0, "offset")
        version = _number(parameters["version"], 0, "version") if "version" in parameters else None
        limit = min(limit, most)
        page = await self.gateway.run(
            self.gateway.page, name, offset, limit, parameters.get("order"), version
        )
        headers = {"x-viewlet-version": str(page.version), "x-viewlet-total": str(page.total)}
        if page.offset + page.rows.num_rows < page.total and limit:
            following = request.url.include_query_params(
                offset=page.offset + limit, version=page.version
            )
            headers["link"] = f'<{following.path}?{following.query}>; rel="next"'
        if format != "json":
            body = await self.gateway.run(written, page.rows, format)
            return Response(body, 200, headers, MEDIA_TYPES[format])
        content = {
            "view": name,
            "version": page.version,
            "total": page.total,
            "offset": page.offset,
            "columns": _columns(page.rows),
            "rows": await self.gateway.run(json_rows, page.rows),
        }
        return reply(content, headers=headers)

    async def explain_view(self, request: Request) -> Response:
        """A view at a stage: sql, calculus, plan, program, kernels; or the program as a picture."""
        name, parameters = request.path_params["name"], request.query_params
        stage, format = parameters.get("stage", "program"), parameters.get("format", "text")
        explain: Callable[..., str] = self.gateway.database.explain  # which checks both
        text = await self.gateway.run(lambda: explain(name, stage, format=format))
        kinds = {"svg": "image/svg+xml", "json": "application/json"}
        return Response(text, 200, None, kinds.get(format, "text/plain"))

    async def draw_view(self, request: Request) -> Response:
        """The program of a view as a picture, with what its maps hold and its batches take."""
        drawing = await self.gateway.run(self.figures.drawing, request.path_params["name"])
        return Response(drawing, 200, None, "image/svg+xml")

    async def view_maps(self, request: Request) -> Response:
        """The maps of a view with their sizes."""
        name = request.path_params["name"]
        stats = await self.gateway.run(self.gateway.database.stats, name)
        maps = [{"name": m, "records": s.records, "bytes": s.bytes} for m, s in stats.maps.items()]
        return reply({"view": name, "rows": stats.rows, "code_s": stats.code_s, "maps": maps})

    async def query(self, request: Request) -> Response:
        """Statements of SQL; the last one's answer."""
        body = await small_body(request, MAX_SQL)
        text = _sql_text(request, body)
        cancellation = Cancellation()
        leaving = asyncio.create_task(_cancel_when_gone(request, cancellation))
        try:
            outcome = await self.gateway.compute(self.gateway.execute, text, cancellation)
        finally:
            leaving.cancel()
        content: dict[str, Any] = {"version": self.gateway.version}
        if outcome.table is not None:
            format = request.query_params.get("format", "json")
            if format not in MEDIA_TYPES:
                raise DataError(f"there is no format {format}", hint=f"{', '.join(MEDIA_TYPES)}")
            if format != "json":
                answer = await self.gateway.run(written, outcome.table, format)
                return Response(answer, 200, None, MEDIA_TYPES[format])
            content["columns"] = _columns(outcome.table)
            content["rows"] = await self.gateway.run(json_rows, outcome.table)
        elif outcome.count is not None:
            content["count"] = outcome.count
        return reply(content)

    # --- writing ----------------------------------------------------------------------------------

    async def insert_rows(self, request: Request) -> Response:
        """Rows into a table or stream: one batch, or with ?batch=N one for every N as they come."""
        return await self._change_rows(request, 1)

    async def delete_rows(self, request: Request) -> Response:
        """Rows out of a table."""
        return await self._change_rows(request, -1)

    async def _change_rows(self, request: Request, weight: int) -> Response:
        name, parameters = request.path_params["name"], request.query_params
        self.gateway.check_writable()
        relation = self.gateway.database._state.definitions.relation(name)
        is_streamed = "batch" in parameters
        size = max(1, _number(parameters.get("batch"), STREAMED_ROWS, "batch"))
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        has_header = parameters.get("header", "true").lower() != "false"
        if not is_streamed:
            with await spooled(request, self.gateway.settings.max_body) as file:

                def change() -> int:
                    whole = list(read_rows(kind, file, relation, size, has_header, is_whole=True))
                    changes = [Change(name, one_batch(whole), weight)] if whole else []
                    return self.gateway.apply(changes) if changes else 0

                count = await self.gateway.compute(change)
            return reply({"count": count, "version": self.gateway.version})
        body = BodyFile(request)

        def change_as_it_comes() -> tuple[int, ViewletError | None]:
            applied = 0
            try:
                for part in read_rows(kind, body, relation, size, has_header):
                    applied += self.gateway.apply([Change(name, part, weight)])
            except ViewletError as error:
                return applied, error
            return applied, None

        count, error = await self.gateway.stream(change_as_it_comes)
        if error is not None:
            return reply({"error": error_body(error), "count": count}, status_of(error))
        return reply({"count": count, "version": self.gateway.version})

    # --- changes ----------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """Server-sent events: a snapshot, then changes."""
        name = request.path_params["name"]
        await self._check_snapshot(name)
        seen = request.query_params.get("after") or request.headers.get("last-event-id")
        after = _number(seen, 0, "after") if seen else None

        async def messages() -> AsyncIterator[bytes]:
            async with FeedReader(self.feeds, self.gateway, name, after) as reader:
                while (batch := await reader.next(PING_SECONDS)) is not None:
                    if batch:
                        yield b"".join(map(_event, batch))

        return EventSourceResponse(messages(), ping=PING_SECONDS, sep="\n")

    async def socket(self, websocket: WebSocket) -> None:
        """The same messages over a WebSocket."""
        refused = self._access.refusal(websocket)
        if refused is not None:
            await websocket.close(1008, refused[1])
            return
        name = websocket.path_params["name"]
        try:
            await self._check_snapshot(name)
            seen = websocket.query_params.get("after")
            after = _number(seen, 0, "after") if seen else None
        except ViewletError as error:
            await websocket.close(1008, error.message[:120])
            return
        await websocket.accept()
        try:
            async with FeedReader(self.feeds, self.gateway, name, after) as reader:
                while (batch := await reader.next(PING_SECONDS)) is not None:
                    for message in batch:
                        await websocket.send_text(message.text)
            await websocket.close(1001, f"view {name} is gone")
        except (WebSocketDisconnect, RuntimeError, OSError):
            return  # the client has gone

    async def _check_snapshot(self, name: str) -> None:
        """A view that is too large to be sent as a whole is read by pages."""
        self.gateway.database.view(name)
        most = self.gateway.settings.max_rows
        rows = await self.gateway.run(lambda: self.gateway.snapshot(name)[1].num_rows)
        if rows > most:
            raise TooLargeError(
                f"view {name} has {rows} rows, and a snapshot at most {most}",
                hint="read it by pages, or raise --max-rows",
            )

    # --- the server itself ------------------------------------------------------------------------

    async def show_figures(self, request: Request) -> Response:
        """Samples of the last minutes, and every view as it is."""
        since = float(_number(request.query_params.get("since"), 0, "since"))
        samples = [s for s in list(self.figures.samples) if s.time > since]
        views = {name: dataclasses.asdict(f) for name, f in dict(self.figures.views).items()}
        content = {"samples": list(map(dataclasses.asdict, samples)), "views": views}
        return reply({**content, "definitions": self.figures.defined})

    async def show_history(self, request: Request) -> Response:
        """The newest batches and checkpoints, newest first."""
        history = self.figures.history
        limit = _number(request.query_params.get("limit"), SHOWN_BATCHES, "limit")
        return reply(
            {
                "batches": [dataclasses.asdict(b) for b in list(history.batches)[::-1][:limit]],
                "checkpoints": [dataclasses.asdict(c) for c in list(history.checkpoints)[::-1]],
            }
        )

    async def health(self, request: Request) -> Response:
        """Whether the database answers."""
        is_open = not self.gateway.database._state.is_closed
        return reply({"status": "ok" if is_open else "closed"}, 200 if is_open else 503)

    async def show_metrics(self, request: Request) -> Response:
        """For Prometheus."""
        return Response(self.metrics.text(), 200, None, "text/plain; version=0.0.4")

    async def show_openapi(self, request: Request) -> Response:
        """What this interface is, for tools."""
        return reply(document())

    async def login(self, request: Request) -> Response:
        """A browser's cookie for the token that it sends."""
        body = await small_body(request, 4096)
        if not self._access.is_token(body.decode("utf-8", "replace").strip()):
            return reply({"error": {"message": "the token is wrong"}}, 401)
        answer = reply({"status": "ok"})
        answer.set_cookie(
            COOKIE,
            body.decode().strip(),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def report(self, protocol: str, what: str, status: str, seconds: float) -> None:
        """Count a request, and log it as one line of JSON."""
        self.metrics.requests.labels(protocol, status).inc()
        self.metrics.seconds.labels(protocol).observe(seconds)
        fields = {"protocol": protocol, "request": what, "status": status}
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        LOG.info(json.dumps({"time": moment, **fields, "ms": round(seconds * 1000, 2)}))

    def guarded(self, handler: Handler) -> Handler:
        """A handler behind the door: access, errors as answers, counts, and one line in the log."""

        async def handle(request: Request) -> Response:
            began = time.perf_counter()
            refused = self._access.refusal(request)
            if refused is not None:
                answer = reply({"error": {"message": refused[1]}}, refused[0])
            else:
                answer = await self._answer(handler, request)
            seconds = time.perf_counter() - began
            what = f"{request.method} {request.url.path}"
            self.report("http", what, str(answer.status_code), seconds)
            return answer

        return handle

    async def _answer(self, handler: Handler, request: Request) -> Response:
        try:
            return await handler(request)
        except ViewletError as error:
            return reply({"error": error_body(error)}, status_of(error))
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception:
            LOG.exception("a request failed")
            return reply({"error": {"message": "the server failed; its log says why"}}, 500)


async def _cancel_when_gone(request: Request, cancellation: Cancellation) -> None:
    """A query that nobody waits for any more ends. The body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    cancellation.cancel()


def _event(message: FeedMessage) -> bytes:
    kind = "snapshot" if message.is_snapshot else "changes"
    return f"event: {kind}\nid: {message.version}\ndata: {message.text}\n\n".encode()


def _number(text: str | None, otherwise: int, name: str) -> int:
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise DataError(f"{name}={text!r} is not a whole number from 0 on")
    return int(text)


def _columns(table: Any) -> list[dict[str, str]]:
    return [{"name": field.name, "type": str(field.type)} for field in table.schema]


def _sql_text(request: Request, body: bytes) -> str:
    """SQL as it is, or in {"sql": ...}."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind != "application/json":
            return body.decode()
        parameters = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"the body is not text: {error}") from None
    if not isinstance(parameters, dict) or not isinstance(parameters.get("sql"), str):
        raise ParseError("the body has no SQL", hint='send {"sql": "SELECT ..."}')
    text: str = parameters["sql"]
    return text


def http_app(gateway: Gateway) -> tuple[Starlette, HttpInterface]:
    """The application, and its handlers for whoever ends it."""
    made = HttpInterface(gateway)
    handlers: list[tuple[str, str, Handler]] = [
        ("GET", "/views", made.list_views),
        ("GET", "/views/{name}", made.read_view),
        ("GET", "/views/{name}/events", made.events),
        ("GET", "/views/{name}/explain", made.explain_view),
        ("GET", "/views/{name}/maps", made.view_maps),
        ("GET", "/views/{name}/graph", made.draw_view),
        ("POST", "/tables/{name}/rows", made.insert_rows),
        ("DELETE", "/tables/{name}/rows", made.delete_rows),
        ("POST", "/query", made.query),
        ("GET", "/figures", made.show_figures),
        ("GET", "/history", made.show_history),
        ("GET", "/healthz", made.health),
        ("GET", "/metrics", made.show_metrics),
        ("GET", "/openapi.json", made.show_openapi),
        ("GET", "/api", page_file),
        ("POST", "/login", made.login),
        ("GET", "/", page_file),
        ("GET", "/page/{file}", page_file),
    ]
    routes: list[Any] = [
        Route(path, made.guarded(handler), methods=[method]) for method, path, handler in handlers
    ]
    routes.append(WebSocketRoute("/views/{name}/ws", made.socket))

    async def answer_missing(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": {"message": "there is nothing here"}}, 404)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        sampling = asyncio.create_task(made.figures.run())
        try:
            yield
        finally:
            sampling.cancel()
            made.feeds.close()

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: answer_missing})
    return app, made
