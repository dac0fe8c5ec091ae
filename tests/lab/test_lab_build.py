"""How programs are pinned and kept; nothing here needs Go."""

import re
from pathlib import Path

import pytest

from lab import build
from lab.components import COMPONENTS, KUBERNETES, Recipe, Set
from lab.pins import CONTENTS
from lab.places import Places, find_places

PLACES = Places(cache=Path("/cache"), state=Path("/state"))

LISTING = """/cache/bin/x: go1.26.8
	path	lab/x
	mod	lab/x	(devel)
	dep	example.org/b	v1.0.0	h1:bbb=
	dep	example.org/a	v1.2.0
	=>	example.org/fork	v1.2.1	h1:aaa=
	build	-trimpath=true
"""


def test_every_module_is_pinned_by_its_checksum():
    assert [part.name for part in COMPONENTS if not re.fullmatch(r"h1:[\w+/]{43}=", part.module.checksum)] == []


def test_the_core_set_and_the_picker_are_pinned_by_what_they_were_built_from():
    named = {part.name for part in COMPONENTS}
    needed = {part.name for part in COMPONENTS if part.set in {Set.CORE, Set.PICKER}}
    assert needed <= CONTENTS.keys() <= named
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in CONTENTS.values())


def test_names_are_unique():
    names = [part.name for part in COMPONENTS]
    assert len(set(names)) == len(names)


def test_contents_are_the_modules_and_their_checksums_only():
    digest = build.contents_digest(LISTING)
    assert digest == build.contents_digest(LISTING.replace("go1.26.8", "go1.27.0").replace("-trimpath=true", "-race"))
    assert digest != build.contents_digest(LISTING.replace("h1:aaa=", "h1:ccc="))
    assert digest != build.contents_digest(LISTING.replace("b\tv1.0.0", "b\tv1.0.1"))


def test_a_program_is_kept_by_version_and_recipe():
    paths = {build.binary(PLACES, part) for part in COMPONENTS}
    assert len(paths) == len(COMPONENTS)
    assert all(
        path.is_relative_to("/cache/bin") and part.module.version in str(path)
        for path, part in zip((build.binary(PLACES, part) for part in COMPONENTS), COMPONENTS, strict=True)
    )


def test_folders_of_the_repository_are_replaced_by_published_versions():
    own = {
        "Replace": [
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "example.org/a"}, "New": {"Path": "example.org/fork", "Version": "v2.0.0"}},
        ]
    }
    assert KUBERNETES.recipe is Recipe.WRAPPER
    assert list(build._replacements(KUBERNETES, own)) == [
        ("k8s.io/api", "k8s.io/api", "v0.36.3"),
        ("example.org/a", "example.org/fork", "v2.0.0"),
    ]


def test_without_go_the_message_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.GoMissingError, match="no `go` on the PATH"):
        build.find_go(1)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/h"}, Places(Path("/h/.cache/modelplane-lab"), Path("/h/.local/state/modelplane-lab"))),
        (
            {"XDG_CACHE_HOME": "/c", "XDG_STATE_HOME": "/s"},
            Places(Path("/c/modelplane-lab"), Path("/s/modelplane-lab")),
        ),
        ({"MODELPLANE_LAB_CACHE": "/x", "MODELPLANE_LAB_STATE": "/y"}, Places(Path("/x"), Path("/y"))),
    ],
)
def test_places_are_outside_the_checkout(environment, expected):
    assert find_places(environment) == expected


def test_the_socket_has_a_path_that_the_kernel_takes():
    deep = Path("/" + "a" * 200)
    assert Places(Path("/c"), Path("/s")).control_socket == Path("/s/control.sock")
    found = Places(Path("/c"), deep).control_socket
    assert len(bytes(found)) < 100
    assert found == Places(Path("/c"), deep).control_socket != Places(Path("/c"), deep / "b").control_socket


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("go: example.com/x@v1: Get ...: dial tcp: lookup proxy: no such host", build.ModulesAwayError),
        ("go: example.com/x@v1: reading https://.../x.zip: 403 Forbidden", build.ModulesAwayError),
        ("module lookup disabled by GOPROXY=off", build.ModulesAwayError),
        ("go.mod requires go >= 1.26.0 (running go 1.22.1; GOTOOLCHAIN=local)", build.GoMissingError),
        ("./main.go:3:1: undefined: etcdmain", build.BuildError),
    ],
)
def test_what_keeps_a_program_from_being_built_is_told_apart(said, kind):
    assert type(build._refusal(said)) is kind
