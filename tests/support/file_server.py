"""A real HTTP server of files, with ranges, and with faults on demand.

It counts what it sends, so tests can tell what was fetched twice.
"""

import hashlib
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

_BLOCK = 64 * 1024


@dataclass
class ServedFile:
    content: bytes
    etag: str | None = None
    ranged: bool = True
    chunked: bool = False
    redirect: str | None = None

    def __post_init__(self):
        self.tag = self.etag or f'"{hashlib.sha256(self.content).hexdigest()[:16]}"'


@dataclass
class Faults:
    """What goes wrong, each a number of times, in the order of the fields."""

    statuses: list = field(default_factory=list)  # (status, headers) for the next requests
    drop_after: list = field(default_factory=list)  # bytes of the body, then the connection ends
    stall_s: list = field(default_factory=list)  # seconds without a byte, in the middle
    corrupt: int = 0  # answers with one wrong byte
    short_by: list = field(default_factory=list)  # a Content-Length that is too small
    bytes_per_s: int | None = None  # for each connection


class FileServer:
    def __init__(self):
        self.files = {}
        self.faults = Faults()
        self.requests = []
        self.sent = 0
        self.handlers = []  # functions of (handler, path) that may answer instead
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 0

            def do_GET(self):
                with suppress(ConnectionError, TimeoutError):
                    server.answer(self)

            do_HEAD = do_GET  # noqa: N815  the name that the base class looks for

            def log_message(self, *arguments):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request, client_address):
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, path, content, **more):
        self.files[path] = ServedFile(content, **more)
        return f"{self.url}{path}"

    def take(self, name):
        """The next of a list of faults, or None."""
        with self._lock:
            queue = getattr(self.faults, name)
            return queue.pop(0) if queue else None

    def answer(self, handler):
        path = unquote(urlsplit(handler.path).path)
        with self._lock:
            self.requests.append((handler.command, handler.path, dict(handler.headers)))
        fault = self.take("statuses")
        if fault is not None:
            self.reply(handler, fault[0], b"no", fault[1])
            return
        if any(each(handler, path) for each in self.handlers):
            return
        file = self.files.get(path)
        if file is None:
            self.reply(handler, 404, b"not here")
        elif file.redirect is not None:
            self.reply(handler, 302, b"", {"Location": file.redirect})
        else:
            self.send_file(handler, file)

    def reply(self, handler, status, body, headers=None):
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    def send_file(self, handler, file, headers=None):
        size = len(file.content)
        start, stop, status = 0, size, 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
        if asked and file.ranged:
            start, stop = int(asked[1]), min(size, int(asked[2]) + 1 if asked[2] else size)
            status = 206
            if start >= size:
                self.reply(handler, 416, b"", {"Content-Range": f"bytes */{size}"})
                return
        short = self.take("short_by") or 0
        handler.send_response(status)
        handler.send_header("ETag", file.tag)
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        if file.chunked:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            handler.send_header("Content-Length", str(stop - start - short))
        if file.ranged:
            handler.send_header("Accept-Ranges", "bytes")
        if status == 206:
            handler.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        handler.end_headers()
        if handler.command != "HEAD":
            self._send_body(handler, file, start, stop - short)

    def _send_body(self, handler, file, start, stop):
        drop = self.take("drop_after") if stop - start > 1 else None
        stall = self.take("stall_s") if stop - start > 1 else None
        content = memoryview(file.content)[start:stop]
        with self._lock:
            corrupt = self.faults.corrupt > 0 and stop - start > 1
            self.faults.corrupt -= corrupt
        if corrupt:
            content = memoryview(bytes(content[:-1]) + bytes([content[-1] ^ 1]))
        for at in range(0, len(content), _BLOCK):
            if drop is not None and at + _BLOCK > drop:
                handler.wfile.write(content[at:drop])
                handler.connection.shutdown(socket.SHUT_RDWR)
                handler.close_connection = True
                return
            if stall is not None and at >= len(content) // 2:
                time.sleep(stall)
                stall = None
            self._send_block(handler, file, content[at : at + _BLOCK])
        if file.chunked:
            handler.wfile.write(b"0\r\n\r\n")

    def _send_block(self, handler, file, block):
        if file.chunked:
            handler.wfile.write(b"%x\r\n" % len(block))
        handler.connection.sendall(block)
        if file.chunked:
            handler.wfile.write(b"\r\n")
        with self._lock:
            self.sent += len(block)
        if self.faults.bytes_per_s:
            time.sleep(len(block) / self.faults.bytes_per_s)


@contextmanager
def file_server():
    server = FileServer()
    try:
        yield server
    finally:
        server.close()
