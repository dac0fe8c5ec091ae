from modelplane.api.codec import decode
from modelplane.api.models import TelemetryDestination
from modelplane.compose import telemetry_destination
from modelplane.compose.contract import ComposeRequest, Requirement
from tests.compose.test_compose_telemetry import PROM, SECRET, TRACES, destination, gateway

GATEWAY = Requirement("modelplane.ai/v1alpha1", "InferenceGateway", name="default")
KEYS = {"telemetry-destinations", "telemetry-gateway", "telemetry-secret-prom-cred"}


def compose(item, **given):
    found = {"telemetry-destinations": (item,), "telemetry-gateway": (gateway(),)}
    found |= {"telemetry-secret-prom-cred": (SECRET,)}
    found |= {key.replace("_", "-"): value for key, value in given.items()}
    read = {key: value for key, value in found.items() if value is not None}
    result = telemetry_destination.compose(ComposeRequest(decode(TelemetryDestination, item), {}, read))
    said = {each.type: (each.status.value, str(each.reason), each.message) for each in result.conditions}
    return result, said


def test_a_destination_that_is_used():
    result, said = compose(destination())
    assert said == {"Accepted": ("True", "Accepted", ""), "SecretsReady": ("True", "SecretsFound", "")}
    assert (result.status.sinks, result.ready.status.value, result.desired) == (2, "True", {})
    assert set(result.requirements) == KEYS
    assert result.requirements["telemetry-gateway"] == GATEWAY
    assert result.requirements["telemetry-destinations"] == Requirement(
        "modelplane.ai/v1alpha1", "TelemetryDestination"
    )


def test_a_destination_without_secrets():
    _, said = compose(destination("ops", TRACES))
    assert said["SecretsReady"] == ("True", "NoSecrets", "")


def test_what_is_wrong_is_named_by_its_field():
    bad = {**TRACES, "name": "inside", "endpoint": "http://10.1.2.3:4318"}
    result, said = compose(destination("ops", PROM, bad), telemetry_secret_prom_cred=())
    allow = "InferenceGateway default may allow it in spec.outbound.allow"
    refusal = f"spec.sinks[1].endpoint: 10.1.2.3, a private address; {allow}"
    missing = "Secret modelplane-system/prom-cred of sink prom does not exist"
    assert said == {
        "Accepted": ("False", "OutboundRefused", refusal),
        "SecretsReady": ("False", "SecretMissing", missing),
    }
    assert result.status.sinks == 0


def test_all_that_is_wrong_is_said_and_what_is_refused_is_the_reason():
    bad = {**TRACES, "name": "inside", "endpoint": "http://10.1.2.3:4318"}
    item = destination("b", TRACES, bad)
    _, said = compose(item, telemetry_destinations=(item, destination("a", TRACES)))
    status, reason, message = said["Accepted"]
    first, second = message.split("; ", 1)
    assert (status, reason, first) == (
        "False",
        "OutboundRefused",
        "spec.sinks[0].name: TelemetryDestination a has tempo",
    )
    assert second.startswith("spec.sinks[1].endpoint: 10.1.2.3, a private address; ")


def test_a_name_that_another_destination_has_is_its_own_fault():
    other = destination("a", TRACES)
    item = destination("b", TRACES)
    _, said = compose(item, telemetry_destinations=(item, other))
    assert said["Accepted"] == ("False", "Invalid", "spec.sinks[0].name: TelemetryDestination a has tempo")


def test_only_its_own_sinks_count_and_every_secret_that_is_missing_is_named():
    more = {**PROM, "name": "more", "secretRef": {"name": "more-cred"}}
    item, other = destination("ops", PROM, more), destination("a", {**TRACES, "name": "other"})
    missing = "; ".join(
        f"Secret modelplane-system/{name}-cred of sink {name} does not exist" for name in ("prom", "more")
    )
    given = {
        "telemetry_secret_prom_cred": (),
        "telemetry_secret_more_cred": (),
        "telemetry_destinations": (item, other),
    }
    result, said = compose(item, **given)
    assert said["SecretsReady"] == ("False", "SecretMissing", missing)
    assert result.status.sinks == 0


def test_nothing_is_said_before_it_is_read():
    for key in sorted(KEYS):
        item = {**destination(), "status": {"sinks": 2}}
        result, said = compose(item, **{key.replace("-", "_"): None})
        assert "Unknown" in {status for status, _, _ in said.values()}
        assert result.ready.status.value == "Unknown"
        assert result.status is None or result.status.sinks == 2
