"""What `modelplane hydrate check` says of a volume that was staged and then changed."""

import shutil
from pathlib import Path

import pytest

from modelplane.cli import main
from modelplane.hydrate import CacheVolume, incomplete

KEY = "6b3a5ff1c0d84e27"
SOURCE = '{"inline": {"filename": "config.json", "content": "{}"}}'
EMPTY = "the volume is empty or its staging did not end: .modelplane/complete.json is not there"


def stage(folder: Path, *more: str) -> None:
    assert main(["hydrate", "--source", SOURCE, "--into", str(folder), *more]) == 0


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def shortened(folder: Path) -> None:
    marker = CacheVolume(folder).marker()
    assert marker is not None
    path = folder / marker.root / "config.json"
    path.unlink()
    path.write_text("")


def half_staged(folder: Path) -> None:
    (folder / ".modelplane" / "complete.json").unlink()


@pytest.mark.parametrize(
    ("more", "change", "expected"),
    [
        (["--cache-key", KEY], lambda _: None, None),
        ([], lambda _: None, None),
        (["--cache-key", KEY], emptied, EMPTY),
        (["--cache-key", KEY], half_staged, EMPTY),
        (["--cache-key", KEY], shutil.rmtree, EMPTY),
        (
            ["--cache-key", KEY],
            shortened,
            "the volume was changed after it was staged: config.json is not there with 2 bytes",
        ),
        (
            ["--cache-key", "another"],
            lambda _: None,
            f"the volume was staged for cache key another, and {KEY} is wanted",
        ),
    ],
    ids=["complete", "an earlier loader's", "emptied", "half staged", "not there", "a short file", "another cache's"],
)
def test_a_volume_is_what_was_staged_or_the_check_says_what_is_wrong(tmp_path, capsys, more, change, expected):
    folder = tmp_path / "volume"
    stage(folder, *more)
    change(folder)
    capsys.readouterr()
    assert incomplete(folder, KEY) == expected
    assert main(["hydrate", "check", f"--staged={KEY}={folder}"]) == (74 if expected else 0)
    assert capsys.readouterr().err == (f"{folder}: {expected}\n" if expected else "")


def test_the_same_source_makes_an_emptied_volume_whole(tmp_path):
    folder = tmp_path / "volume"
    stage(folder, "--cache-key", KEY)
    shortened(folder)
    stage(folder, "--cache-key", KEY)
    assert incomplete(folder, KEY) is None


def test_a_volume_of_an_earlier_loader_gets_its_key_when_the_job_runs_again(tmp_path):
    stage(tmp_path)
    stage(tmp_path, "--cache-key", KEY)
    marker = CacheVolume(tmp_path).marker()
    assert marker is not None
    assert (marker.cache_key, incomplete(tmp_path, "another")) == (
        KEY,
        f"the volume was staged for cache key {KEY}, and another is wanted",
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], "check needs --staged KEY=DIR"), (["--staged", "/mnt"], "--staged: /mnt is not KEY=DIR")],
)
def test_wrong_usage(capsys, words, expected):
    assert main(["hydrate", "check", *words]) == 2
    assert capsys.readouterr().err == f"modelplane hydrate: {expected}\n"
