"""TelemetryDestinations on the embedded plane: a collector on each simulated cluster, and none without."""

from pathlib import Path

import pytest
import yaml

from modelplane.api.definitions import definitions
from modelplane.api.objects import API_VERSION, GROUP, name_of
from modelplane.k8s.admission.admit import AdmissionDenied, Admitted, admit
from modelplane.reconcile.store import ObjectRef
from modelplane.sim.cluster.objects import condition_of
from modelplane.testing.clock import run_virtual
from tests.compose.test_compose_telemetry import HOUSE, PROM, SECRET, TRACES, destination, mapping
from tests.support.local_fleet import running_fleet

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "quickstart"
OPS = ObjectRef(GROUP, "TelemetryDestination", "", "ops")
COLLECTOR = [("apps", "Deployment"), ("", "Service"), ("", "ServiceAccount"), ("", "ConfigMap")]


def platform():
    for path in sorted(EXAMPLES.glob("[12]*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def collectors(fleet, cluster):
    store = fleet.database.store(f"cluster/{cluster}")
    found = [name_of(item) for group, kind in COLLECTOR for item in store.list(group, kind)]
    return found.count("modelplane-collector")


def said(fleet, cluster):
    found = condition_of(fleet.plane.get(ObjectRef(GROUP, "InferenceCluster", "", cluster)), "TelemetryReady")
    return found.get("status"), found.get("reason"), found.get("message")


def virtually(story):
    async def main(clock):
        async with running_fleet(clock) as fleet:
            for manifest in platform():
                fleet.plane.create(manifest)
            await clock.sleep(10)
            await story(fleet, clock)

    run_virtual(main)


@pytest.mark.parametrize("cluster", ["east", "west"])
def test_a_collector_comes_with_the_first_destination_and_leaves_with_the_last(cluster):
    async def story(fleet, clock):
        assert (collectors(fleet, cluster), said(fleet, cluster)) == (0, (None, None, None))
        fleet.plane.create(destination())
        await clock.sleep(20)
        message = "TelemetryDestination ops: Secret modelplane-system/prom-cred of sink prom does not exist"
        assert said(fleet, cluster) == ("False", "SecretMissing", message)
        fleet.plane.create(
            {key: value for key, value in SECRET.items() if key != "metadata"}
            | {"metadata": {"name": "prom-cred", "namespace": "modelplane-system"}}
        )
        fleet.plane.create(mapping("house", {"from": "x", "to": "modelplane_x"}))
        await clock.sleep(30)
        assert said(fleet, cluster) == ("True", "CollectorRunning", "2 sinks: prom, tempo")
        assert collectors(fleet, cluster) == len(COLLECTOR)
        copies = fleet.database.store(f"cluster/{cluster}").list("", "Secret")
        assert [copy["data"] for copy in copies] == [SECRET["data"]]
        assert condition_of(fleet.plane.get(OPS), "Ready")["status"] == "True"
        pods = [pod for pod in fleet.pods(cluster) if "modelplane.ai/collector" in pod["metadata"]["labels"]]
        assert [condition_of(pod, "Ready")["status"] for pod in pods] == ["True"]
        fleet.plane.delete(OPS)
        await clock.sleep(20)
        assert (collectors(fleet, cluster), said(fleet, cluster)) == (0, ("True", "NoDestinations", None))

    virtually(story)


def test_a_host_inside_the_platform_is_refused_on_both_objects():
    async def story(fleet, clock):
        fleet.plane.create(destination("ops", {**TRACES, "endpoint": "http://10.0.0.1:4318"}))
        await clock.sleep(20)
        assert condition_of(fleet.plane.get(OPS), "Ready")["reason"] == "OutboundRefused"
        assert said(fleet, "east")[:2] == ("False", "OutboundRefused")
        assert collectors(fleet, "east") == 0

    virtually(story)


BAD = [
    ({**TRACES, "name": "No"}, "spec.sinks[0].name"),
    ({**PROM, "endpoint": None}, "spec.sinks[0].endpoint: a sink of this type needs an endpoint"),
    ({**PROM, "secretRef": None}, "spec.sinks[0].secretRef: auth needs secretRef"),
    ({**TRACES, "type": "Otlp"}, "spec.sinks[0].type"),
]


@pytest.mark.parametrize(("sink", "message"), BAD)
def test_admission_names_the_field(sink, message):
    given = {key: value for key, value in sink.items() if value is not None}
    denied = admit(destination("ops", given), definitions()[API_VERSION, "TelemetryDestination"])
    assert isinstance(denied, AdmissionDenied)
    assert [str(problem)[: len(message)] for problem in denied.problems] == [message]


def test_admission_takes_what_is_right():
    assert isinstance(admit(destination(), definitions()[API_VERSION, "TelemetryDestination"]), Admitted)
    assert isinstance(admit(HOUSE, definitions()[API_VERSION, "MetricMapping"]), Admitted)
