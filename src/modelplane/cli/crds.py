"""`modelplane crds`: the plain CustomResourceDefinitions, for an API server without Crossplane."""

import argparse
import json
import sys

from modelplane.api.definitions import Definition, custom_resource_definition, definitions
from modelplane.api.errors import InputError

_EPILOG = """\
examples:
  modelplane crds | kubectl apply --server-side -f -
  modelplane crds ModelDeployment -o json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Prints the CustomResourceDefinitions of all kinds, or of those named."
    parser.epilog = _EPILOG
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="a kind, plural or short name (default: all)")
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")


def run(arguments: argparse.Namespace) -> int:
    chosen = [_find(word) for word in arguments.kinds] or list(definitions().values())
    crds = [custom_resource_definition(definition) for definition in chosen]
    if arguments.output == "json":
        items = crds[0] if len(crds) == 1 else {"apiVersion": "v1", "kind": "List", "items": crds}
        json.dump(items, sys.stdout, indent=2)
        print()
        return 0
    from modelplane.k8s.yaml import to_yaml_documents

    sys.stdout.write(to_yaml_documents(crds))
    return 0


def _find(word: str) -> Definition:
    for definition in definitions().values():
        if word.lower() in {definition.kind.lower(), definition.plural, *definition.names.short_names}:
            return definition
    known = ", ".join(sorted(definition.kind for definition in definitions().values()))
    raise InputError(f"no kind {word!r}; the kinds are {known}")
