"""The certificates of the hop between the fleet's gateways and those of clusters, made by the plane for itself.

Made anew at every start, and held in memory: both ends are programmed by this plane, so they need no renewal between.
"""

from datetime import timedelta
from typing import Final

from modelplane.envoy.view import HopTls, TlsCertificate
from modelplane.epp.transport.tls import HopCertificates, client_context, issue_hop
from modelplane.router.served_models import HopContext

SERVER_NAME: Final = "cluster-gateway.modelplane.internal"
LIFETIME: Final = timedelta(days=3650)


class HopIdentity:
    """What each end needs of one set of certificates."""

    def __init__(self, now_s: float) -> None:
        self._made: HopCertificates = issue_hop(SERVER_NAME, now_s, LIFETIME)

    @property
    def authority(self) -> str:
        return self._made.authority.decode()

    @property
    def server(self) -> TlsCertificate:
        return TlsCertificate(self._made.server.decode(), self._made.server_key.decode())

    @property
    def fleet(self) -> HopTls:
        client = TlsCertificate(self._made.client.decode(), self._made.client_key.decode())
        return HopTls(self.authority, SERVER_NAME, client)

    @property
    def router(self) -> HopContext:
        return HopContext(client_context(self._made.authority, self._made.client, self._made.client_key), SERVER_NAME)
