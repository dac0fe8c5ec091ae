from modelplane.epp.datalayer.discovery.endpoints_file import read_endpoints
from modelplane.epp.scheduling.endpoints import Endpoint
from modelplane.router.catalog import ServiceCatalog
from modelplane.router.summaries import KV_CACHE_UTILIZATION, SATURATION, apply_summaries, saturation_of
from tests.router.conftest import endpoint, plan

FILE = f"""
endpoints:
- {{name: a, namespace: team, address: 10.9.9.9, port: 80, attributes: {{{SATURATION}: 0.7}}}}
- {{name: west-gateway, address: 10.0.0.2, port: "80", attributes: {{{KV_CACHE_UTILIZATION}: 0.4}}}}
"""


def test_reports_reach_endpoints_by_name_or_by_address():
    catalog = ServiceCatalog()
    west = [endpoint(name, address="10.0.0.2") for name in ("b", "c")]
    catalog.replace([plan([endpoint("a"), *west, endpoint("d", address="10.0.0.4")])])
    assert apply_summaries(read_endpoints(FILE.encode(), "file"), catalog.endpoints) == 3
    found = {key: saturation_of(each.candidate) for key, each in catalog.endpoints.items()}
    assert found == {"team/a": 0.7, "team/b": 0.4, "team/c": 0.4, "team/d": 0.0}


def test_what_is_no_longer_reported_is_forgotten():
    catalog = ServiceCatalog()
    catalog.replace([plan([endpoint("a")])])
    apply_summaries(read_endpoints(FILE.encode(), "file"), catalog.endpoints)
    apply_summaries(read_endpoints(b"endpoints: []", "file"), catalog.endpoints)
    assert catalog.endpoints["team/a"].candidate.attributes == {}


def test_an_endpoint_that_reports_nothing_is_not_full():
    assert saturation_of(Endpoint("a", "1:1")) == 0.0
