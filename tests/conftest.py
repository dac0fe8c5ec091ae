"""How properties are tried: no wall-clock deadline on a shared machine; the same examples each time where CI judges."""

import os

from hypothesis import settings

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
