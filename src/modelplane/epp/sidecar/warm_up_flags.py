"""The flags of the warm-up, apart from what it runs: `modelplane picker --help` shows them and starts at once."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine-port", type=int, default=8000, help="port of the engine (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9010, help="where /ready answers (default: %(default)s)")
    parser.add_argument("--prompts", type=int, default=0, metavar="N", help="completions of growing prompts")
    parser.add_argument(
        "--request", action="append", default=[], metavar="PATH=BODY", help="a POST request, such as /v1/embeddings={…}"
    )
    parser.add_argument(
        "--timeout", type=float, default=300.0, metavar="S", help="for all of them (default: %(default)s)"
    )
