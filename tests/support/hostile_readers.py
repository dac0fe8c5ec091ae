"""What reads bytes of strangers, one function for each format: True if they were accepted, False if they were refused.

Every exception that is not the reader's own refusal is a defect, and is let through.
"""

from modelplane.api.errors import DocumentError, InputError
from modelplane.api.names import is_dns_label, is_dns_subdomain
from modelplane.api.outbound import OutboundRule
from modelplane.apiserver.bodies import read_json, read_object
from modelplane.apiserver.failures import ApiError
from modelplane.apiserver.media import JSON
from modelplane.apiserver.patches import PatchError, json_patch, merge_patch, strategic_patch
from modelplane.compose.caching.progress import newest_status
from modelplane.compose.external import target_of
from modelplane.compose.placeholders import unknown_placeholder
from modelplane.epp.scheduling.requests import InferenceApi
from modelplane.epp.scheduling.response_usage import ResponseUsage
from modelplane.epp.server import messages
from modelplane.epp.server.parsing import ParseError, parse
from modelplane.epp.server.sse import ModelRenamer, UsageReader
from modelplane.epp.transport.calls import GrpcStatus
from modelplane.epp.transport.h2 import frames
from modelplane.epp.transport.h2.connection import H2Connection
from modelplane.epp.transport.h2.limits import H2Limits
from modelplane.epp.transport.wire import WireError
from modelplane.hydrate import CompleteMarker, HydrateError, read_source
from modelplane.hydrate.answers import decode_answer
from modelplane.hydrate.huggingface import HubEntry
from modelplane.hydrate.oci import ImageManifest
from modelplane.hydrate.registry_auth import TokenAnswer
from modelplane.k8s.admission.documents import parse_documents
from modelplane.k8s.cel import SelectorOutcome, compile_selector
from modelplane.k8s.device import Device
from modelplane.k8s.quantity import add, canonical, compare, parse_quantity
from modelplane.k8s.semver import parse_version
from modelplane.kube.config import config_of
from modelplane.kube.errors import KubeError

DEVICE = Device.from_dict(
    "d", {"attributes": {"s": {"string": "a" * 64}, "i": {"int": 3}}, "capacity": {"q": {"value": "4Gi"}}}
)
OBJECT = {
    "metadata": {"name": "n", "annotations": {"a": "x" * 1000}},
    "spec": {"list": [1, 2], "containers": [{"name": "c"}]},
}


def text_of(data):
    """The bytes as text; whoever hands text on has refused anything else."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def read_yaml(data):
    try:
        parse_documents(data, source="file")
    except DocumentError:
        return False
    return True


def read_json_object(data):
    try:
        read_object(data, JSON, "Kind")
    except ApiError:
        return False
    return True


def read_patch(data):
    try:
        patch = read_json(data).value
        if isinstance(patch, list):
            json_patch(OBJECT, patch)
        else:
            merge_patch(OBJECT, patch)
            strategic_patch(OBJECT, patch)
    except (ValueError, ApiError, PatchError):
        return False
    return True


def read_cel(data):
    text = text_of(data)
    if text is None:
        return False
    try:
        selector = compile_selector.__wrapped__(text)
    except InputError:
        return False
    return selector.evaluate(DEVICE).outcome is not SelectorOutcome.ERROR


def read_name(data):
    text = text_of(data)
    return text is not None and (is_dns_label(text) or is_dns_subdomain(text))


def read_quantity(data):
    text = text_of(data)
    if text is None:
        return False
    try:
        found = parse_quantity(text)
        canonical(found)
        compare(found, add(found, parse_quantity("1Gi")))
    except InputError:
        return False
    return True


def read_version(data):
    text = text_of(data)
    try:
        return text is not None and parse_version(text) is not None
    except InputError:
        return False


def read_url(data):
    text = text_of(data)
    found = None if text is None else target_of(text)
    return found is not None and OutboundRule().refuse_host(found.host) is None


def read_template(data):
    text = text_of(data)
    return text is not None and unknown_placeholder(text) is None


def read_ext_proc(data):
    try:
        messages.read(data)
        messages.read_headers(data)
        messages.read_metadata(data, b"envoy.lb", b"key")
    except WireError:
        return False
    return True


class _Ended:
    """A handler that ends every call at once."""

    def __init__(self, call):
        self._call = call

    def message(self, _message):
        self._call.finish(GrpcStatus.OK)

    def closed(self):
        self._call.finish(GrpcStatus.OK)

    def cancelled(self):
        """Nothing to undo."""


def read_h2(data):
    """Whether a connection that gets these bytes after its preface neither ends nor resets a stream."""
    connection = H2Connection({"/a.B/C": _Ended}, H2Limits(), now_s=0.0)
    connection.receive(frames.PREFACE + frames.settings({}), 0.0)
    connection.take_output()
    for start in range(0, len(data), 1 << 14):
        connection.receive(data[start : start + (1 << 14)], 0.0)
    return not {frames.FrameType.GOAWAY, frames.FrameType.RST_STREAM}.intersection(_types(connection.take_output()))


def _types(output):
    while len(output) >= frames.HEADER_BYTES:
        yield output[3]
        output = output[frames.HEADER_BYTES + int.from_bytes(output[:3], "big") :]


def read_sse(data):
    """Whether a number is read from a response."""
    found = []
    for streaming in (True, False):
        reader = UsageReader(streaming=streaming)
        for start in range(0, len(data), 1000):
            reader.feed(data[start : start + 1000])
        found.append(reader.end())
    renamer = ModelRenamer("served", "wanted")
    for start in range(0, len(data), 1000):
        renamer.feed(data[start : start + 1000])
    renamer.feed(b"", ends=True)
    return found != [ResponseUsage()] * 2


def read_inference_body(data):
    for api in (InferenceApi.CHAT, InferenceApi.COMPLETIONS, InferenceApi.RESPONSES, InferenceApi.MESSAGES):
        try:
            parse(api, data)
        except ParseError:
            continue
        return True
    return False


def read_kubeconfig(data):
    text = text_of(data)
    if text is None:
        return False
    try:
        config_of(text, "secret")
    except (KubeError, InputError):
        return False
    return True


def read_cache_source(data):
    """What the loader is told to fetch. `@` names a file of the machine."""
    text = text_of(data)
    if text is None or text.startswith("@"):
        return False
    try:
        read_source(text)
    except HydrateError:
        return False
    return True


def read_source_answer(data):
    """What hubs, registries and peers answer, and what a loader said last."""
    pod = {"status": {"containerStatuses": [{"state": {"terminated": {"message": text_of(data) or ""}}}]}}
    read = newest_status([pod]) is not None
    for kind in (CompleteMarker, ImageManifest, list[HubEntry], TokenAnswer):
        try:
            decode_answer(data, kind, "it cannot be read")
        except HydrateError:
            continue
        read = True
    return read


READERS = {
    "yaml": read_yaml,
    "json": read_json_object,
    "patches": read_patch,
    "cel": read_cel,
    "names": read_name,
    "quantities": read_quantity,
    "versions": read_version,
    "urls": read_url,
    "templates": read_template,
    "ext_proc": read_ext_proc,
    "h2": read_h2,
    "sse": read_sse,
    "inference": read_inference_body,
    "kubeconfigs": read_kubeconfig,
    "sources": read_cache_source,
}
