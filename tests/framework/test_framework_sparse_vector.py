import pytest

from modelplane.framework import SparseVector, zeros


@pytest.mark.parametrize("zero", [0, 0.0], ids=["counts", "scores"])
def test_a_sparse_vector_reads_like_a_list(zero):
    vector = SparseVector(4, {1: 5, 3: 1}, zero)
    assert (list(vector), len(vector), vector[1], vector[-1], vector[1:], max(vector)) == (
        [0, 5, 0, 1], 4, 5, 1, [5, 0, 1], 5,
    )  # fmt: skip
    assert type(vector[0]) is type(vector[2:3][0]) is type(zero)
    with pytest.raises(IndexError):
        vector[4]


def test_zeros():
    assert (list(zeros(2)), zeros(2) is zeros(2)) == ([0.0, 0.0], True)
