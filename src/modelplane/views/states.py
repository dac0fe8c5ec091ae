"""The states of objects, in the words that every view shows. They need no model of an object."""

from typing import Final

READY: Final = "Ready"
NOT_READY: Final = "NotReady"
UNKNOWN: Final = "Unknown"
DELETING: Final = "Deleting"
