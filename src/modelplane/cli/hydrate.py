"""modelplane hydrate: stage the files of a model on a volume."""

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from modelplane.api.errors import ModelplaneError
from modelplane.api.loader_exits import EXIT_INCOMPLETE
from modelplane.api.outbound import OutboundRule

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine

    from modelplane.hydrate.progress import HydrationProgress

_EPILOG = """\
examples:
  modelplane hydrate --source '{"huggingFace": {"repo": "Qwen/Qwen3-8B"}}' --into /mnt/models
  modelplane hydrate --source @/etc/modelplane/source.json --into /mnt/models --credentials-dir /etc/credentials
  modelplane hydrate --source file:///srv/weights --into /mnt/models
  modelplane hydrate serve --volume /mnt/models        serve a volume to other clusters, read-only
  modelplane hydrate check --staged 6b3a5ff1c0d84e27=/mnt/models        fail unless it holds what was staged

The same command goes on where the last one stopped, after a kill too. Progress is JSON, one object a line.
Exit codes: 0 complete (or it was already), 1 failed for good, 2 wrong usage, 28 the volume is too small, 65 a wrong
digest, 66 not found, 74 check: a volume is incomplete, 75 failed for now or stopped: run it again, 76 content that
cannot be staged, 77 not authorized, 78 refused by the outbound rule.
"""
_MOST_CONNECTIONS = 64
_EXIT_USAGE = 2


class HydrateUsageError(ModelplaneError):
    """The arguments are invalid."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Stages the files of a model on a volume: resumable, checked, published at once."
    parser.epilog = _EPILOG
    parser.add_argument("action", nargs="?", choices=("serve", "check"), help="serve or check instead of staging")
    parser.add_argument("--source", metavar="JSON", help="a ModelCache's source block, or @FILE with it")
    parser.add_argument("--into", metavar="DIR", type=Path, help="the volume")
    parser.add_argument("--expect-key", metavar="KEY", help="the content key; a source with another one is refused")
    parser.add_argument("--cache-key", metavar="KEY", help="the ModelCache's key of the source, for the marker")
    parser.add_argument(
        "--staged",
        metavar="KEY=DIR",
        nargs="+",
        action="extend",
        default=[],
        help="with check: a volume, and the key of the cache that was staged there",
    )
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
    parser.add_argument("--volume", metavar="DIR", type=Path, help="with serve: the volume")
    parser.add_argument("--listen", default="0.0.0.0:8080", help="with serve: host and port; default: %(default)s")
    parser.add_argument(
        "--tls-certs-dir", metavar="DIR", type=Path, help="with serve: a folder with tls.crt and tls.key"
    )
    parser.add_argument("--files-dir", metavar="DIR", type=Path, help="a mounted ConfigMap, for the source configMap")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.hydrate.errors import HydrateError
    from modelplane.hydrate.progress import HydrationProgress

    try:
        if arguments.action == "serve":
            return _serve(arguments)
        if arguments.action == "check":
            return _check_volumes(arguments.staged)
        _check(arguments)
    except HydrateUsageError as error:
        print(f"modelplane hydrate: {error}", file=sys.stderr)
        return _EXIT_USAGE
    progress = HydrationProgress(lambda line: print(line, flush=True), arguments.status_file)
    try:
        _guarded(arguments, progress)
    except HydrateError as error:
        progress.report("Failed", reason=error.reason.value, message=str(error))
        print(f"modelplane hydrate: {error}", file=sys.stderr)
        return error.exit_code
    progress.report("Complete")
    return 0


def _guarded(arguments: argparse.Namespace, progress: "HydrationProgress") -> None:
    from modelplane.hydrate.errors import as_hydrate_error

    try:
        _hydrate(arguments, progress)
    except OSError as error:
        raise as_hydrate_error(error) from error


def _hydrate(arguments: argparse.Namespace, progress: "HydrationProgress") -> None:
    from modelplane.hydrate import CacheVolume, Hydration, HydrationOptions, OriginOptions, origin_of, read_source
    from modelplane.hydrate.credentials import MountedSecret
    from modelplane.hydrate.settings import FetchSettings, Stop

    stop = Stop(arguments.deadline)
    signal.signal(signal.SIGTERM, lambda *_: stop.set("stopped by SIGTERM"))
    options = HydrationOptions(
        expected_key=arguments.expect_key,
        cache_key=arguments.cache_key,
        layout=arguments.layout,
        progress_interval_s=arguments.progress_interval,
        kept_revisions=arguments.keep_revisions,
        fetch=FetchSettings(connections=arguments.connections),
    )
    access = OriginOptions(
        rule=_rule(arguments.outbound_allow),
        secret=MountedSecret(arguments.credentials_dir, arguments.token_file),
        files=arguments.files_dir,
    )
    origin = origin_of(read_source(arguments.source), access)
    Hydration(origin, CacheVolume(arguments.into), options, progress, stop).run()


def _check_volumes(staged: list[str]) -> int:
    """The last line on stderr is what a pod's status shows."""
    from modelplane.hydrate import incomplete

    if not staged:
        raise HydrateUsageError("check needs --staged KEY=DIR")
    for entry in staged:
        key, _, folder = entry.partition("=")
        if not key or not folder:
            raise HydrateUsageError(f"--staged: {entry} is not KEY=DIR")
        fault = incomplete(Path(folder), key)
        if fault is not None:
            print(f"{folder}: {fault}", file=sys.stderr)
            return EXIT_INCOMPLETE
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    import asyncio

    from modelplane.hydrate import CacheVolume
    from modelplane.hydrate.peer_server import PeerServer

    host, _, port = arguments.listen.rpartition(":")
    if arguments.volume is None or not port.isdigit():
        raise HydrateUsageError("serve needs --volume DIR, and --listen HOST:PORT")
    server = PeerServer(CacheVolume(arguments.volume), arguments.token_file)
    serving = server.serve(host, int(port), _server_tls(arguments.tls_certs_dir), _announce)
    try:
        asyncio.run(_until_signalled(serving))
    except asyncio.CancelledError:
        return 0
    return 0


async def _until_signalled(serving: "Coroutine[None, None, None]") -> None:
    import asyncio

    task = asyncio.ensure_future(serving)
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, task.cancel)
    await task


def _announce(host: str, port: int) -> None:
    print(f"serving on {host}:{port}", flush=True)


def _server_tls(folder: Path | None) -> "ssl.SSLContext | None":
    if folder is None:
        return None
    import ssl

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def _rule(entries: list[str]) -> OutboundRule:
    try:
        return OutboundRule.read(entries)
    except ValueError as error:
        raise HydrateUsageError(f"--outbound-allow: {error}") from None


def _check(arguments: argparse.Namespace) -> None:
    if arguments.source is None or arguments.into is None:
        raise HydrateUsageError("--source and --into are needed")
    if not 1 <= arguments.connections <= _MOST_CONNECTIONS:
        raise HydrateUsageError(f"--connections is 1 to {_MOST_CONNECTIONS}")
    if arguments.progress_interval <= 0 or (arguments.deadline is not None and arguments.deadline <= 0):
        raise HydrateUsageError("--progress-interval and --deadline are greater than 0")
    if arguments.keep_revisions < 0:
        raise HydrateUsageError("--keep-revisions is 0 or more")
    _rule(arguments.outbound_allow)
