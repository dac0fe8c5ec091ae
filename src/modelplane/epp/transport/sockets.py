"""Listening on every address of a machine: pods of clusters without IPv4 are called at their IPv6 addresses."""

import asyncio
import errno
import socket
from typing import Final

ANY_ADDRESS: Final = ""
"""As a host: every IPv4 and IPv6 address."""
_BACKLOG: Final = 1024
_NO_IPV6: Final = frozenset((errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))


def listen_any_address(port: int) -> socket.socket:
    """One socket, so that port 0 gives one number for both. Without IPv6 on the machine, IPv4 only."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return socket.create_server(("", port), backlog=_BACKLOG)


async def listen_at(host: str, port: int) -> list[socket.socket]:
    """One socket for each address of the host, all with one port, that do not block."""
    if host == ANY_ADDRESS:
        sockets = [listen_any_address(port)]
    else:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        sockets = []
        for family, address in dict.fromkeys((info[0], str(info[4][0])) for info in infos):
            sockets.append(socket.create_server((address, port), family=family, backlog=_BACKLOG))
            port = sockets[0].getsockname()[1]
    for sock in sockets:
        sock.setblocking(False)
    return sockets
