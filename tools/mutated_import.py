"""Imports one module from another text. Processes that a test starts do so, too."""

import sys
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "modelplane"
_SITE = """\
import sys
sys.path.append({tools!r})
import mutated_import
sys.path.remove({tools!r})
from pathlib import Path
mutated_import.install({module!r}, (Path(__file__).parent / "source").read_text())
"""


class _OtherText(SourceFileLoader):
    """Reads a module's text from here, and never from compiled files."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_data(self, path: str) -> bytes:
        del path
        return self._source.encode()

    def path_stats(self, path: str) -> Mapping[str, object]:
        raise OSError(path)


class _Mutated(MetaPathFinder):
    """Finds one module in another text."""

    def __init__(self, module: str, source: str) -> None:
        self._path = str(SOURCE / module)
        self._name = module_name(module)
        self._source = source

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if fullname != self._name:
            return None
        loader = _OtherText(fullname, self._path, self._source)
        return spec_from_file_location(fullname, self._path, loader=loader)


def module_name(module: str) -> str:
    return ".".join(("modelplane", *Path(module).with_suffix("").parts)).removesuffix(".__init__")


def install(module: str, source: str) -> None:
    """From now on this process imports the module from this text."""
    sys.meta_path.insert(0, _Mutated(module, source))


def write_site(folder: Path, module: str, source: str) -> None:
    """What a process of Python runs first that has the folder on PYTHONPATH."""
    (folder / "source").write_text(source)
    (folder / "sitecustomize.py").write_text(_SITE.format(tools=str(Path(__file__).parent), module=module))
