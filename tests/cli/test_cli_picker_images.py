"""What is rendered for the picker and its sidecar is what our own programs understand."""

import argparse
from pathlib import Path

import pytest
import yaml

from modelplane.api.errors import InputError
from modelplane.cli import _picker_serve, _picker_sidecar

GOLDEN = Path(__file__).resolve().parents[1] / "compose" / "golden"


def containers(name):
    """Arguments of the containers of that name, in every rendered set."""
    found = {}
    for path in sorted(GOLDEN.glob("*.yaml")):
        for pod in _pods(list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))):
            for container in pod.get("containers", ()):
                if container.get("name") == name and "args" in container:
                    found.setdefault(tuple(container["args"]), path.stem)
    return found


def _pods(item):
    if isinstance(item, dict):
        if "containers" in item:
            yield item
        for value in item.values():
            yield from _pods(value)
    elif isinstance(item, list):
        for value in item:
            yield from _pods(value)


@pytest.mark.parametrize(("name", "module"), [("picker", _picker_serve), ("routing-sidecar", _picker_sidecar)])
def test_every_rendered_command_line_is_understood(name, module):
    rendered = containers(name)
    assert rendered
    for arguments in rendered:
        parser = argparse.ArgumentParser(exit_on_error=False)
        module.configure(parser)
        parser.parse_args(arguments)


def test_a_sidecar_takes_one_list_only():
    parser = argparse.ArgumentParser()
    _picker_sidecar.configure(parser)
    with pytest.raises(InputError, match="give one"):
        _picker_sidecar.run(parser.parse_args(["--endpoints", "e.yaml", "--inference-pool", "a/b"]))
