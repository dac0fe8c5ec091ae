"""The certificate by which the router calls gateways of clusters that let in fleet gateways only, from files.

It is the fleet gateway's own, in a mounted Secret that cert-manager renews. The CAs of the clusters are beside the
plans. Both are read again when they change. Without them replicas behind mutual TLS are not asked for their models.
"""

import logging
import ssl
from pathlib import Path
from typing import Final

from modelplane.compose.router_objects import CLUSTER_AUTHORITIES
from modelplane.epp.transport.tls import client_context
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason
from modelplane.router.served_models import HopContext

_LOG = logging.getLogger(__name__)
_PAIR: Final = ("tls.crt", "tls.key")


class HopFolder:
    """Reads `identity`, the folder of the certificate, and the CAs in the folder of the plans."""

    def __init__(self, identity: Path, plans: Path) -> None:
        self._paths = (plans / CLUSTER_AUTHORITIES, *(identity / name for name in _PAIR))
        self._read: tuple[bytes, ...] = ()

    def read(self) -> HopContext | None:
        """What to call with, where it changed since the last call; else None."""
        try:
            found = tuple(path.read_bytes() for path in self._paths)
        except OSError:
            return None
        if found == self._read:
            return None
        self._read = found
        try:
            return HopContext(client_context(*found))
        except (ValueError, ssl.SSLError) as error:
            _LOG.error("kept the previous certificate: %s", error, extra=because(LogReason.CERTIFICATE_INVALID))
            return None
