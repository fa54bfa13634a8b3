"""Serving: operations, the KV cache, and what decides how long a token takes."""

from __future__ import annotations

import pytest

from sim.chip import CHIPS, chip_of
from sim.gpu import GPUS
from sim.planner.flops import forward
from sim.planner.inference import (
    MEMORY_SHARE,
    Serving,
    cache_on,
    cache_per_token,
    decode,
    decode_bytes,
    decode_flops,
    largest_batch,
    prefill,
    prefill_flops,
    two_n,
    weights_on,
    working,
)
from sim.planner.layout import Layout
from sim.planner.models import MODELS
from sim.presets import PRESETS


def free(nbytes: int) -> float:
    return 0.0


def test_caches_of_known_models():
    """Bytes a token in 16 bits: as published, 512 KiB for Llama 2 7B, and DeepSeek-V3's 576 elements a layer."""
    found = {name: cache_per_token(MODELS[name], Serving()) for name in MODELS}
    assert found["llama2-7b"] == 512 << 10
    assert found["llama3-70b"] == 320 << 10
    assert found["llama3-8b"] == 128 << 10
    assert found["deepseek-v3"] == 61 * 576 * 2
    assert cache_per_token(MODELS["llama2-7b"], Serving(cache="int8")) == 256 << 10


def test_the_cache_is_split_by_heads_and_layers():
    model = MODELS["llama3-70b"]
    whole = cache_on(model, Layout(), Serving(), 1000)
    assert whole == 1000 * (320 << 10)
    assert cache_on(model, Layout(tp=8), Serving(), 1000) == whole // 8
    assert cache_on(model, Layout(tp=4, pp=2), Serving(), 1000) == whole // 8
    assert cache_on(model, Layout(tp=16), Serving(), 1000) == whole // 8  # eight groups are not split further
    compressed = MODELS["deepseek-v3"]
    assert cache_on(compressed, Layout(tp=8), Serving(), 10) == cache_on(compressed, Layout(), Serving(), 10)


def test_two_n_a_token():
    """A token costs 2 N without tables that are only looked up, and 4 · layers · h for every token before it."""
    model = MODELS["llama2-7b"]
    matrices = 6_738_415_616 - model.vocab * model.hidden - 65 * model.hidden
    assert decode_flops(model, 1, 0) == 2 * matrices
    assert decode_flops(model, 3, 500) == 3 * (2 * matrices + 4 * 32 * 4096 * 500)
    assert two_n(model) == 2 * 6_738_415_616


def test_a_prompt_is_quadratic_in_its_length():
    model = MODELS["llama2-7b"]
    found = [prefill_flops(model, Serving(prompt=s)) for s in (1000, 2000, 4000)]
    logits = forward(model, 1, 1)["logits"]
    linear, square = (4 * (found[0] - logits) - (found[1] - logits)) / 2, 2 * 32 * 4096 * 1000**2
    assert found[1] - logits - 2 * linear == pytest.approx(4 * square)
    assert found[2] - logits == pytest.approx(4 * linear + 16 * square)


def test_a_token_reads_all_weights_and_the_cache():
    model, chip = MODELS["llama2-7b"], CHIPS["a100"]
    serving = Serving(batch=4, prompt=1024)
    weights, cache = 2 * 6_738_415_616, 4 * 1024 * (512 << 10)
    assert decode_bytes(model, Layout(), serving, 1024) == weights + cache
    found = decode(model, Layout(), serving, chip, 1024, free)
    assert found.bound == "memory"
    assert found.total == pytest.approx((weights + cache) / (2.039e12 * MEMORY_SHARE))
    assert prefill(model, Layout(), serving, chip, free).bound == "compute"
    eighth = decode(model, Layout(tp=8), serving, chip, 1024, free)
    assert eighth.memory == pytest.approx(found.memory / 8, rel=0.01)
    staged = decode(model, Layout(pp=8), serving, chip, 1024, free)  # a token waits for all stages
    assert staged.memory == pytest.approx(found.memory)


def test_large_batches_are_bound_by_arithmetic():
    model, chip = MODELS["llama2-7b"], CHIPS["a100"]
    assert decode(model, Layout(), Serving(batch=512), chip, 16, free).bound == "compute"


def test_a_mixture_reads_the_experts_that_the_batch_needs():
    model = MODELS["mixtral-8x7b"]
    one = decode_bytes(model, Layout(), Serving(batch=1), 0)
    assert one == pytest.approx(2 * 12_879_925_248)
    assert decode_bytes(model, Layout(), Serving(batch=200), 0) == pytest.approx(2 * 46_702_792_704)


def test_two_all_reduces_a_layer():
    sent = []
    decode(MODELS["llama3-8b"], Layout(tp=2), Serving(batch=3), CHIPS["h100"], 10, lambda n: float(sent.append(n) or 1))
    assert sent == [3 * 4096 * 2]
    found = decode(MODELS["llama3-8b"], Layout(tp=2), Serving(), CHIPS["h100"], 10, lambda n: 1e-5)
    assert found.communication == pytest.approx(2 * 32 * 1e-5)


def test_the_largest_batch_fits_and_no_larger_one():
    model, chip, layout = MODELS["llama3-8b"], CHIPS["a100"], Layout()
    most = largest_batch(model, layout, Serving(prompt=2048, answer=512), chip)

    def total(batch: int) -> float:
        serving = Serving(batch, 2048, 512)
        cache = batch * cache_on(model, layout, serving, 2560)
        return weights_on(model, layout, serving) + cache + working(model, layout, serving)

    assert total(most) <= chip.memory < total(most + 1)


def test_weights_of_fewer_bits():
    model = MODELS["llama3-70b"]
    sizes = [weights_on(model, Layout(), Serving(weights=name)) for name in ("bf16", "int8", "int4")]
    assert sizes == [2 * 70_553_706_496, 70_553_706_496, 70_553_706_496 / 2]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("h100", "h100"), ("a100-80g", "a100"), ("a100-40g", "a100-40g"), ("NVIDIA A100-SXM4-40GB", "a100-40g"),
        ("NVIDIA H100 80GB HBM3", "h100"), ("Tesla V100-SXM2-16GB", "v100-16g"), ("H200", "h200"),
        ("rtx-4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("a100_80gb", "a100"),
    ],
)  # fmt: skip
def test_gpus_by_name(text, name):
    assert chip_of(text).name == name


def test_gpus_of_all_machines_are_known():
    assert {gpu for gpu in GPUS if gpu not in CHIPS} == set()
    assert {machine.gpu for machine in PRESETS.values() if machine.gpu not in CHIPS} <= {""}


def test_gpus_that_there_are_not():
    with pytest.raises(ValueError, match="gpu 'h1000' is unknown: use h100"):
        chip_of("h1000")
    with pytest.raises(ValueError, match="there is no a100 with 60 GB: use a100, a100-40g"):
        chip_of("a100-60g")
    with pytest.raises(ValueError, match="v100 does not compute in fp8: use fp32, fp16"):
        CHIPS["v100"].speed("fp8")
    assert CHIPS["v100"].speed("bf16") == 125e12
