"""What all tests share: how properties are tried, how golden files are compared and written, and where logs go."""

import logging
import os
from pathlib import Path

import pytest
import yaml
from hypothesis import is_hypothesis_test, seed, settings

# libyaml reads the same ten times as fast.
yaml.SafeLoader, yaml.SafeDumper = yaml.CSafeLoader, yaml.CSafeDumper

# No wall-clock deadline on a shared machine.
settings.register_profile("here", deadline=None)
settings.register_profile("core", deadline=None, max_examples=20)
settings.load_profile("here")


EXAMPLES = os.environ.get("MODELPLANE_EXAMPLES", "")
"""Every property is tried on at least so many examples, or on so many times (`x5`) what it says itself."""
SEED = os.environ.get("MODELPLANE_SEED", "")
"""What is drawn follows from it. `.ci/run` takes it from the commit, so that anyone draws what it drew."""


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write golden files, and run no other tests")
    parser.addoption("--properties", action="store_true", help="run the properties alone")


def pytest_collection_modifyitems(config, items):
    if SEED:
        for test in filter(is_hypothesis_test, map(_function, items)):
            seed(int(SEED))(test)
    if EXAMPLES or config.getoption("--hypothesis-profile") == "core":
        # Once each: the cases of a parametrized test share one function.
        tests = [_function(item) for item in items]
        for test in {id(test): test for test in tests}.values():
            _set_examples(test)
    if config.getoption("--update-golden"):
        _keep(config, items, lambda item: "golden" in item.fixturenames)
    if config.getoption("--properties"):
        _keep(config, items, lambda item: is_hypothesis_test(_function(item)))


def pytest_runtest_teardown():
    """A command that ran in this process logs to the stderr of its test, which is closed before the next one."""
    for handler in [each for each in logging.root.handlers if type(each) is logging.StreamHandler]:
        logging.root.removeHandler(handler)


def _keep(config, items, wanted):
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = [item for item in items if wanted(item)]


def _function(item):
    return getattr(item.obj, "__func__", item.obj)


def _set_examples(test):
    if is_hypothesis_test(test):
        known = getattr(test, "_hypothesis_internal_use_settings", settings.default)
        test._hypothesis_internal_use_settings = settings(parent=known, max_examples=_examples(known.max_examples))


def _examples(stated):
    """A developer's core run tries no property on more than the profile says, whatever the property says itself."""
    if not EXAMPLES:
        return min(stated, settings.get_profile("core").max_examples)
    return stated * int(EXAMPLES[1:]) if EXAMPLES.startswith("x") else max(stated, int(EXAMPLES))


class Golden:
    """Golden files: results as they were last reviewed."""

    def __init__(self, *, update):
        self._update = update

    def check(self, path: Path, text: str):
        """The file has this text."""
        if self._update:
            path.write_text(text)
        assert text == path.read_text(), f"{path.name} differs; `make golden` writes it anew"

    def check_folder(self, folder: Path, names: set[str]):
        """The folder has these files and no others."""
        others = {path.name for path in folder.iterdir()} ^ names
        if self._update:
            for name in others - names:
                (folder / name).unlink()
        else:
            assert not others


@pytest.fixture(scope="session")
def golden(request):
    """Compares with golden files; `make golden` runs the tests that take it, and writes the files instead."""
    return Golden(update=request.config.getoption("--update-golden"))
