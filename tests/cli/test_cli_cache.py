import argparse

import pytest

from modelplane.api.errors import NotFoundError
from modelplane.cli import cache
from modelplane.cli.cache import warm_patch, warmed


def parsed(*words):
    parser = argparse.ArgumentParser()
    cache.configure(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("before", "clusters", "expected"),
    [
        ({}, [], {}),
        ({}, ["east"], {"modelplane.ai/warm": "east"}),
        ({"modelplane.ai/warm": "west, east"}, ["east", "north"], {"modelplane.ai/warm": "west,east,north"}),
    ],
)
def test_warming_keeps_the_clusters_that_were_named_before(before, clusters, expected):
    found = warm_patch({"metadata": {"annotations": before}}, clusters, 1_800_000_000.0)
    assert found == {"metadata": {"annotations": {"modelplane.ai/retry": "2027-01-15T08:00:00Z", **expected}}}


def test_the_verbs_and_their_options(tmp_path):
    assert vars(parsed("warm", "w", "--on", "a", "--on", "b"))["on"] == ["a", "b"]
    for words in (["list"], ["show", "w", "--watch"], ["warm", "w"]):
        with pytest.raises(NotFoundError, match="no plane runs"):
            cache.run(parsed(*words, "--data", str(tmp_path)))


@pytest.mark.parametrize(
    ("namespace", "clusters", "says"),
    [
        ("default", [], "default/qwen is tried again where it failed; `modelplane cache show qwen --watch` shows"),
        ("team", ["east", "west"], "team/qwen is being staged on east, west; `modelplane cache show qwen -n team "),
    ],
)
def test_what_was_begun_is_not_called_done(namespace, clusters, says):
    assert warmed(namespace, "qwen", clusters).startswith(says)
