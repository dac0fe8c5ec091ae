"""Event loops that outlive a test function, ended so that nothing of them is left for a later test to be blamed for."""

import asyncio


def end_loop(loop):
    """Close a loop that does not run, after its connections: whatever still says goodbye to a peer is cut off."""
    for transport in list(loop._transports.values()):
        transport.abort()
    loop.run_until_complete(asyncio.sleep(0))  # each transport closes its socket in the turn after
    loop.close()
