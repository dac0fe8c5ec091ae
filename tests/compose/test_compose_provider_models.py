"""What a ModelEndpoint says of its provider's models."""

import pytest

from modelplane.api.codec import decode
from modelplane.api.models import ListedModels, ModelEndpoint
from modelplane.compose.provider_models import FetchedList, ListRequest, ModelsFact, listed_models, models_fact

URL = "https://api.example/v1/models"
BEFORE = ListedModels(url=URL, total=1, names=("a",))


@pytest.mark.parametrize(
    ("names", "model", "kept"),
    [
        ([], "a", ListedModels(url=URL, total=0)),
        (["b", "a", "b", ""], None, ListedModels(url=URL, total=2, names=("a", "b"))),
        (["a", "b", "x" * 254], "b", ListedModels(url=URL, total=2, names=("b", "a"))),
        (["x" * 253], None, ListedModels(url=URL, total=1, names=("x" * 253,))),
        (["a"], "c", ListedModels(url=URL, total=1, names=("a",))),
    ],
)
def test_names_that_are_kept(names, model, kept):
    assert listed_models(names, URL, model) == kept


def test_of_a_long_list_the_wanted_model_is_kept():
    found = listed_models([f"m{number:04}" for number in range(1000)], URL, "m0999")
    assert (found.total, len(found.names), found.names[0]) == (1000, 256, "m0999")


def endpoint(models):
    status = {"models": {"url": models.url, "total": models.total, "names": list(models.names)}} if models else {}
    spec = {"origin": "https://api.example", "model": "b"}
    return decode(ModelEndpoint, {"metadata": {"name": "acme", "namespace": "chat"}, "spec": spec, "status": status})


@pytest.mark.parametrize(
    ("before", "list_models", "expected"),
    [
        (BEFORE, None, ModelsFact(BEFORE)),
        (BEFORE, lambda _: None, ModelsFact(BEFORE, 1.0)),
        (None, lambda _: None, ModelsFact(None, 1.0)),
        (BEFORE, lambda _: FetchedList(), ModelsFact(BEFORE, 60.0)),
        (BEFORE, lambda _: FetchedList(unreached="refused"), ModelsFact(BEFORE, 60.0, "refused")),
        (
            BEFORE,
            lambda _: FetchedList(("b",), "refused"),
            ModelsFact(ListedModels(url=URL, total=1, names=("b",)), 60.0, "refused"),
        ),
        (BEFORE, lambda _: FetchedList(()), ModelsFact(ListedModels(url=URL, total=0), 60.0)),
        (
            BEFORE,
            lambda _: FetchedList(("a", "b")),
            ModelsFact(ListedModels(url=URL, total=2, names=("b", "a")), 60.0),
        ),
        (ListedModels(url="https://other.example/v1/models", total=0), lambda _: FetchedList(), ModelsFact(None, 60.0)),
    ],
    ids=[
        "no lists",
        "fetching",
        "new",
        "no list",
        "no connection",
        "no connection any more",
        "empty",
        "fetched",
        "another address",
    ],
)
def test_a_list_counts_until_there_is_another(before, list_models, expected):
    assert models_fact(endpoint(before), ListRequest(URL), list_models) == expected


def test_a_credential_is_not_shown():
    assert "s3cret" not in repr(ListRequest(URL, header="Authorization", value="Bearer s3cret"))
