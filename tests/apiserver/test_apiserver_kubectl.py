"""The API under the real kubectl, wherever one is found.

The client may be of any recent version: what is compared is exit codes, objects, and the parts of a text that all
versions share.
"""

import asyncio
import contextlib
import json
import re
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from modelplane.apiserver.app import ApiServer
from modelplane.apiserver.lifecycle import Lifecycle, ensure_namespaces
from modelplane.apiserver.served_kinds import ensure_kinds
from modelplane.apiserver.store.database import Database
from modelplane.k8s.admission.documents import parse_documents
from modelplane.plane.certificates import server_context
from modelplane.plane.kubeconfig import write_kubeconfig
from modelplane.reconcile.clock import SystemClock
from tests.support.kubectl import find_kubectl, find_kubectls
from tests.support.loops import end_loop

TOKEN = "a-token"
MANIFEST = """
apiVersion: modelplane.ai/v1alpha1
kind: ModelDeployment
metadata: {name: m, labels: {team: a}}
spec:
  replicas: 2
  nodeSelector: {devices: [{name: gpu, count: 1, selectors: [{cel: "device.driver == 'gpu.nvidia.com'"}]}]}
  workers: {template: {spec: {containers: [{name: engine, image: "vllm/vllm-openai:v0.27.1"}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1"}
"""
READY = {"type": "Ready", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


# The first time Go may have to build the client.
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(700)]


@contextmanager
def plane(folder):
    """An API over TLS in a thread of its own, and its kubeconfig."""
    started, loop = threading.Event(), asyncio.new_event_loop()

    async def serve():
        clock = SystemClock()
        with Database(None, clock=clock) as database:
            store = database.store("plane")
            ensure_namespaces(store)
            ensure_kinds(store, clock.now())
            lifecycle = asyncio.create_task(Lifecycle(store, clock).loop.run())
            server = ApiServer(store, token=TOKEN, clock=clock)
            await server.runner.setup()
            context, certificate = server_context(folder, now=clock.now())
            await web.TCPSite(server.runner, "127.0.0.1", 0, ssl_context=context).start()
            url = f"https://127.0.0.1:{server.runner.addresses[0][1]}"
            write_kubeconfig(folder / "kubeconfig", server=url, token=TOKEN, certificate=certificate)
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                lifecycle.cancel()
                await asyncio.gather(lifecycle, return_exceptions=True)
                await server.close()

    task = loop.create_task(serve())

    def run():
        asyncio.set_event_loop(loop)
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(60)
        yield folder / "kubeconfig"
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(60)
        end_loop(loop)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory):
    """Runs kubectl; returns its exit code and what it said."""
    found = find_kubectl()
    if found.path is None:
        pytest.skip(found.reason)
    folder = tmp_path_factory.mktemp("plane")
    with plane(folder) as kubeconfig:

        def run(*arguments, stdin="", program=found.path):
            environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(folder), "PATH": str(Path("/usr/bin"))}
            command = [program, *arguments]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment, input=stdin, timeout=120
            )
            return done.returncode, done.stdout + done.stderr

        yield run


@pytest.fixture
def namespace(kubectl, request):
    """A namespace of the test's own, gone after it."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60].strip("-")
    assert kubectl("create", "namespace", name) == (0, f"namespace/{name} created\n")
    yield name
    assert kubectl("delete", "namespace", name)[0] == 0


def test_apply_get_scale_label_wait_and_delete(kubectl, namespace):
    def ask(*arguments, stdin=""):
        return kubectl("-n", namespace, *arguments, stdin=stdin)

    assert ask("apply", "-f", "-", stdin=MANIFEST)[1].splitlines() == [
        "modeldeployment.modelplane.ai/m created",
        "configmap/c created",
    ]
    assert ask("apply", "-f", "-", stdin=MANIFEST)[1].splitlines() == [
        "modeldeployment.modelplane.ai/m unchanged",
        "configmap/c unchanged",
    ]
    code, shown = ask("get", "md")
    assert (code, shown.split()[:4]) == (0, ["NAME", "DESIRED", "PLACED", "SERVING"])
    assert "PLACEMENT" in ask("get", "md", "-o", "wide")[1]
    assert ask("scale", "md", "m", "--replicas=5") == (0, "modeldeployment.modelplane.ai/m scaled\n")
    assert ask("get", "md", "m", "-o", "jsonpath={.spec.replicas}") == (0, "5")
    assert ask("label", "md", "m", "x=y")[0] == 0
    assert ask("label", "md", "m", "x=z")[0] == 1
    assert ask("get", "md", "-l", "x=y", "-o", "name") == (0, "modeldeployment.modelplane.ai/m\n")
    status = json.dumps({"status": {"conditions": [READY]}})
    assert ask("patch", "md", "m", "--subresource=status", "--type=merge", "-p", status)[0] == 0
    assert ask("wait", "md/m", "--for=condition=Ready", "--timeout=5s")[0] == 0
    assert ask("delete", "-f", "-", stdin=MANIFEST)[0] == 0
    assert ask("get", "md", "m")[0] == 1


def test_server_side_apply_and_its_conflicts(kubectl, namespace):
    def apply(manager, manifest, *more):
        flags = ("--server-side", f"--field-manager={manager}", *more)
        return kubectl("-n", namespace, "apply", *flags, "-f", "-", stdin=manifest)

    changed = MANIFEST.replace("replicas: 2", "replicas: 3")
    assert apply("one", MANIFEST)[0] == 0
    code, said = apply("two", changed)
    assert (code, 'conflict with "one": .spec.replicas' in said) == (1, True)
    assert apply("two", changed, "--force-conflicts")[0] == 0
    code, said = kubectl("-n", namespace, "diff", "--server-side", "--field-manager=two", "-f", "-", stdin=MANIFEST)
    assert (code, "-  replicas: 3" in said, "+  replicas: 2" in said) == (1, True, True)


def test_mistakes_are_reported(kubectl, namespace):
    def apply(manifest):
        return kubectl("-n", namespace, "apply", "-f", "-", stdin=manifest)

    code, said = apply(MANIFEST.replace("replicas: 2", "replicsa: 2"))
    assert (code, 'unknown field "spec.replicsa"' in said) == (1, True)
    code, said = apply(MANIFEST.replace("replicas: 2", "replicas: many"))
    assert (code, "spec.replicas" in said) == (1, True)
    assert kubectl("-n", "nowhere", "apply", "-f", "-", stdin=MANIFEST)[0] == 1
    assert kubectl("-n", namespace, "get", "nopes")[0] == 1


def test_the_kinds_explain_themselves(kubectl):
    code, said = kubectl("explain", "md.spec.nodeSelector.devices")
    assert (code, "selectors" in said) == (0, True)
    assert kubectl("explain", "configmap")[0] == 0
    code, said = kubectl("api-resources", "--api-group=modelplane.ai", "-o", "name")
    assert (code, len(said.split())) == (0, 10)
    assert kubectl("auth", "can-i", "create", "md") == (0, "yes\n")


def test_core_kinds_are_made_and_described(kubectl, namespace):
    def ask(*arguments):
        return kubectl("-n", namespace, *arguments)

    assert ask("create", "configmap", "made", "--from-literal=k=v")[0] == 0
    assert ask("create", "secret", "generic", "made", "--from-literal=k=v")[0] == 0
    assert ask("get", "secret", "made", "-o", "jsonpath={.data.k}") == (0, "dg==")
    code, said = ask("describe", "configmap", "made")
    assert (code, "k:\n----\nv" in said) == (0, True)
    assert ask("patch", "configmap", "made", "-p", '{"data":{"q":"r"}}')[0] == 0
    assert ask("get", "configmap", "made", "-o", "jsonpath={.data.q}") == (0, "r")
    assert ask("delete", "configmap", "--all")[0] == 0


def test_get_all_is_understood(kubectl, namespace):
    assert kubectl("get", "all", "-n", namespace) == (0, f"No resources found in {namespace} namespace.\n")


def test_what_is_composed_for_the_gateway_can_be_listed(kubectl):
    code, said = kubectl("api-resources", "--api-group=gateway.envoyproxy.io", "-o", "name")
    kinds = ("backends", "backendtrafficpolicies", "httproutefilters", "securitypolicies")
    assert (code, said.split()) == (0, [f"{kind}.gateway.envoyproxy.io" for kind in kinds])


def test_the_kinds_can_be_read_as_custom_resource_definitions(kubectl):
    code, said = kubectl("get", "crd")
    assert code == 0
    assert said.splitlines()[0].split() == ["NAME", "CREATED", "AT"]
    name = "modeldeployments.modelplane.ai"
    assert name in said
    assert kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")[0] == 0
    found = yaml.safe_load(kubectl("get", "crd", name, "-o", "yaml")[1])
    assert found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] == "object"
    assert "modeldeployments" in kubectl("describe", "crd", name)[1]
    code, said = kubectl("delete", "crd", name)
    assert (code, "does not allow this method" in said) == (1, True)


@pytest.mark.parametrize(
    ("version", "kind"),
    [("modelplane.ai/v1alpha1", "ModelDeploymnet"), ("apps/v1", "Deployment"), ("example.org/v1", "Thing")],
)
def test_an_unknown_kind_is_said_to_be_unknown(kubectl, version, kind):
    manifest = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"
    for program in find_kubectls():
        code, said = kubectl("apply", "-f", "-", stdin=manifest, program=program)
        assert (code, f'no matches for kind "{kind}" in version "{version}"' in said) == (1, True), (program, said)


def test_known_objects_are_applied_beside_one_of_an_unknown_kind(kubectl, namespace):
    unknown = "\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
    code, said = kubectl("-n", namespace, "apply", "-f", "-", stdin=MANIFEST + unknown)
    assert (code, "no matches for kind" in said, "modeldeployment.modelplane.ai/m created" in said) == (1, True, True)


ALIASED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: aliased, labels: &labels {team: a, tier: gold}}
data:
  <<: [*labels, {tier: silver, zone: b}]
  team: c
  again: &again text
  last: *again
"""


def test_aliases_and_merges_are_read_as_kubectl_reads_them(kubectl, namespace):
    (document,) = parse_documents(ALIASED.encode(), source="f")
    assert kubectl("-n", namespace, "apply", "-f", "-", stdin=ALIASED)[0] == 0
    stored = json.loads(kubectl("-n", namespace, "get", "configmap", "aliased", "-o", "json")[1])
    assert (stored["data"], stored["metadata"]["labels"]) == (
        document.value["data"],
        document.value["metadata"]["labels"],
    )
