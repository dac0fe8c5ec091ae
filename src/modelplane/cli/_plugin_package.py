"""A package with one plugin for the endpoint picker: its files, by what its author named it."""

import re
from collections.abc import Iterable
from string import Template
from typing import Final, NamedTuple

_HEAD: Final = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
"""
_PLUGINS: Final = """\
plugins:
- type: ${name}
"""
_PROJECT: Final = """\
[build-system]
requires = ["flit_core>=4.2,<5"]
build-backend = "flit_core.buildapi"

[project]
name = "${name}"
version = "0.1.0"
description = "A plugin for Modelplane's endpoint picker."
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["modelplane"]

[project.entry-points."modelplane.epp.plugins"]
${name} = "${module}:TYPES"
"""
_README: Final = """\
# ${name}

A plugin for Modelplane's endpoint picker, of the kind ${kind}. ${summary}

```sh
pip install .
pytest
modelplane picker check config.yaml
```

`${module}.py` is the plugin, `config.yaml` a configuration that uses it.
"""


class PluginTemplate(NamedTuple):
    """A kind of plugin: its module, a test of it, and a configuration that uses it."""

    summary: str
    module: str
    test: str
    config: str = _PLUGINS


def module_name(name: str) -> str:
    return name.replace("-", "_")


def class_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def package_files(name: str, kind: str, template: PluginTemplate, public: Iterable[str]) -> dict[str, str]:
    """The text of each file. `public` are the names that authors may import."""
    words = {"name": name, "module": module_name(name), "klass": class_name(name), "kind": kind}
    words["summary"] = template.summary
    texts = {
        "pyproject.toml": _PROJECT,
        "README.md": _README,
        "config.yaml": _HEAD + template.config,
        f"{words['module']}.py": template.module,
    }
    files = {path: Template(text).substitute(words) for path, text in texts.items()}
    test = Template(template.test).substitute(words)
    imports = _imports(words["module"], files[f"{words['module']}.py"], test, public)
    files[f"test_{words['module']}.py"] = f"{imports}\n\n\n{test}"
    return files


def _imports(module: str, code: str, test: str, public: Iterable[str]) -> str:
    """What the test uses: of Python, of Modelplane and of its own package."""
    used = set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r'"[^"\n]*"', "", test)))
    own = used & set(re.findall(r"^(?:class )?([A-Z]\w*)", code, re.MULTILINE))
    theirs = (
        *_from("modelplane.epp.plugins", used & set(public)),
        *_from("modelplane.testing.picking", used & {"context_of", "endpoint"}),
    )
    python = ("import asyncio",) if "asyncio" in used else ()
    return "\n\n".join("\n".join(section) for section in (python, theirs, _from(module, own)) if section)


def _from(module: str, names: set[str]) -> tuple[str, ...]:
    constants_first = sorted(names, key=lambda name: (not name.isupper(), name))
    return (f"from {module} import {', '.join(constants_first)}",) if names else ()
