"""A picker as a process of its own, small engines that count their scrapes, and a client that names its connections."""

import asyncio
import contextlib
import json
import re
import signal
import sys
from pathlib import Path

import aiohttp
import grpc
from prometheus_client.parser import text_string_to_metric_families

from modelplane.epp.server.messages import METHOD
from tests.support.extproc_protos import load as load_protos

PROTOS = load_protos()
REQUEST, RESPONSE = PROTOS["ProcessingRequest"], PROTOS["ProcessingResponse"]
DESTINATION = "x-gateway-destination-endpoint"
ANYWHERE = ["--host", "127.0.0.1", "--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"]
_OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


class PickerProcess:
    """One that serves."""

    def __init__(self, process, log, ports):
        self.process = process
        self.log = log
        self.port, self.health_port, self.metrics_port = ports

    async def get(self, path):
        async with aiohttp.ClientSession() as client:
            url = f"http://127.0.0.1:{self.metrics_port}{path}"
            async with client.get(url) as answer:
                return answer.status, await answer.text()

    async def series(self):
        """Every number of the page by name and labels."""
        _, text = await self.get("/metrics")
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def counters(self):
        _, text = await self.get("/metrics")
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if family.type == "counter" or (family.type == "histogram" and not sample.name.endswith("_created"))
        }

    async def worker_pids(self):
        """By the number of the worker."""
        found = [dict(key[1:]) for key in await self.series() if key[0] == "llm_d_epp_worker_info"]
        return {int(labels["worker"]): int(labels["pid"]) for labels in found}

    async def in_flight(self):
        """By the address of the endpoint."""
        _, text = await self.get("/debug/state")
        return {each["address"]: each.get("requestsInFlight", 0) for each in json.loads(text)["endpoints"]}

    @contextlib.asynccontextmanager
    async def connection(self):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=_OWN_CONNECTION) as channel:
            await channel.channel_ready()
            yield channel.stream_stream(
                METHOD, request_serializer=REQUEST.SerializeToString, response_deserializer=RESPONSE.FromString
            )


@contextlib.asynccontextmanager
async def serving(folder, addresses, *flags):
    """A picker of these endpoints. What it writes to standard error is in `log`."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "endpoints.yaml"
    list_endpoints(listed, addresses)
    log = folder / "stderr"
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "modelplane", "picker", "serve", "--endpoints", str(listed), *ANYWHERE),
            *("--secure-serving", "false", "--debug-state", "--zap-encoder", "console", *flags),
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    try:
        line = (await process.stdout.readline()).decode()
        found = re.search(r"serving on port (\d+); health on (\d+); metrics on (\d+)", line)
        assert found, line + log.read_text()
        yield PickerProcess(process, log, [int(each) for each in found.groups()])
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 60)
        if process.returncode is None:
            process.kill()
            await process.wait()


def list_endpoints(path: Path, addresses):
    lines = [f"- {{name: e{at}, address: {host}, port: {port}}}\n" for at, (host, port) in enumerate(addresses)]
    written = path.with_suffix(".new")
    written.write_text("endpoints:\n" + "".join(lines))
    written.rename(path)


def headers(path="/v1/chat/completions", mode=0, *, ends=False):
    request = REQUEST()
    for name, value in ((":method", "POST"), (":path", path)):
        request.request_headers.headers.headers.add(key=name, raw_value=value.encode())
    request.request_headers.end_of_stream = ends
    request.protocol_config.SetInParent()
    request.protocol_config.request_body_mode = mode
    return request


def body(prompt):
    request = REQUEST()
    request.request_body.body = json.dumps({"model": "m", "prompt": prompt}).encode()
    request.request_body.end_of_stream = True
    return request


async def open_request(call, prompt=""):
    """A request that was routed and has not ended: its stream, and where it went."""
    stream = call()
    if prompt:
        await stream.write(headers("/v1/completions", 4))
        await stream.write(body(prompt))
    else:
        await stream.write(headers())
    while True:
        reply = await stream.read()
        if "envoy.lb" in reply.dynamic_metadata:
            return stream, reply.dynamic_metadata["envoy.lb"][DESTINATION]


async def end(stream):
    await stream.done_writing()
    while await stream.read() is not grpc.aio.EOF:
        pass


async def pick(call, prompt=""):
    stream, found = await open_request(call, prompt)
    await end(stream)
    return found


class SmallEngine:
    """Shows a page of metrics, and counts who reads it."""

    def __init__(self, waiting=0):
        self.waiting = waiting
        self.scrapes = 0
        self.connections = 0

    @contextlib.asynccontextmanager
    async def serving(self):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(OSError, EOFError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                self.scrapes += 1
                page = (
                    f"vllm:num_requests_waiting {self.waiting}\nvllm:num_requests_running 1\n"
                    "vllm:kv_cache_usage_perc 0.25\n"
                ).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
        writer.close()
