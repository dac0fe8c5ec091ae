"""A network of one's own: every address of the Internet is this machine, and names are what a test says.

`in_own_network` runs a function in a process with network and mount namespaces of its own. There all addresses are
local, a server at one port is at all of them, and says at which one it was called; the system's resolver asks a real
DNS server, `DnsServer`. So it is seen where a connection goes, whoever made it.
"""

import importlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_A, _CNAME, _AAAA = 1, 5, 28


def in_own_network(function, *arguments):
    """What `function`, of a test module, returns there."""
    name = f"{function.__module__}:{function.__qualname__}"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    with tempfile.NamedTemporaryFile("r", suffix=".json") as result:
        command = [sys.executable, "-m", "tests.support.own_network", result.name, name, json.dumps(arguments)]
        done = subprocess.run(
            [shutil.which("unshare"), "--user", "--map-root-user", "--mount", "--net", *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "no_proxy": "*"},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
        return json.loads(Path(result.name).read_text())


def main(result, name, arguments):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        conf.flush()
        for command in (
            ("mount", "--bind", conf.name, "/etc/resolv.conf"),
            ("ip", "link", "set", "lo", "up"),
            ("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo"),
            ("ip", "-6", "route", "add", "local", "::/0", "dev", "lo"),
        ):
            subprocess.run(command, check=True)
        module, _, function = name.partition(":")
        found = getattr(importlib.import_module(module), function)(*json.loads(arguments))
        Path(result).write_text(json.dumps(found))


class DnsServer:
    """Answers A and AAAA. `names` has the answers of each name in turn, of which the last one stays.

    An answer is a list of addresses; one that is a name is an alias, whose addresses are answered along with it. None
    is no answer at all.
    """

    def __init__(self, names):
        self.names = names
        self.asked = defaultdict(int)
        """How often each name was asked for its IPv4 addresses."""
        self._turns = defaultdict(int)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._socket.bind(("127.0.0.1", 53))
        self._socket.settimeout(0.05)
        self._thread.start()
        return self

    def __exit__(self, *_):
        """Joins before it closes: a thread that still receives keeps the port, and the next server cannot have it."""
        self._stopped.set()
        self._thread.join()
        self._socket.close()

    def now(self, name, *answers):
        """Other answers from here on."""
        self.names[name] = list(answers)
        self._turns = defaultdict(int, {key: turn for key, turn in self._turns.items() if key[0] != name})

    def _serve(self):
        while not self._stopped.is_set():
            try:
                query, client = self._socket.recvfrom(512)
            except TimeoutError:
                continue
            answer = self._answer(query)
            if answer is not None:
                self._socket.sendto(answer, client)

    def _answer(self, query):
        name, end = _read_name(query)
        (kind,) = struct.unpack_from("!H", query, end)
        self.asked[name] += kind == _A
        records, found = [], self._addresses(name, kind)
        if found is None:
            return None
        owner = name
        for text in found:
            if not _is_address(text):
                records.append(_record(owner, _CNAME, _packed_name(text)))
                owner = text
            elif ip_address(text).version == (4 if kind == _A else 6):
                records.append(_record(owner, kind, ip_address(text).packed))
        known = name in self.names
        head = query[:2] + struct.pack("!HHHHH", 0x8180 if known else 0x8183, 1, len(records), 0, 0)
        return head + query[12 : end + 4] + b"".join(records)

    def _addresses(self, name, kind):
        turns = self.names.get(name, [[]])
        turn = self._turns[name, kind]
        self._turns[name, kind] += 1
        return turns[min(turn, len(turns) - 1)]


class EveryAddress:
    """An HTTP server at every address. `called` has the addresses at which somebody connected, in order."""

    def __init__(self, port=8080, answer=None):
        self.called = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                here = _plain(self.connection.getsockname()[0])
                status, headers, body = (answer or _echo)(self, here)
                self.send_response(status)
                for key, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.do_GET()

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6
            daemon_threads = True

            def get_request(self):
                found = super().get_request()
                outer.called.append(_plain(found[0].getsockname()[0]))
                return found

        self._server = Server(("::", port), Handler)

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def _echo(_request, here):
    return 200, {"Content-Type": "text/plain"}, here.encode()


def _plain(text):
    address = ip_address(text.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


def _is_address(text):
    with suppress(ValueError):
        return bool(ip_address(text))
    return False


def _read_name(query, at=12):
    labels = []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels).lower(), at + 1


def _packed_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def _record(owner, kind, data):
    return _packed_name(owner) + struct.pack("!HHIH", kind, 1, 0, len(data)) + data


if __name__ == "__main__":
    main(*sys.argv[1:])
