"""Genuine components as plain processes on one machine: what the product is proved against.

Rooms, top to bottom; each may import what is below it:
- ``__main__``: the commands.
- ``e2e``, ``oracles``: scenarios and comparisons that run inside a lab that is up.
- ``up``: which processes make the control cluster and a workload cluster, and in which order.
- ``cluster``, ``hardware``, ``registry``, ``engines``: the parts.
- ``supervisor``, ``namespace``, ``certificates``, ``client``: processes, the network namespace, keys, the API.
- ``build``, ``components``: the binaries, from published modules.
- ``places``: where things are on disk.
"""
