"""`modelplane picker check FILE`: what a configuration would build, and everything wrong with it."""

import argparse
import sys

from modelplane.cli._shown import add_output

_EPILOG = """\
examples:
  modelplane picker check config.yaml
  modelplane picker check config.yaml --strict        warnings fail too
  kubectl get configmap epp -o jsonpath='{.data.config}' | modelplane picker check -

Prints one line a problem, file:line: field: what is wrong. A sound configuration is shown with its defaults filled in.
Exit codes: 0 it would run, 1 it would not.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Reads an EndpointPickerConfig as the picker would, and shows what it comes to."
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="the configuration, or - for standard input")
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    from modelplane.cli._shown import print_value
    from modelplane.cli.manifests import read, shown
    from modelplane.epp.config.config import load
    from modelplane.epp.config.outline import outline
    from modelplane.epp.config.positions import ConfigError
    from modelplane.epp.server.third_party import full_registry

    try:
        config = load(read(arguments.file), shown(arguments.file), full_registry())
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 1
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    found = outline(config)
    if arguments.output == "text":
        print("\n".join(found.lines()))
    else:
        print_value(found, arguments.output)
    return 1 if arguments.strict and config.warnings else 0
