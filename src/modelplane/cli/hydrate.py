"""modelplane hydrate: stage the files of a model on a volume."""

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import ModelplaneError
from modelplane.api.outbound import OutboundRule

if TYPE_CHECKING:
    from modelplane.hydrate.progress import HydrationProgress

_EPILOG = """\
examples:
  modelplane hydrate --source '{"huggingFace": {"repo": "Qwen/Qwen3-8B"}}' --into /mnt/models
  modelplane hydrate --source @/etc/modelplane/source.json --into /mnt/models --credentials-dir /etc/credentials
  modelplane hydrate --source file:///srv/weights --into /mnt/models
  modelplane hydrate serve --volume /mnt/models        serve a volume to other clusters, read-only

The same command goes on where the last one stopped, after a kill too. HydrationProgress is JSON, one object a line.
Exit codes: 0 complete (or it was already), 1 failed for good, 2 wrong usage, 28 the volume is too small, 75 failed for
now or stopped: run it again.
"""
_MOST_CONNECTIONS = 64


class HydrateUsageError(ModelplaneError):
    """The arguments are invalid."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Stages the files of a model on a volume: resumable, checked, published at once."
    parser.epilog = _EPILOG
    parser.add_argument("--source", metavar="JSON", required=True, help="a ModelCache's source block, or @FILE with it")
    parser.add_argument("--into", metavar="DIR", type=Path, required=True, help="the volume")
    parser.add_argument("--expect-key", metavar="KEY", help="the content key; a source with another one is refused")
    parser.add_argument("--layout", choices=("huggingface", "plain"), help="default: huggingface where the source is")
    parser.add_argument("--status-file", metavar="FILE", type=Path, help="holds the last line of progress")
    parser.add_argument("--progress-interval", metavar="S", type=float, default=5.0, help="default: %(default)s")
    parser.add_argument("--deadline", metavar="S", type=float, help="stop after this many seconds, with exit code 75")
    parser.add_argument(
        "--connections", metavar="N", type=int, default=8, help="at the same time; default: %(default)s"
    )
    parser.add_argument("--keep-revisions", metavar="N", type=int, default=1, help="older ones kept; default: 1")
    parser.add_argument(
        "--outbound-allow",
        metavar="CIDR|HOST",
        nargs="+",
        action="extend",
        default=[],
        help="internal ones to connect to",
    )
    parser.add_argument("--token-file", metavar="FILE", type=Path, help="a bearer token")
    parser.add_argument("--credentials-dir", metavar="DIR", type=Path, help="a mounted Secret, one file for each key")
    parser.add_argument("--files-dir", metavar="DIR", type=Path, help="a mounted ConfigMap, for the source configMap")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.hydrate.errors import HydrateError
    from modelplane.hydrate.progress import HydrationProgress

    _check(arguments)
    progress = HydrationProgress(lambda line: print(line, flush=True), arguments.status_file)
    try:
        _hydrate(arguments, progress)
    except HydrateError as error:
        progress.report("Failed", reason=type(error).__name__.removesuffix("Error"), message=str(error))
        print(f"modelplane hydrate: {error}", file=sys.stderr)
        return error.exit_code
    progress.report("Complete")
    return 0


def _hydrate(arguments: argparse.Namespace, progress: "HydrationProgress") -> None:
    from modelplane.hydrate import CacheVolume, Hydration, HydrationOptions, OriginOptions, origin_of, read_source
    from modelplane.hydrate.settings import FetchSettings, Stop

    stop = Stop(arguments.deadline)
    signal.signal(signal.SIGTERM, lambda *_: stop.set("SIGTERM"))
    options = HydrationOptions(
        expected_key=arguments.expect_key,
        layout=arguments.layout,
        progress_interval_s=arguments.progress_interval,
        kept_revisions=arguments.keep_revisions,
        fetch=FetchSettings(connections=arguments.connections),
    )
    access = OriginOptions(
        rule=_rule(arguments.outbound_allow),
        token_file=arguments.token_file,
        credentials=arguments.credentials_dir,
        files=arguments.files_dir,
    )
    origin = origin_of(read_source(arguments.source), access)
    Hydration(origin, CacheVolume(arguments.into), options, progress, stop).run()


def _rule(entries: list[str]) -> OutboundRule:
    try:
        return OutboundRule.read(entries)
    except ValueError as error:
        raise HydrateUsageError(f"--outbound-allow: {error}") from None


def _check(arguments: argparse.Namespace) -> None:
    if not 1 <= arguments.connections <= _MOST_CONNECTIONS:
        raise HydrateUsageError(f"--connections is 1 to {_MOST_CONNECTIONS}")
    if arguments.progress_interval <= 0 or (arguments.deadline is not None and arguments.deadline <= 0):
        raise HydrateUsageError("--progress-interval and --deadline are greater than 0")
    if arguments.keep_revisions < 0:
        raise HydrateUsageError("--keep-revisions is 0 or more")
