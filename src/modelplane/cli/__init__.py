"""The command line: parsing, rendering and exit codes; no decisions."""


def main() -> int:
    return 0
