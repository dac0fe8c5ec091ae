import pytest

from modelplane.k8s.cel.evaluator_fast_calls import EmittedCode, NotEmitted
from modelplane.k8s.cel.types import MAP, STRING


def test_brackets_mean_the_same_only_for_plain_dicts():
    assert EmittedCode("x", MAP, is_dict=True).is_plain_dict
    assert not EmittedCode("x", MAP, is_dict=True, is_domains=True).is_plain_dict
    assert not EmittedCode("x", STRING).is_plain_dict


def test_declining_is_not_an_error_of_the_user():
    with pytest.raises(NotEmitted):
        raise NotEmitted
