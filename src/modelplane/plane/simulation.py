"""Commands to simulated clusters over HTTP.

POST /modelplane/sim                    {"verb": ..., "cluster": ..., "name": ..., "value": ...}
GET  /modelplane/sim/clusters/NAME      its nodes and pods
"""

import msgspec
from aiohttp import web

from modelplane.api.errors import InputError, NotFoundError
from modelplane.api.meta import ClusterName
from modelplane.epp.transport.held_bodies import BodyRefused, read_at_most
from modelplane.plane.clusters import Clusters
from modelplane.sim.commands.command import SimCommand
from modelplane.sim.commands.verbs import inventory, perform

PREFIX = "/modelplane/sim"
_CLUSTERS = f"{PREFIX}/clusters/"
_MOST_BYTES = 64 * 1024


class Simulation:
    """Answers for the paths below PREFIX."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "GET" and request.path.startswith(_CLUSTERS):
            return _json(inventory(self._clusters, ClusterName(request.path.removeprefix(_CLUSTERS))))
        if request.method == "POST" and request.path == PREFIX:
            answer = perform(self._clusters, await _read(request))
            return _json({"said": answer})
        raise NotFoundError(f"{request.method} {request.path} is not served; see modelplane sim --help")


async def _read(request: web.BaseRequest) -> SimCommand:
    try:
        body = await read_at_most(request.content.iter_any(), _MOST_BYTES, request.content_length)
        return msgspec.json.decode(body, type=SimCommand)
    except (msgspec.DecodeError, RecursionError, BodyRefused) as error:
        raise InputError(f"the body is not a SimCommand: {error}") from error


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
