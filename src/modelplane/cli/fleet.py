"""`modelplane fleet snapshot`: writes the inputs of the scheduler to a file."""

import argparse
import sys
from pathlib import Path

from modelplane.api.errors import InputError
from modelplane.cli._shown import add_inputs, read_inputs

_EPILOG = """\
examples:
  modelplane fleet snapshot -o snapshot.yaml                    the running plane of this machine
  modelplane fleet snapshot --kubeconfig ~/.kube/config -o snapshot.yaml
  modelplane fleet snapshot -f examples/quickstart/ -o snapshot.yaml

The file has clusters, replicas, caches and deployments, without the environment, arguments and annotations of pods, and
the decisions on them. `modelplane replay` repeats the decisions and compares.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Writes the inputs of the scheduler to a file, for plans, explanations and replays."
    parser.epilog = _EPILOG
    parser.add_argument("what", choices=("snapshot",))
    add_inputs(parser, manifests_required=False)
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to write (default: standard output)")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.k8s.yaml import to_yaml
    from modelplane.views.replay import snapshot_document

    document = snapshot_document(read_inputs(arguments))
    text = to_yaml(document)
    if arguments.output == "-":
        sys.stdout.write(text)
        return 0
    try:
        Path(arguments.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{arguments.output}: {error.strerror}") from None
    return 0
