"""Images of our own programs: by default those of the release, from where it was pushed or from a mirror of that."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import InferenceCluster
from modelplane.api.version import __version__
from modelplane.compose.images import IMAGE_NAMES, OwnImages, RegistryMirrors, ReleaseImages
from tests.compose.conftest import make_cluster

TAG = f"v{__version__}"
MIRRORS = [
    {"source": "registry.example.org/", "mirror": "near.example/everything"},
    {"source": "registry.example.org/team", "mirror": "near.example/team/"},
]


def cluster(images=None, mirrors=()):
    made = make_cluster()
    made["spec"] = {**made["spec"], "backend": {"images": images or {}}, "software": {"registryMirrors": list(mirrors)}}
    return decode(InferenceCluster, made)


def own(prefix, **given):
    return OwnImages(
        **{program: f"{prefix}{name}:{TAG}" for program, name in IMAGE_NAMES.items() if program != "router"} | given
    )


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("picker", "modelplane-picker"),
        ("routing_sidecar", "modelplane-routing-sidecar"),
        ("warm_up", "modelplane-warm-up"),
        ("loader", "modelplane-loader"),
        ("router", "modelplane-router"),
    ],
)
def test_the_name_of_each_image(program, name):
    assert ReleaseImages("r.example", version="1.2.3").of(program) == f"r.example/{name}:v1.2.3"


@pytest.mark.parametrize(
    ("release", "on", "expected"),
    [
        pytest.param(ReleaseImages(), cluster(), own(""), id="as the archives are named"),
        pytest.param(ReleaseImages("r.example/team/"), cluster(), own("r.example/team/"), id="where they were pushed"),
        pytest.param(
            ReleaseImages("r.example/team", loader="l:1"),
            cluster(),
            own("r.example/team/", loader="l:1"),
            id="a loader",
        ),
        pytest.param(
            ReleaseImages("r.example/team", loader="l:1"),
            cluster({"loader": "own:2", "picker": "llm-d/epp:v1"}),
            own("r.example/team/", loader="own:2", picker="llm-d/epp:v1"),
            id="what a cluster names wins",
        ),
        pytest.param(
            ReleaseImages("registry.example.org/team"),
            cluster({"warmUp": "registry.example.org/w:1"}, MIRRORS),
            own("near.example/team/", warm_up="registry.example.org/w:1"),
            id="the longest mirror, and not of what is named",
        ),
    ],
)
def test_the_images_of_a_cluster(release, on, expected):
    assert release.for_cluster(on) == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("registry.example.org/team/a:1", "near.example/team/a:1"),
        ("registry.example.org/teams/a:1", "near.example/everything/teams/a:1"),
        ("registry.example.org.evil/a", "registry.example.org.evil/a"),
        ("a:1", "a:1"),
    ],
)
def test_mirrors_replace_whole_parts(image, expected):
    assert RegistryMirrors.of(cluster(mirrors=MIRRORS)).of_image(image) == expected
