"""A provider that lists its models to whoever has its key, over real HTTP."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "s3cret"


class ModelProvider:
    def __init__(self):
        self.names = ["acme/large-3", "acme/small-1"]
        self.status = 200
        self.requests = []
        """The path and the credential of each."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                provider.answer(self)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.origin = f"http://localhost:{self.port}"

    def answer(self, handler):
        self.requests.append((handler.path, handler.headers.get("Authorization")))
        status = self.status if handler.headers.get("Authorization") == f"Bearer {KEY}" else 401
        listed = [{"id": name, "object": "model"} for name in self.names] if status == 200 else []
        body = json.dumps({"data": listed}).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """May be called twice."""
        self._server.shutdown()
        self._server.server_close()
