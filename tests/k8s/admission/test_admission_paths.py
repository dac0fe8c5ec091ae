import pytest

from modelplane.k8s.admission.paths import MapKey, render


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "."),
        (("spec",), "spec"),
        (("spec", "nodePools", 0, "name"), "spec.nodePools[0].name"),
        (("metadata", "labels", MapKey("a/b")), "metadata.labels[a/b]"),
        ((0,), "[0]"),
        ((MapKey("x"), "y"), "[x].y"),
    ],
)
def test_render(path, text):
    assert render(path) == text


def test_a_key_is_the_string_it_holds():
    assert {"a/b": 1}[MapKey("a/b")] == 1
    assert (MapKey("a"),) == ("a",)
