"""`python -m modelplane` is the program."""

import sys

from modelplane.cli import main

sys.exit(main())
