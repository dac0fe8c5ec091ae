"""`modelplane picker explain`: where a request would go and why, for every endpoint; or why it went where it went."""

import argparse

from modelplane.api.errors import InputError
from modelplane.cli._shown import EXIT_DOES_NOT_FIT, add_output

_EPILOG = """\
state.yaml (docs/picker.md has every field):
  kind: PickerState
  endpoints:
  - {name: default/vllm-0, address: "10.0.0.1:8000", load: {waiting: 2, kvUse: 0.4}}
  - {name: default/vllm-1, address: "10.0.0.2:8000", load: {waiting: 0, kvUse: 0.9}}

request.yaml:
  model: qwen3-8b
  prompts: ["Tell me about tides."]
  headers: {x-session-id: abc}

examples:
  modelplane picker explain --state state.yaml --request request.yaml
  modelplane picker explain --config config.yaml --state state.yaml --request request.yaml --seed 7 -o json
  modelplane picker explain --log decisions.jsonl
  modelplane picker explain --log decisions.jsonl --id 5f1c

The same files and seed give the same answer. Exit codes: 0 an endpoint is picked, 1 an input was refused, 3 none is.

With --log, decisions of `picker serve --decision-log` are made again by what their lines hold, with the configuration
that stands in the log. All of them are told in a line each, or one in full by its --id. Exit codes: 0 they come out as
they were logged, 1 one does not, or was decided by another configuration than --config.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Decides for one request over a written state, and shows what every plugin said."
    parser.epilog = _EPILOG
    parser.add_argument("--config", metavar="FILE", help="an EndpointPickerConfig (default: the picker's defaults)")
    parser.add_argument("--state", metavar="FILE", help="the endpoints and their loads")
    parser.add_argument("--request", metavar="FILE", help="the request")
    parser.add_argument("--log", metavar="FILE", help="a log of decisions to make again, or - for standard input")
    parser.add_argument("--id", metavar="ID", default="", help="only the request with this x-request-id, in full")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="what chance comes to (default: 0)")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.log:
        from modelplane.cli._picker_replay import run_log

        if arguments.state or arguments.request:
            raise InputError("--log holds states and requests of its own; give it, or --state and --request")
        return run_log(arguments)
    if not (arguments.state and arguments.request):
        raise InputError("say what to explain: --state and --request, or --log")
    return _explain(arguments)


def _explain(arguments: argparse.Namespace) -> int:
    from random import Random

    from modelplane.cli._picker_explanation import print_explanation
    from modelplane.cli._shown import print_value
    from modelplane.cli.manifests import read, shown
    from modelplane.epp.config.config import load
    from modelplane.epp.replay.explain import explain
    from modelplane.epp.replay.snapshot import decode, decode_request
    from modelplane.epp.server.third_party import full_registry

    text, source = (read(arguments.config), shown(arguments.config)) if arguments.config else (b"", "defaults")
    config = load(text, source, full_registry())
    state = decode(read(arguments.state), shown(arguments.state))
    request = decode_request(read(arguments.request), shown(arguments.request))
    found = explain(config, request, state, Random(arguments.seed).random)  # noqa: S311  repeatable on purpose
    if arguments.output == "text":
        print_explanation(found)
    else:
        print_value(found, arguments.output)
    return 0 if found.destinations else EXIT_DOES_NOT_FIT
