"""Errors of a Kubernetes API client.

KubeError
├── BadConfig      no usable kubeconfig or ServiceAccount; trying again does not help
├── Unreachable    no answer, or half of one: the network, TLS, a server that went away
└── KubeStatusError  an answer that says no, with its status and reason
"""

GONE = 410
"""The version that a list or watch was to continue from is forgotten."""


class KubeError(Exception):
    """The root of what this room raises."""


class BadConfig(KubeError):  # noqa: N818 - names of outcomes, as in the tree above
    """No usable kubeconfig or ServiceAccount."""


class Unreachable(KubeError):  # noqa: N818 - as above
    """There was no whole answer."""


class KubeStatusError(KubeError):
    """The API answered with an error."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
