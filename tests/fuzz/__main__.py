"""Fuzzers on the targets and on the HTTP APIs (`make setup-deep` installs them).

    python -m tests.fuzz TARGET [libFuzzer options]     one target under atheris, until it is stopped
    python -m tests.fuzz --all --minutes 30             every target, so many minutes of processor together
    python -m tests.fuzz --http --minutes 10            both HTTP APIs under schemathesis, for so many minutes

Only our own modules are instrumented: all that is imported takes minutes, and is not what is tried here.
"""

import argparse
import sys


def main() -> int:
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        return fuzz_one()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--all", action="store_true", help="every target under atheris")
    kind.add_argument("--http", action="store_true", help="both HTTP APIs under schemathesis")
    parser.add_argument("--minutes", type=float, default=30.0)
    given = parser.parse_args()
    if given.all:
        from tests.fuzz.every_target import run_all

        return run_all(given.minutes)
    from tests.fuzz.http_apis import run_http

    return run_http(given.minutes)


def fuzz_one() -> int:
    try:
        import atheris  # type: ignore[import-not-found]  # of `make deep` alone
    except ImportError:
        sys.stderr.write("atheris is not installed: make setup-deep\n")
        return 1
    with atheris.instrument_imports(include=["modelplane"]):
        from tests.fuzz.targets import TARGETS
    if sys.argv[1] not in TARGETS:
        sys.stderr.write(f"one of {', '.join(TARGETS)} is expected\n")
        return 2
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
