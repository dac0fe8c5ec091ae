import pytest

from modelplane.hydrate.answers import decode_answer
from modelplane.hydrate.errors import SourceInvalidError
from modelplane.hydrate.huggingface import HubEntry
from modelplane.hydrate.volume import CompleteMarker

FILE = '"path": "a", "sha256": "%s"' % ("0" * 64)
MARKER = '{"key": "k", "revision": "r", "layout": "plain", "root": "x", "bytes": 1, "files": [{%s}], "completedAt": ""}'


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"[" * 100_000, list[HubEntry]),
        (b'{"x": ' + b"[" * 100_000, HubEntry),
        (b'{"type": "file", "path": "a", "size": -1}', HubEntry),
        (b'{"type": "file", "path": "a", "size": 1%s}' % (b"0" * 30), HubEntry),
        (b'{"type": "file", "path": "\xff"}', HubEntry),
        ((MARKER % f'{FILE}, "size": -1').encode(), CompleteMarker),
        ((MARKER % '"path": "a", "sha256": "", "size": 1').encode(), CompleteMarker),
    ],
)
def test_what_cannot_be_staged_is_refused_in_one_sentence(content, kind):
    with pytest.raises(SourceInvalidError, match=r"^the answer cannot be read: "):
        decode_answer(content, kind, "the answer cannot be read")


def test_what_can_be_is_read():
    assert decode_answer((MARKER % f'{FILE}, "size": 1').encode(), CompleteMarker, "").files[0].size == 1
