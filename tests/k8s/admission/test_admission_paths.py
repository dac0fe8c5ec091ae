import pytest

from modelplane.k8s.admission.paths import Key, render


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "."),
        (("spec",), "spec"),
        (("spec", "nodePools", 0, "name"), "spec.nodePools[0].name"),
        (("metadata", "labels", Key("a/b")), "metadata.labels[a/b]"),
        ((0,), "[0]"),
        ((Key("x"), "y"), "[x].y"),
    ],
)
def test_render(path, text):
    assert render(path) == text


def test_a_key_is_the_string_it_holds():
    assert {"a/b": 1}[Key("a/b")] == 1
    assert (Key("a"),) == ("a",)
