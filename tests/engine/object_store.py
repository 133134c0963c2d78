"""An S3 service on loopback, one bucket in memory: as much of the protocol as pyarrow speaks."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"
_DATE = "2026-11-16T00:00:00.000Z"
_HTTP_DATE = "Mon, 16 Nov 2026 00:00:00 GMT"


class _Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.mutex = threading.Lock()


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Service

    def log_message(self, *_: Any) -> None:
        pass

    def _request(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        query = parse_qs(parts.query, keep_blank_values=True)
        return key, {name: values[0] for name, values in query.items()}

    def _body(self) -> bytes:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        if not self.headers.get("x-amz-content-sha256", "").startswith("STREAMING"):
            return data
        plain, at = b"", 0  # size;extension CRLF data CRLF ... 0 CRLF trailers
        while size := int(data[at : (end := data.index(b"\r\n", at))].partition(b";")[0], 16):
            plain += data[end + 2 : end + 2 + size]
            at = end + 4 + size
        return plain

    def _say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        length = headers.pop("Content_Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _missing(self) -> None:
        error = "<Error><Code>NoSuchKey</Code><Message>there is none</Message></Error>"
        self._say(404, error.encode(), Content_Type="application/xml")

    def _xml(self, name: str, content: str) -> None:
        self._say(200, f"<{name}>{content}</{name}>".encode(), Content_Type="application/xml")

    def do_HEAD(self) -> None:
        key, _ = self._request()
        data = b"" if not key else self.server.objects.get(key)
        if data is None:
            self._missing()
        else:
            size = str(len(data))
            self._say(200, Content_Length=size, ETag=_tag(data), Last_Modified=_HTTP_DATE)

    def do_GET(self) -> None:
        key, query = self._request()
        data = self.server.objects.get(key)
        byte_range = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not key:
            self._list(query.get("prefix", ""), query.get("delimiter", ""))
        elif data is None:
            self._missing()
        elif byte_range is None:
            self._say(200, data, ETag=_tag(data), Last_Modified=_HTTP_DATE)
        else:
            self._part(data, byte_range)

    def _part(self, data: bytes, byte_range: re.Match[str]) -> None:
        low, high = int(byte_range[1]), min(int(byte_range[2] or len(data)), len(data) - 1)
        self._say(
            206,
            data[low : high + 1],
            Content_Range=f"bytes {low}-{high}/{len(data)}",
            ETag=_tag(data),
            Last_Modified=_HTTP_DATE,
        )

    def _list(self, prefix: str, delimiter: str) -> None:
        with self.server.mutex:
            listed = sorted((k, v) for k, v in self.server.objects.items() if k.startswith(prefix))
        shared: set[str] = set()
        content = ""
        for key, data in listed:
            head, cut, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            if cut:
                shared.add(prefix + head + cut)
                continue
            content += f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
            content += f"<ETag>{_tag(data)}</ETag><LastModified>{_DATE}</LastModified></Contents>"
        for folder in sorted(shared):
            content += f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
        counted = f"<KeyCount>{len(listed)}</KeyCount><IsTruncated>false</IsTruncated>"
        self._xml("ListBucketResult", f"<Name>{BUCKET}</Name>{counted}{content}")

    def do_PUT(self) -> None:
        key, query = self._request()
        data = self._body()
        with self.server.mutex:
            if "uploadId" in query:
                self.server.uploads[query["uploadId"]][int(query["partNumber"])] = data
            elif key:
                self.server.objects[key] = data
        self._say(200, ETag=_tag(data))

    def do_POST(self) -> None:
        key, query = self._request()
        data = self._body()
        with self.server.mutex:
            if "uploads" in query:
                name = f"upload-{len(self.server.uploads)}"
                self.server.uploads[name] = {}
            elif "uploadId" in query:
                parts = self.server.uploads[query["uploadId"]]
                self.server.objects[key] = b"".join(parts[n] for n in sorted(parts))
            else:
                for gone in re.findall(r"<Key>(.*?)</Key>", data.decode()):
                    self.server.objects.pop(gone, None)
        if "uploads" in query:
            self._xml(
                "InitiateMultipartUploadResult",
                f"<Bucket>{BUCKET}</Bucket><Key>{escape(key)}</Key><UploadId>{name}</UploadId>",
            )
        elif "uploadId" in query:
            self._xml("CompleteMultipartUploadResult", f"<Key>{escape(key)}</Key>")
        else:
            self._xml("DeleteResult", "")

    def do_DELETE(self) -> None:
        key, _ = self._request()
        with self.server.mutex:
            self.server.objects.pop(key, None)
        self._say(204)


def _tag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


@contextmanager
def object_store() -> Iterator[tuple[str, dict[str, bytes]]]:
    """A URI of the bucket, and its objects."""
    service = _Service()
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    options = f"scheme=http&endpoint_override=127.0.0.1:{service.server_port}&region=us-east-1"
    try:
        yield f"s3://key:secret@{BUCKET}/state?{options}", service.objects
    finally:
        service.shutdown()
        service.server_close()
        thread.join()
