"""Every plugin type that comes with the picker."""

from functools import cache

from modelplane.picker import admitters, aliases, declared, filters, handlers, listeners, pickers, scorers
from modelplane.picker.catalogue import Catalogue
from modelplane.picker.flow import types as flow
from modelplane.picker.memory import types as memory


@cache
def catalogue() -> Catalogue:
    rooms = (filters, scorers, pickers, handlers, admitters, listeners, memory, flow, aliases, declared)
    return Catalogue(each for room in rooms for each in room.TYPES)
