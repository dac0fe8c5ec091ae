"""Whether the request path of this installation is compiled (`make compiled`) or plain Python."""

from modelplane.epp.transport.h2 import connection


def is_compiled() -> bool:
    """By the module that every byte of a request passes: all that are compiled are compiled together."""
    return not connection.__file__.endswith(".py")


def describe_build() -> str:
    return "compiled" if is_compiled() else "plain Python"
