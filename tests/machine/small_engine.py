"""A small real engine. It listens where $PORT says, answers with what it sees, and exits when told to."""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Engine(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer({"status": "ok"} if self.path == "/health" else {"object": "list", "data": [{"id": "small"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = body["messages"][-1]["content"]
        if text == "exit":
            sys.stdout.write("RuntimeError: asked to exit\n")
            sys.stdout.flush()
            os._exit(3)
        seen = {
            name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "MODELPLANE_SERVED_MODEL_NAME", "TOKEN")
        }
        message = {"role": "assistant", "content": json.dumps({"pid": os.getpid(), "words": sys.argv[1:], **seen})}
        self.answer({"id": "1", "object": "chat.completion", "model": body["model"], "choices": [
            {"index": 0, "message": message, "finish_reason": "stop"}]})  # fmt: skip

    def answer(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Engine).serve_forever()
