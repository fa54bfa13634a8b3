"""Operations, against nanoGPT's, Megatron-LM's, Chinchilla's and EleutherAI's figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.planner.flops import components, forward, palm, recomputed, six_nd, training
from sim.planner.models import MODELS
from sim.planner.parameters import active, total
from sim.planner.transformer import Transformer, changed, of_parameters

GPT2 = MODELS["gpt2"]


def test_gpt2_component_by_component():
    """karpathy/nanoGPT transformer_sizing.ipynb: batch 1, 1,024 tokens, one of twelve layers."""
    found = forward(GPT2)
    layer = {name: flops // 12 for name, flops in found.items() if name != "logits"}
    assert layer["qkv"] == 3_623_878_656
    assert layer["scores"] == layer["values"] == 1_610_612_736
    assert layer["projection"] == 1_207_959_552
    assert layer["dense"] == 4_831_838_208 + 4_831_838_208
    assert sum(layer.values()) == 17_716_740_096
    assert found["logits"] == 79_047_426_048
    assert sum(found.values()) == 291_648_307_200
    assert training(found) - sum(found.values()) == 583_296_614_400
    assert training(found) == 874_944_921_600


def test_palms_estimate():
    """The same notebook, whose model has no biases: 875,062,886,400, a ratio of 1.0001."""
    found = palm(replace(GPT2, bias=False), 1024)
    assert found == 875_062_886_400
    assert round(found / training(forward(GPT2)), 4) == 1.0001


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("megatron")])
def test_megatrons_formulas(name):
    """Narayanan et al. 2021, equation 3, with full recompute; without it Korthikanti et al. 2022, appendix A."""
    model, batch = MODELS[name], 24
    l, h, s, v = model.layers, model.hidden, model.sequence, model.vocab  # noqa: E741
    found = forward(model, batch)
    block = batch * s * l * h**2
    assert training(found) == pytest.approx(72 * block * (1 + s / (6 * h) + v / (12 * l * h)), rel=1e-12)
    hardware = training(found) + recomputed(found, "full")
    assert hardware == pytest.approx(96 * block * (1 + s / (6 * h) + v / (16 * l * h)), rel=1e-12)
    assert recomputed(found, "selective") == 4 * batch * s * s * h * l
    assert recomputed(found, "none") == 0


# Hoffmann et al. 2022, table A4: layers, width, MLP, heads, FLOPs over 6 N D as printed; and FLOPs of 2,048 tokens and
# N, as nanoGPT's scaling_laws.ipynb computes them, with relative positions among the parameters.
CHINCHILLA = [
    (10, 640, 2560, 10, 1.03, 9.298772e11, 73_825_280),
    (20, 1024, 4096, 16, 1.10, 4.135248e12, 305_707_008),
    (24, 1280, 5120, 10, 1.08, 7.353454e12, 552_604_160),
    (26, 1792, 7168, 14, 1.04, 1.467032e13, 1_143_453_696),
    (28, 2048, 8192, 16, 1.03, 2.022044e13, 1_593_126_912),
    (40, 3584, 14336, 28, 0.99, 8.302105e13, 6_796_274_688),
]


@pytest.mark.parametrize(("layers", "width", "ffn", "heads", "ratio", "flops", "n"), CHINCHILLA)
def test_chinchillas_table(layers, width, ffn, heads, ratio, flops, n):
    model = Transformer("chinchilla", layers, width, heads, ffn, 32000, 2048)
    found = training(forward(model, count="layers"))
    assert found == pytest.approx(flops, rel=1e-6)
    assert found / (6 * n * 2048) == pytest.approx(ratio, abs=0.01)


def test_chinchillas_text_gives_other_ratios():
    """With embeddings and logits counted as the text says, the ratios are not those of the table."""
    for row, ratio in ((CHINCHILLA[1], 1.32), (CHINCHILLA[2], 1.23), (CHINCHILLA[4], 1.11), (CHINCHILLA[5], 1.03)):
        layers, width, ffn, heads, _, _, n = row
        model = Transformer("chinchilla", layers, width, heads, ffn, 32000, 2048)
        assert training(forward(model, count="all")) / (6 * n * 2048) == pytest.approx(ratio, abs=0.006)
    assert components(model)["embeddings"] == 2 * 2048 * 32000 * 3584
    assert components(model)["softmax"] == 3 * 28 * 2048**2 * 40


def test_gpt3_of_the_cookbook():
    """EleutherAI's calculator, 300 B tokens with recompute, in zettaFLOPs: 429.44 in all, logits once."""
    model, tokens = changed(MODELS["gpt3-175b"], vocab=51200), 300 * 10**9
    found = {name: flops * tokens // model.sequence / 1e21 for name, flops in forward(model).items()}
    published = {"qkv": 104.37, "scores": 5.8, "values": 5.8, "projection": 34.79, "dense": 278.31}
    for name, value in published.items():
        assert 4 * found[name] == pytest.approx(value, abs=0.006)
    assert found["logits"] == pytest.approx(0.3775, abs=5e-5)
    assert 4 * sum(found[name] for name in published) + found["logits"] == pytest.approx(429.44, abs=0.006)


def test_llama_of_llm_foundry():
    """MosaicML's MFU: 3 (2 N s + 4 L d s²) for N that counts what multiplies."""
    model = MODELS["llama2-7b"]
    s, n = model.sequence, total(model) - model.vocab * model.hidden - 65 * model.hidden  # less the table, less norms
    assert training(forward(model)) == 3 * (2 * n * s + 4 * model.layers * model.hidden * s**2)


def test_causal_attention_is_half():
    full, causal = forward(GPT2), forward(GPT2, causal=True)
    assert (causal["scores"], causal["values"]) == (full["scores"] // 2, full["values"] // 2)
    assert {n: v for n, v in full.items() if n not in ("scores", "values")} == {
        n: v for n, v in causal.items() if n not in ("scores", "values")
    }


def test_six_n_d():
    """100 B × 1 T tokens = 6.0e23; 405 B × 15.6 T = 3.8e25."""
    assert six_nd(of_parameters(10**11), 10**12) == 6 * 10**23
    assert six_nd(MODELS["llama3.1-405b"], 15_600 * 10**9) == pytest.approx(3.8e25, rel=0.002)
    mixture = MODELS["mixtral-8x7b"]
    assert six_nd(mixture, 1) == 6 * active(mixture) == 6 * 12_879_925_248


def test_what_multiplies_is_counted_once():
    """Without attention, forward FLOPs are twice the parameters in matrices: mixtures and compressed attention too."""
    for name in ("mixtral-8x7b", "deepseek-v2", "qwen3-30b-a3b", "llama3-8b"):
        model = MODELS[name]
        found = forward(model, 1, 1)
        linear = sum(flops for part, flops in found.items() if part not in ("scores", "values"))
        norms = model.layers * 2 * model.hidden + model.hidden
        norms += model.layers * (model.q_rank + model.kv_rank + 2 * model.head * model.qk_norm)
        assert linear == 2 * (active(model) - model.vocab * model.hidden - norms)


def test_an_encoder_has_no_logits_unless_it_is_pretrained():
    assert forward(MODELS["bert-base"])["logits"] == 0
    assert forward(MODELS["bert-base-pretraining"])["logits"] == 2 * 512 * 768 * (30522 + 768)
