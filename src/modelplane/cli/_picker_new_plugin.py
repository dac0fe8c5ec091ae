"""`modelplane picker new-plugin NAME`: a small package with a plugin of one's own, ready to install."""

import argparse
import keyword
import re
import sys
from pathlib import Path
from typing import Final

from modelplane.api.errors import InputError
from modelplane.cli._plugin_package import class_name, module_name, package_files
from modelplane.cli._plugin_templates_data import DATA_TEMPLATES
from modelplane.cli._plugin_templates_decision import DECISION_TEMPLATES

TEMPLATES: Final = {**DECISION_TEMPLATES, **DATA_TEMPLATES}
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_LONGEST: Final = 40
_EPILOG = """\
examples:
  modelplane picker new-plugin gold-first
  modelplane picker new-plugin not-in-maintenance --kind filter
  modelplane picker new-plugin rerank --kind parser --directory plugins/rerank

kinds:
{kinds}

The package has the plugin, a test, and a configuration that uses it. docs/picker-plugins.md explains each kind.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    kinds = "\n".join(f"  {kind:<12} {template.summary}" for kind, template in TEMPLATES.items())
    parser.description = "Writes a package with a plugin for the endpoint picker, ready to install."
    parser.epilog = _EPILOG.format(kinds=kinds)
    parser.add_argument("name", metavar="NAME", help="the plugin's type in configurations, such as gold-first")
    parser.add_argument(
        "--kind", choices=TEMPLATES, default="scorer", metavar="KIND", help="one of those below (scorer)"
    )
    parser.add_argument("--directory", type=Path, metavar="DIR", help="where to write it (default: NAME)")


def run(arguments: argparse.Namespace) -> int:
    from modelplane.epp.plugins import __all__ as public

    name, kind = arguments.name, arguments.kind
    _check_name(name)
    directory = arguments.directory or Path(name)
    files = package_files(name, kind, TEMPLATES[kind], public)
    _write(directory, files)
    for path in sorted(files):
        print(directory / path)
    return 0


def _check_name(name: str) -> None:
    from modelplane.epp.config.builtin import builtin_registry
    from modelplane.epp.plugins import __all__ as public

    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise InputError(
            f"NAME: {name!r} is not a letter followed by lower case letters, digits and single -, {_LONGEST} at most"
        )
    if name in builtin_registry():
        raise InputError(f"NAME: {name} is a type that comes with the picker")
    module, klass = module_name(name), class_name(name)
    taken = keyword.iskeyword(module) or module in {*sys.stdlib_module_names, "modelplane", "msgspec", "pytest"}
    if taken or {klass, f"{klass}Parameters"} & set(public):
        raise InputError(
            f"NAME: a plugin named {name} would hide what Python or modelplane.epp.plugins has; use another"
        )


def _write(directory: Path, files: dict[str, str]) -> None:
    try:
        if directory.exists() and any(directory.iterdir()):
            raise InputError(f"--directory: {directory} is not empty")
        directory.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            (directory / path).write_text(text)
    except OSError as error:
        raise InputError(f"--directory: {directory}: {error.strerror}") from error
