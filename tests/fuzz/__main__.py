"""`python -m tests.fuzz TARGET [libFuzzer options]`: one target under atheris, until it is stopped."""

import sys

from tests.fuzz.targets import TARGETS


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.stderr.write(f"one of {', '.join(TARGETS)} is expected\n")
        return 2
    try:
        import atheris  # type: ignore[import-not-found]  # no dependency of ours: it needs a compiler on some machines
    except ImportError:
        sys.stderr.write("atheris is not installed\n")
        return 1
    target = TARGETS[sys.argv.pop(1)]
    atheris.instrument_all()
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
