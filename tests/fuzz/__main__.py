"""`python -m tests.fuzz TARGET [libFuzzer options]`: one target under atheris, until it is stopped.

Only our own modules are instrumented: all that is imported takes minutes, and is not what is tried here.
"""

import sys


def main() -> int:
    try:
        import atheris  # type: ignore[import-not-found]  # no dependency of ours: it needs a compiler on some machines
    except ImportError:
        sys.stderr.write("atheris is not installed\n")
        return 1
    with atheris.instrument_imports(include=["modelplane"]):
        from tests.fuzz.targets import TARGETS
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.stderr.write(f"one of {', '.join(TARGETS)} is expected\n")
        return 2
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
