"""`python -m modelplane.testing.world`: replay one world, or run many."""

import sys

from modelplane.testing.world.command import main

sys.exit(main(sys.argv[1:]))
