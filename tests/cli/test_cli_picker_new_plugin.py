"""`modelplane picker new-plugin`: packages that are clean, that work, and that a served picker uses once installed."""

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from inspect import signature
from pathlib import Path

import pytest

from modelplane.cli import main
from modelplane.cli._picker_new_plugin import TEMPLATES
from modelplane.epp.config.builtin import builtin_registry
from modelplane.epp.config.config import load
from modelplane.epp.server.server import assemble
from modelplane.framework.entry_points import discover_types
from tests.support.picker_process import REQUEST, end, headers, pick, serving
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
RUFF = Path(sys.executable).with_name("ruff")
SOURCES = str(ROOT / "src")
STYLE_OF_AUTHORS = ["--isolated", "--line-length=120", "--target-version=py311"]
RULES = "E,F,I,B,N,UP,ANN,ARG,RET,SIM,PTH,PL,RUF"


def new_plugin(folder, kind, name=""):
    name = name or f"my-{kind}"
    assert main(["picker", "new-plugin", name, "--kind", kind, "--directory", str(folder / name)]) == 0
    return folder / name


def test_what_is_written_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["picker", "new-plugin", "gold-first"]) == 0
    written = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert capsys.readouterr().out.split() == written
    assert written == [
        f"gold-first/{name}"
        for name in ("README.md", "config.yaml", "gold_first.py", "pyproject.toml", "test_gold_first.py")
    ]
    project = tomllib.loads(Path("gold-first/pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"modelplane.epp.plugins": {"gold-first": "gold_first:TYPES"}}


def test_the_examples_of_the_help_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["picker", "new-plugin", "--help"])
    shown = capsys.readouterr().out
    examples = re.findall(r"^  modelplane (.*)$", shown, re.MULTILINE)
    assert [main(words.split()) for words in examples] == [0, 0, 0]
    assert {path.parent.name for path in tmp_path.rglob("*.toml")} == {"gold-first", "not-in-maintenance", "rerank"}
    assert re.findall(r"^  ([a-z][\w-]*) +[A-Z]", shown, re.MULTILINE) == list(TEMPLATES)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packages")
    return {kind: new_plugin(folder, kind) for kind in TEMPLATES}


def test_every_package_is_clean(packages):
    for folder in packages.values():
        code = ["check", *STYLE_OF_AUTHORS, f"--select={RULES}", "--ignore=ANN001,ANN201,PLR2004,PLR6301", "."]
        for words in (code, ["format", *STYLE_OF_AUTHORS, "--check", "."]):
            done = subprocess.run([RUFF, *words], cwd=folder, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, ""), done.stdout


def imported(folder, name, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    return importlib.import_module(name)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_test_of_a_package_passes(packages, kind, monkeypatch, tmp_path):
    module = imported(packages[kind], f"test_my_{kind.replace('-', '_')}", monkeypatch)
    (test,) = (found for name, found in vars(module).items() if name.startswith("test_"))
    test(*([tmp_path] if "tmp_path" in signature(test).parameters else ()))


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_configuration_of_a_package_uses_its_plugin(packages, kind, monkeypatch):
    folder = packages[kind]
    module = imported(folder, f"my_{kind.replace('-', '_')}", monkeypatch)
    config = load((folder / "config.yaml").read_text(), "config.yaml", builtin_registry().extended(module.TYPES))
    scheduler, _ = assemble(config)
    assert (config.warnings, type(scheduler.assembly.plugins[f"my-{kind}"])) == ((), vars(module)[_class_of(kind)])


def _class_of(kind):
    return "My" + "".join(word.capitalize() for word in kind.split("-"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["Gold"], "NAME: 'Gold' is not a letter followed by lower case letters, digits and single -, 40 at most"),
        (["../gold"], "NAME: '../gold' is not a letter followed by"),
        (["a--b"], "NAME: 'a--b' is not a letter followed by"),
        (["x" * 41], f"NAME: '{'x' * 41}' is not a letter followed by"),
        (["queue-scorer"], "NAME: queue-scorer is a type that comes with the picker"),
        (["class"], "NAME: a plugin named class would hide what Python or modelplane.epp.plugins has; use another"),
        (["json"], "NAME: a plugin named json would hide"),
        (["endpoint"], "NAME: a plugin named endpoint would hide"),
        (["gold", "--directory", "full"], "--directory: full is not empty"),
        (["gold", "--directory", "full/file"], "--directory: full/file: Not a directory"),
    ],
)
def test_what_is_refused_names_the_argument(words, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full/file").touch()
    assert main(["picker", "new-plugin", *words]) == 1
    assert sentence in capsys.readouterr().err
    assert [str(path) for path in Path().rglob("*")] == ["full", "full/file"]


def test_a_kind_that_does_not_exist_comes_with_the_nearest(capsys):
    with pytest.raises(SystemExit):
        main(["picker", "new-plugin", "gold", "--kind", "score"])
    assert "did you mean 'scorer'?" in capsys.readouterr().err


CONFIG = """apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: my-scorer
- type: my-source
  parameters: {path: "{watts}", interval: 50ms}
- type: my-source-scorer
- type: my-parser
- type: openai-parser
requestHandler: {parsers: [{pluginRef: openai-parser}, {pluginRef: my-parser}]}
dataLayer: {sources: [{pluginRef: my-source}]}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: my-scorer, weight: 1}, {pluginRef: my-source-scorer, weight: 3}]
"""
ENDPOINTS = """endpoints:
- {name: plain, address: 127.0.0.1, port: 9}
- {name: gold, address: 127.0.0.2, port: 9, labels: {tier: gold}}
"""


@pytest.fixture(scope="module")
def installed(packages, tmp_path_factory):
    """The folder that pip built and installed three of the packages into."""
    target = tmp_path_factory.mktemp("installed")
    words = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    built = [str(packages[kind]) for kind in ("scorer", "source", "parser")]
    subprocess.run([sys.executable, "-m", "pip", *words, "--target", str(target), *built], check=True)
    return target


async def _replies(picker, path, body):
    """Where a request goes, or the status that its client gets."""
    message = REQUEST()
    message.request_body.body, message.request_body.end_of_stream = body, True
    async with picker.connection() as call:
        stream = call()
        await stream.write(headers(path, 4))
        await stream.write(message)
        while True:
            reply = await stream.read()
            if reply.HasField("immediate_response"):
                return reply.immediate_response.status.code
            if "envoy.lb" in reply.dynamic_metadata:
                await end(stream)
                return reply.dynamic_metadata["envoy.lb"]["x-gateway-destination-endpoint"]


async def _choices(picker, watts):
    """First by label; then the numbers of the data source outweigh it. What the parser makes of bodies; who fails."""
    async with picker.connection() as call:
        by_label = await pick(call)
        watts.write_text(json.dumps({"default/gold": 400.0}))

        async def has_moved():
            return await pick(call) != by_label

        await until(has_moved)
        by_source = await pick(call)
    parsed = await _replies(picker, "/v1/rerank", b'{"model": "m", "query": "q", "documents": []}')
    refused = await _replies(picker, "/v1/rerank", b'{"model": "m"}')
    watts.unlink()

    async def faults_of_plugins():
        series = await picker.series()
        return {dict(key[1:])["plugin_name"] for key in series if key[0] == "llm_d_epp_plugin_faults_total"}

    return by_label, by_source, parsed, refused, await until(faults_of_plugins)


@pytest.mark.e2e
@pytest.mark.parametrize("workers", [1, 2])
def test_a_picker_serves_with_what_was_built_and_installed(installed, tmp_path, monkeypatch, workers):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(installed), SOURCES)))
    watts, config, listed = tmp_path / "watts.json", tmp_path / "config.yaml", tmp_path / "own.yaml"
    watts.write_text("{}")
    config.write_text(CONFIG.replace("{watts}", str(watts)))
    listed.write_text(ENDPOINTS)
    flags = ["--no-scrape", "--config", str(config), "--endpoints", str(listed), "--workers", str(workers)]

    async def limited():
        async with asyncio.timeout(50), serving(tmp_path / "picker", [], *flags) as picker:
            return await _choices(picker, watts)

    assert asyncio.run(limited()) == ("127.0.0.2:9", "127.0.0.1:9", "127.0.0.1:9", 400, {"my-source"})


def test_types_of_installed_packages_are_found(installed, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    found = {each.name for each in discover_types("modelplane.epp.plugins")}
    assert found >= {"my-scorer", "my-source", "my-source-scorer", "my-parser"}


PAGE = (ROOT / "docs" / "picker-plugins.md").read_text()
SECTION = re.compile(r"^### `([\w-]+)`\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_the_page_shows_each_kind_as_it_is_written(kind, tmp_path):
    shown = dict(SECTION.findall(PAGE))[kind]
    (code,) = re.findall(r"^```python\n(.*?)^```$", shown, re.MULTILINE | re.DOTALL)
    name = re.search(r'plugin_type\(\s*"([\w-]+)"', code)[1]
    folder = new_plugin(tmp_path, kind, name)
    assert code == (folder / f"{name.replace('-', '_')}.py").read_text()
    assert TEMPLATES[kind].summary in shown
