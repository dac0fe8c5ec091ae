import pytest

from modelplane.k8s.cel.errors import EvaluationAborted
from modelplane.k8s.cel.limits import MAX_ELEMENTS, MAX_TEXT_BYTES, check_list, check_text


def test_up_to_the_limit():
    check_text(MAX_TEXT_BYTES, ascii_only=True)
    check_text(MAX_TEXT_BYTES // 4, ascii_only=False)
    check_list(MAX_ELEMENTS)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: check_text(MAX_TEXT_BYTES + 1, ascii_only=True),
        lambda: check_text(MAX_TEXT_BYTES // 4 + 1, ascii_only=False),
        lambda: check_list(MAX_ELEMENTS + 1),
    ],
)
def test_beyond_the_limit(attempt):
    with pytest.raises(EvaluationAborted, match="too large"):
        attempt()
