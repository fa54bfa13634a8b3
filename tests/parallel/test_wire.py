"""Which gradients travel together, and how they are written in fewer bits."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parallel.buckets import assign
from parallel.wire import NOTHING, Blocks, Cast, codec_of, is_nothing


def test_buckets_leave_in_the_order_of_the_backward_pass():
    assert assign([4, 4, 4, 4, 4], "aaaaa", 8) == [[4, 3], [2, 1], [0]]
    assert assign([4, 9, 4], "aaa", 8) == [[2], [1], [0]]  # one larger than the limit is alone
    assert assign([4, 4, 4, 4], "abab", 8) == [[3, 1], [2, 0]]  # a dtype each; the one that is ready first leaves first
    assert assign([4, 4, 4], "aaa", 0) == [[2], [1], [0]]
    assert assign([], "", 8) == []


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from("ab")), max_size=30), st.integers(0, 100))
def test_every_parameter_is_in_one_bucket(parameters, limit):
    sizes, kinds = [size for size, _ in parameters], [kind for _, kind in parameters]
    buckets = assign(sizes, kinds, limit)
    assert sorted(i for bucket in buckets for i in bucket) == list(range(len(sizes)))
    for bucket in buckets:
        assert len({kinds[i] for i in bucket}) == 1
        assert len(bucket) == 1 or sum(sizes[i] for i in bucket) <= limit
        assert bucket == sorted(bucket, reverse=True)
    last = [bucket[-1] for bucket in buckets]  # a bucket is ready with its last, in the order of the backward pass
    assert last == sorted(last, reverse=True)


def there_and_back(codec, x):
    message = codec.encode(x)
    assert message.shape == codec.room(x.numel(), x.device).shape
    assert message.dtype == codec.room(1, x.device).dtype
    return codec.decode(message, x)


@pytest.mark.parametrize("elements", [0, 1, 127, 128, 129, 1000])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_int8_is_off_by_at_most_half_a_step_of_its_block(elements, scale):
    x = torch.randn(elements, generator=torch.Generator().manual_seed(elements)) * scale
    x[::3] *= 1e-3
    back = there_and_back(Blocks(), x)
    for block, rounded in zip(x.split(128), back.split(128), strict=True):
        if block.numel():
            step = block.abs().max() / 127
            assert (rounded - block).abs().max() <= step / 2 * (1 + 1e-5)
            assert rounded.abs().max().item() == pytest.approx(block.abs().max().item(), rel=1e-6)


@pytest.mark.parametrize(("name", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)])
def test_sixteen_bits_are_those_of_torch(name, dtype):
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(there_and_back(codec_of(name), x), x.to(dtype).float())


@pytest.mark.parametrize("codec", [Cast(torch.float16), Cast(torch.bfloat16), Blocks(4)])
def test_nothing_stays_nothing_and_no_number_becomes_it(codec):
    x = torch.tensor([NOTHING, 1.0, 0.0, -1e-42, 1e-42, -1e-12, -1.0, NOTHING, NOTHING])
    assert is_nothing(there_and_back(codec, x)).tolist() == is_nothing(x).tolist()


@pytest.mark.parametrize("codec", [Cast(torch.float16), Cast(torch.bfloat16), Blocks(4)])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_seen(codec, bad):
    x = torch.tensor([1.0, bad, 2.0, NOTHING, 3.0, 4.0])
    back = there_and_back(codec, x)
    assert not back[1].isfinite()
    assert torch.allclose(back[4:], x[4:], atol=4 / 254)
