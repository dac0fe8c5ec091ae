"""`modelplane catalog`: real hardware as InferenceClasses."""

import argparse
import sys
from typing import TYPE_CHECKING

from modelplane.api.errors import InputError
from modelplane.cli._formats import output_word

if TYPE_CHECKING:
    from modelplane.catalog import Catalog, Machine

_EPILOG = """\
examples:
  modelplane catalog
  modelplane catalog list --cloud aws
  modelplane catalog search h200 efa
  modelplane catalog list --cloud aws -o json
  modelplane catalog show aws:p5.48xlarge
  modelplane catalog show h200-8x | kubectl apply -f -

A node is named by its class (aws-p5-48xlarge), by cloud and type (aws:p5.48xlarge) or by its type alone. Memory is what
the DRA driver publishes. Prices are list prices; the description of a class has their date.
"""
_FORMATS = ("text", "json", "yaml", "name")
_FORMATS_HELP = "text, json, yaml, or name: inferenceclass.modelplane.ai/NAME"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows nodes that clouds rent and that racks hold, and prints them as InferenceClasses."
    parser.epilog = _EPILOG
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    parser.set_defaults(verb="list", cloud="", output="text")
    listing = verbs.add_parser("list", help="all nodes, or those of a cloud; also without a verb")
    listing.add_argument("--cloud", default="", help="aws, gcp, azure, oci, nebius, lambda, vultr, coreweave or bare")
    searching = verbs.add_parser("search", help="nodes whose description has every word")
    searching.add_argument("words", nargs="+", metavar="WORD")
    for verb in (listing, searching):
        verb.add_argument("-o", "--output", type=output_word, choices=_FORMATS, default="text", help=_FORMATS_HELP)
    showing = verbs.add_parser("show", help="the InferenceClass of a node")
    showing.add_argument("names", nargs="+", metavar="NODE")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.catalog import load_catalog

    catalog = load_catalog()
    if arguments.verb == "show":
        return _show(catalog, arguments.names)
    found = (
        catalog.search(tuple(arguments.words)) if arguments.verb == "search" else _of_cloud(catalog, arguments.cloud)
    )
    if not found:
        raise InputError("no node of the catalogue has all these words; `modelplane catalog list` shows all")
    sys.stdout.write(_text(catalog, found, arguments.output))
    return 0


def _of_cloud(catalog: "Catalog", cloud: str) -> "tuple[Machine, ...]":
    found = tuple(machine for machine in catalog.machines if not cloud or machine.cloud == cloud)
    if not found:
        clouds = sorted({machine.cloud for machine in catalog.machines})
        raise InputError(f"no cloud {cloud!r}; there are {', '.join(clouds)}")
    return found


def _show(catalog: "Catalog", names: list[str]) -> int:
    from modelplane.catalog import inference_class
    from modelplane.k8s.yaml import to_yaml_documents

    sys.stdout.write(to_yaml_documents(inference_class(catalog, catalog.find(name)) for name in names))
    return 0


def _text(catalog: "Catalog", machines: "tuple[Machine, ...]", output: str) -> str:
    from modelplane.cli._formats import data_text, names_text, table_text

    if output == "name":
        return names_text("inferenceclass", (machine.name for machine in machines))
    rows = []
    for machine in machines:
        memory = catalog.products[machine.product].memory
        network = "" if machine.network_gbps is None else f"{machine.network_gbps:g} Gbps"
        gpus = f"{machine.count} {machine.product}"
        rows.append((machine.alias, gpus, memory, network, machine.fabric or "", machine.price or "", machine.name))
    header = ("NODE", "GPUS", "MEMORY", "NETWORK", "FABRIC", "PRICE/H", "CLASS")
    if output == "text":
        return table_text(header, rows)
    fields = ("node", "gpus", "memory", "network", "fabric", "pricePerHour", "class")
    return data_text([dict(zip(fields, row, strict=True)) for row in rows], output)
