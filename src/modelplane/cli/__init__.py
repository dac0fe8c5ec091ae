"""The command line: parsing, rendering and exit codes; no decisions.

Each command is a module of this package with two functions, `configure(parser)` and `run(arguments) -> int`. The
table holds only names and one-line summaries, so `modelplane --help` imports no command.
"""

from modelplane.cli._main import main

__all__ = ["main"]
