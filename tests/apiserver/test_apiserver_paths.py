"""What paths name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelplane.apiserver.paths import find_target


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/namespaces", ("namespaces", None, "", "")),
        ("/api/v1/namespaces/default", ("namespaces", None, "default", "")),
        ("/api/v1/namespaces/default/status", ("namespaces", None, "default", "status")),
        ("/api/v1/namespaces/default/secrets", ("secrets", "default", "", "")),
        ("/api/v1/namespaces/default/secrets/", ("secrets", "default", "", "")),
        ("/api/v1/secrets", ("secrets", None, "", "")),
        ("/apis/modelplane.ai/v1alpha1/inferenceclusters/east/status", ("inferenceclusters", None, "east", "status")),
        ("/apis/modelplane.ai/v1alpha1/namespaces/a/modelservices/b", ("modelservices", "a", "b", "")),
        ("/apis/modelplane.ai/v1alpha1/modelservices/b", None),
        ("/apis/modelplane.ai/v1alpha1/namespaces/a/inferenceclusters", None),
        ("/apis/modelplane.ai/v1alpha1/inferenceclusters/a/b/c", None),
        ("/apis/modelplane.ai/v1alpha1/namespaces//modelservices", None),
        ("/api/v1", None),
        ("/other", None),
    ],
)
def test_paths(path, expected):
    found = find_target(path)
    assert (found and (found.resource.plural, found.namespace, found.name, found.subresource)) == expected


def test_a_target_knows_where_its_object_is():
    target = find_target("/apis/modelplane.ai/v1alpha1/namespaces/a/modelservices/b")
    assert (str(target.ref), target.ref.group, target.is_everywhere) == ("ModelService a/b", "modelplane.ai", False)
    assert find_target("/apis/modelplane.ai/v1alpha1/modelservices").is_everywhere


@given(st.lists(st.sampled_from(["api", "apis", "v1", "namespaces", "a", "secrets", "status", "", "modelplane.ai"])))
def test_any_path_is_read_without_a_defect(steps):
    target = find_target("/" + "/".join(steps))
    assert target is None or target.resource is not None
