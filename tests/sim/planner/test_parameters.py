"""Parameter counts, against the models themselves and the figures of papers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sim.planner.layout import Layout
from sim.planner.models import MODELS, find_model
from sim.planner.parameters import active, by_formula, on_stage, parts, total
from sim.planner.transformer import Transformer, changed, of_parameters

# Counted by transformers 5.24 on the meta device, shared tensors once.
COUNTED = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3-175b": 174_604_259_328,
    "llama-65b": 65_285_660_672,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "bert-base": 109_482_240,
    "bert-base-pretraining": 110_106_428,
    "bert-large": 335_141_888,
    "opt-125m": 125_239_296,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
}
# Narayanan et al. 2021, table 1: billions of parameters, as printed.
MEGATRON = [1.7, 3.6, 7.5, 18.4, 39.1, 76.1, 145.6, 310.1, 529.6, 1008.0]


@pytest.mark.parametrize("name", COUNTED)
def test_counts_to_the_unit(name):
    assert total(MODELS[name]) == sum(parts(MODELS[name]).values()) == COUNTED[name]


@pytest.mark.parametrize("billions", MEGATRON)
def test_megatrons_ten(billions):
    model = MODELS[f"megatron-{billions:g}b"]
    l, h, s, v = model.layers, model.hidden, model.sequence, model.vocab  # noqa: E741
    assert round(total(model) / 1e9, 1) == billions
    assert total(model) == pytest.approx(12 * l * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * l * h)), rel=1e-5)
    assert total(model) == 12 * l * h**2 + 13 * l * h + (v + s) * h + 2 * h


def test_nanogpt_without_biases():
    """karpathy/nanoGPT transformer_sizing.ipynb, checked there against the model: 124,337,664."""
    assert total(replace(MODELS["gpt2"], bias=False)) == 124_337_664


def test_published_sizes_of_mixtures():
    """The papers' own totals and parameters for each token, in billions."""
    for name, whole, each in (("deepseek-v2", 236, 21), ("deepseek-v3", 671, 37), ("mixtral-8x7b", 47, 13)):
        model = MODELS[name]
        assert round(total(model) / 1e9) == whole
        assert active(model) / 1e9 == pytest.approx(each, abs=0.6)
    assert active(MODELS["gpt2"]) == total(MODELS["gpt2"])


def test_a_layer_of_torch():
    """torch's own encoder layer has the shape of BERT's."""
    h, heads, ffn = 48, 6, 200
    layer = torch.nn.TransformerEncoderLayer(h, heads, ffn, device="meta")
    counted = sum(p.numel() for p in layer.parameters())
    model = Transformer("x", 3, h, heads, ffn, 100, 10)
    found = parts(model)
    assert found["attention"] + found["mlp"] + found["norms"] == 3 * counted


def test_the_example_of_gpt3_on_1024():
    """n·12h²/(TP·PP) + (v+s)·h/TP for DP 8, TP 8, PP 16: 1.4393e9, and 23.03 / 7.92 / 5.40 / 2.88 GB."""
    layout = Layout(dp=8, tp=8, pp=16)
    rule = by_formula(MODELS["gpt3-175b"], layout)
    assert round(rule / 1e9, 4) == 1.4393
    assert [round(rule * each / 1e9, 2) for each in (16, 4 + 12 / 8, 2 + 14 / 8, 2)] == [23.03, 7.92, 5.40, 2.88]
    assert on_stage(MODELS["gpt3-175b"], layout, 0).total == pytest.approx(rule, rel=5e-4)


@pytest.mark.parametrize(
    "name", ["gpt3-175b", "llama3-70b", "mixtral-8x7b", "deepseek-v3", "llama3.1-405b", "bert-large"]
)
@pytest.mark.parametrize(
    ("pp", "vpp", "schedule"), [(1, 1, "1f1b"), (4, 1, "1f1b"), (4, 3, "interleaved"), (4, 1, "zbv")]
)
def test_stages_together_are_the_model(name, pp, vpp, schedule):
    model = MODELS[name]
    layout = Layout(pp=pp, vpp=vpp, schedule=schedule)
    together = sum(on_stage(model, layout, stage).total for stage in range(pp))
    twice = model.vocab * model.hidden if model.output == "tied" and not (pp == 1 or schedule == "zbv") else 0
    assert together == total(model) + twice


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"])
def test_ranks_of_tensor_parallelism_together(name):
    """What is split adds up; what is not is there on every rank: norms, routers, biases behind a split by rows."""
    model, tp = MODELS[name], 4
    one, each = on_stage(model, Layout(), 0), on_stage(model, Layout(tp=tp), 0)
    found = parts(model)
    whole = found["norms"] + found["last norm"] + found.get("router", 0) + 2 * model.layers * model.hidden * model.bias
    if model.kv_rank:  # what is compressed, and its norms
        compressed = model.q_rank + model.kv_rank
        whole += model.layers * (model.hidden * (compressed + model.rope) + compressed)
    whole += model.layers * 2 * model.head * model.qk_norm
    rows = model.hidden * (tp * -(-model.vocab // tp) - model.vocab)  # the vocabulary is rounded up
    assert tp * each.total - (tp - 1) * whole == one.total + rows


def test_experts_are_shared_out():
    model = MODELS["mixtral-8x7b"]
    one = on_stage(model, Layout(dp=8), 0)
    assert one.experts == parts(model)["experts"]
    eighth = on_stage(model, Layout(dp=8, ep=8), 0)
    assert (eighth.shared, eighth.experts) == (one.shared, one.experts // 8)
    assert Layout(dp=8, ep=8).expert_replicas == 1
    assert Layout(dp=4, cp=4, ep=8).expert_replicas == 2
    split = on_stage(model, Layout(dp=4, tp=4, ep=4, etp=1), 0)
    assert split.experts == one.experts // 4
    assert Layout(dp=4, tp=4, ep=4, etp=1).expert_replicas == 4


def test_more_ranks_than_groups_hold_copies():
    model = MODELS["llama3-8b"]  # 8 groups
    eight, sixteen = (on_stage(model, Layout(tp=tp), 0).total for tp in (8, 16))
    assert sixteen - eight / 2 > 0.5 * model.layers * 2 * model.head * model.hidden * 0.9


@pytest.mark.parametrize("parameters", [10**6, 125 * 10**6, 1_500_000_000, 70 * 10**9, 10**11, 10**12, 10**15])
def test_parameters_alone(parameters):
    model = of_parameters(parameters)
    assert total(model) == parameters
    assert on_stage(model, Layout(), 0).total == pytest.approx(parameters, rel=1e-6)
    shape = sum(number for name, number in parts(model).items() if name != "not in the shape")
    assert 0.6 < shape / parameters < 1.5


def test_numbers_change_a_model():
    longer = changed(MODELS["gpt2"], sequence=4096)
    assert total(longer) == COUNTED["gpt2"] + 3072 * 768
    deeper = changed(MODELS["gpt2"], layers=48, hidden=1600, heads=25)
    assert total(deeper) == COUNTED["gpt2-xl"]
    assert changed(MODELS["deepseek-v3"], layers=2).dense_layers == 1  # 3 of 61
    assert total(changed(MODELS["llama3-8b"], sequence=131072)) == COUNTED["llama3-8b"]


def test_names():
    assert find_model("Llama-3_70B") is MODELS["llama3-70b"]
    assert find_model("GPT3 175B") is MODELS["gpt3-175b"]
    with pytest.raises(ValueError, match=r"model 'llama3-71b' is unknown: use .*llama3-70b"):
        find_model("llama3-71b")


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"heads": 7}, "hidden=768 is not a multiple of heads=7: use hidden=770"),
        ({"kv_heads": 5}, "kv_heads=5 does not divide heads=12: use kv_heads=6"),
        ({"layers": 0}, "layers=0: use 1 to"),
        ({"layers": 10**9}, "layers=1000000000: use 1 to 10000"),
        ({"experts": 4, "top_k": 9}, "top_k=9: use 1 to experts=4"),
    ],
)
def test_shapes_that_no_model_has(numbers, sentence):
    with pytest.raises(ValueError, match=sentence):
        changed(MODELS["gpt2"], **numbers)
