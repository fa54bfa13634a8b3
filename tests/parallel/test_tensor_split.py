"""Who holds which slice: without ranks, for every number of them."""

from __future__ import annotations

import pytest
import torch

from parallel.clip import OWN
from parallel.tensor.split import Split, shared, split_of


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("dim", [0, 1])
def test_parts_are_cut_each_by_itself_and_put_together_again(size, dim):
    split = Split(dim, (8, 4, 4))
    whole = torch.arange(16 * 16).view(16, 16)
    shares = [split.share(whole, rank, size) for rank in range(size)]
    for rank, share in enumerate(shares):
        queries, keys, values = whole.split([8, 4, 4], dim)
        wanted = torch.cat([each.chunk(size, dim)[rank] for each in (queries, keys, values)], dim)
        assert torch.equal(share, wanted)
        taken = torch.cat([whole.narrow(dim, first, length) for first, length in split.ranges(rank, size)], dim)
        assert torch.equal(share, taken)
    assert torch.equal(split.join(shares), whole)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("rows", [5, 11, 12])
def test_padding_is_nobodys(size, rows):
    split, whole = Split(0, (rows,), padded=True), torch.arange(1, rows * 2 + 1).view(rows, 2)
    shares = [split.share(whole, rank, size) for rank in range(size)]
    assert {len(share) for share in shares} == {-(-rows // size)}
    assert torch.equal(split.join(shares), whole)
    assert sum(length for rank in range(size) for _, length in split.ranges(rank, size)) == rows
    assert sum(int((share == 0).all(1).sum()) for share in shares) == size * -(-rows // size) - rows


def test_a_split_parameter_has_its_rule_and_others_have_none():
    whole = torch.nn.Parameter(torch.arange(8.0), requires_grad=False)
    own = shared(whole, Split(0, (8,)), 1, 2, "w")
    assert split_of(own) == Split(0, (8,))
    assert own.split_over == (*OWN, "tp")
    assert not own.requires_grad
    assert own.tolist() == [4.0, 5.0, 6.0, 7.0]
    own.data[:] = 0
    assert whole.sum() == 28  # a copy
    assert split_of(whole) is None
    assert len(own.split(2)) == 2  # torch's own


def test_it_is_the_parts_that_must_divide():
    """2F % size == 0 is not enough for a fused gate and up."""
    with pytest.raises(
        ValueError, match="gate has 3 rows or columns to share, which 2 ranks do not divide: take 2 or 4"
    ):
        shared(torch.zeros(6, 1), Split(0, (3, 3)), 0, 2, "gate")
