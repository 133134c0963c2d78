"""/openapi.json: the HTTP interface for tools that make clients of it."""

from __future__ import annotations

from typing import Any

import viewlet
from viewlet.server.row_formats import ARROW, CSV, JSON_LINES, MEDIA_TYPES

_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def _parameter(name: str, text: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _operation(
    summary: str,
    kinds: tuple[str, ...],
    parameters: tuple[dict[str, Any], ...] = (),
    body: tuple[str, ...] = (),
) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": summary,
        "responses": {
            "200": {"description": "done", "content": {kind: {} for kind in kinds}},
            "4XX": {
                "description": "an error",
                "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}
                },
            },
        },
    }
    if parameters:
        operation["parameters"] = list(parameters)
    if body:
        operation["requestBody"] = {"required": True, "content": {kind: {} for kind in body}}
    return operation


_JSON = ("application/json",)
_FORMAT = _parameter("format", "of the rows", type="string", enum=list(MEDIA_TYPES))
_WHOLE = {"type": "integer", "minimum": 0}
_AFTER = _parameter("after", "the version that the client has seen", **_WHOLE)
_ROWS = (*JSON_LINES, CSV, ARROW)
_BATCH = _parameter("batch", "apply rows as they come, so many in a batch", **_WHOLE)


def document() -> dict[str, Any]:
    """Version 3.1 of OpenAPI."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "viewlet", "version": viewlet.__version__},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Failure": {
                    "type": "object",
                    "properties": {
                        "error": {
                            "type": "object",
                            "properties": {
                                "type": {"type": "string"},
                                "message": {"type": "string"},
                                "hint": {"type": ["string", "null"]},
                                "line": {"type": ["integer", "null"]},
                                "column": {"type": ["integer", "null"]},
                            },
                        }
                    },
                }
            },
        },
        "security": [{"token": []}],
        "paths": {
            "/views": {"get": _operation("Views and tables, with their columns", _JSON)},
            "/views/{name}": {
                "get": _operation(
                    "A page of a view's rows",
                    tuple(MEDIA_TYPES.values()),
                    (
                        _NAME,
                        _FORMAT,
                        _parameter("offset", "the first row", **_WHOLE),
                        _parameter("limit", "how many rows", **_WHOLE),
                        _parameter("order", "a column, or -column", type="string"),
                        _parameter("version", "of an earlier page", **_WHOLE),
                    ),
                )
            },
            "/views/{name}/events": {
                "get": _operation(
                    "A snapshot, then changes, as server-sent events",
                    ("text/event-stream",),
                    (_NAME, _AFTER),
                )
            },
            "/views/{name}/ws": {
                "get": _operation("The same messages over a WebSocket", _JSON, (_NAME, _AFTER))
            },
            "/views/{name}/explain": {
                "get": _operation(
                    "A view at a stage, or a picture of its program",
                    ("text/plain", "image/svg+xml", "application/json"),
                    (
                        _NAME,
                        _parameter("stage", "of explain", type="string"),
                        _parameter("format", "text, json or svg", type="string"),
                    ),
                )
            },
            "/views/{name}/maps": {"get": _operation("Sizes of its maps", _JSON, (_NAME,))},
            "/views/{name}/graph": {
                "get": _operation("Its program with sizes and times", ("image/svg+xml",), (_NAME,))
            },
            "/tables/{name}/rows": {
                "post": _operation("Insert rows", _JSON, (_NAME, _BATCH), _ROWS),
                "delete": _operation("Delete rows", _JSON, (_NAME, _BATCH), _ROWS),
            },
            "/query": {
                "post": _operation(
                    "Statements of SQL",
                    tuple(MEDIA_TYPES.values()),
                    (_FORMAT,),
                    ("text/plain", "application/json"),
                )
            },
            "/figures": {"get": _operation("Rates, latencies and bytes over time", _JSON)},
            "/history": {"get": _operation("The newest batches and checkpoints", _JSON)},
            "/healthz": {"get": _operation("Whether the database answers", _JSON)},
            "/metrics": {"get": _operation("For Prometheus", ("text/plain",))},
        },
    }
