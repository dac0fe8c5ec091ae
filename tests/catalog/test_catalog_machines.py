"""The catalogue's data: every node has a product, a source and a name of its own, and can be found."""

import re

import pytest

from modelplane.api.errors import InputError
from modelplane.catalog import load_catalog

CATALOG = load_catalog()


def test_names_and_aliases_are_unique():
    for names in ([each.name for each in CATALOG.machines], [each.alias for each in CATALOG.machines]):
        assert sorted(set(names)) == sorted(names)
    assert len(CATALOG.machines) >= 100


@pytest.mark.parametrize("machine", CATALOG.machines, ids=lambda machine: machine.name)
def test_a_node_has_what_it_needs(machine):
    assert machine.product in CATALOG.products
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", machine.name)
    assert len(machine.name) <= 63
    assert machine.source
    assert bool(machine.price) == bool(re.fullmatch(r"20\d\d-\d\d-\d\d", machine.price_date))


def test_every_product_is_in_a_node_and_has_a_source():
    assert {each.product for each in CATALOG.machines} == {*CATALOG.products}
    assert all(product.source for product in CATALOG.products.values())


@pytest.mark.parametrize("wanted", ["aws:p5.48xlarge", "aws-p5-48xlarge", "p5.48xlarge"])
def test_a_node_is_found_by_its_class_alias_or_type(wanted):
    machine = CATALOG.find(wanted)
    assert (machine.product, machine.count, machine.network_gbps, machine.price) == ("h100", 8, 3200, "55.04")


def test_a_misspelled_node_gets_a_guess():
    with pytest.raises(InputError, match=r"no node 'aws:p5.48xlrge'; did you mean aws:p5\.48xlarge"):
        CATALOG.find("aws:p5.48xlrge")
    with pytest.raises(InputError, match="no node 'abacus'; 'modelplane catalog list' shows all"):
        CATALOG.find("abacus")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("H200", "efa"), {"aws:p5e.48xlarge", "aws:p5en.48xlarge"}),
        (("hopper", "gcp", "8x", "tcpxo"), {"gcp:a3-megagpu-8g"}),
        (("gpu.amd.com", "azure"), {"azure:Standard_ND96isr_MI300X_v5"}),
        (("abacus",), set()),
    ],
)
def test_a_search_needs_every_word(words, found):
    assert {machine.alias for machine in CATALOG.search(words)} == found
