"""Models by name. The numbers are those of the papers, or of the published configurations where these differ.

GPT-2: Radford et al. 2019 and its published configurations. GPT-3: Brown et al. 2020, table 2.1 (its 13B has heads that
do not fill the width; 5,120 is the multiple of 128 that is meant), on GPT-2's vocabulary. OPT: Zhang et al. 2022.
Llama: Touvron et al. 2023 (two papers); Llama 3: Grattafiori et al. 2024, table 3. BERT: Devlin et al. 2019. Mistral,
Mixtral: Jiang et al. 2023, 2024. DeepSeek-V2, V3: 2024, without V3's layer for a second next token. Qwen3: 2025.
Megatron: Narayanan et al. 2021, table 1; its 22B and MT-NLG: Korthikanti et al. 2022, table 2, Smith et al. 2022.
tiny, small, 25m, llama-tiny, llama-small: what ``python -m parallel`` trains.
"""

from __future__ import annotations

import difflib
from dataclasses import replace

from .transformer import Transformer


def _gpt(name: str, layers: int, hidden: int, heads: int, sequence: int = 1024, vocab: int = 50257) -> Transformer:
    return Transformer(name, layers, hidden, heads, 4 * hidden, vocab, sequence, positions=sequence)


def _llama(
    name: str, layers: int, hidden: int, heads: int, ffn: int, vocab: int = 32000, sequence: int = 4096, **more: object
) -> Transformer:
    style = {"gated": True, "bias": False, "dropout": False, "output": "untied", **more}
    return Transformer(name, layers, hidden, heads, ffn, vocab, sequence, **style)  # type: ignore[arg-type]


def _megatron(size: str, layers: int, hidden: int, heads: int) -> Transformer:
    return _gpt(f"megatron-{size}", layers, hidden, heads, 2048, 51200)


def _bert(name: str, layers: int, hidden: int, heads: int, masked: bool) -> Transformer:
    output = "masked" if masked else "pooler"
    return Transformer(name, layers, hidden, heads, 4 * hidden, 30522, 512, positions=512, output=output)  # type: ignore[arg-type]


def _own(name: str, layers: int, hidden: int, heads: int, sequence: int) -> Transformer:
    """On bytes, without dropout."""
    return replace(_gpt(name, layers, hidden, heads, sequence, 256), dropout=False)


def _deepseek(
    name: str,
    layers: int,
    hidden: int,
    ffn: int,
    vocab: int,
    experts: int,
    top_k: int,
    wide: int,
    shared: int,
    dense: int,
) -> Transformer:
    return _llama(
        name, layers, hidden, 128, ffn, vocab, head=128, experts=experts, top_k=top_k, expert_ffn=wide,
        shared_ffn=shared, dense_layers=dense, kv_rank=512, q_rank=1536, rope=64,
    )  # fmt: skip


MODELS: dict[str, Transformer] = {
    model.name: model
    for model in (
        _gpt("gpt2", 12, 768, 12),
        _gpt("gpt2-medium", 24, 1024, 16),
        _gpt("gpt2-large", 36, 1280, 20),
        _gpt("gpt2-xl", 48, 1600, 25),
        _gpt("gpt3-2.7b", 32, 2560, 32, 2048),
        _gpt("gpt3-6.7b", 32, 4096, 32, 2048),
        _gpt("gpt3-13b", 40, 5120, 40, 2048),
        _gpt("gpt3-175b", 96, 12288, 96, 2048),
        Transformer("opt-125m", 12, 768, 12, 3072, 50272, 2048, positions=2050),
        Transformer("opt-175b", 96, 12288, 96, 49152, 50272, 2048, positions=2050),
        _llama("llama-7b", 32, 4096, 32, 11008, sequence=2048),
        _llama("llama-13b", 40, 5120, 40, 13824, sequence=2048),
        _llama("llama-30b", 60, 6656, 52, 17920, sequence=2048),
        _llama("llama-65b", 80, 8192, 64, 22016, sequence=2048),
        _llama("llama2-7b", 32, 4096, 32, 11008),
        _llama("llama2-13b", 40, 5120, 40, 13824),
        _llama("llama2-70b", 80, 8192, 64, 28672, kv_heads=8),
        _llama("llama3-8b", 32, 4096, 32, 14336, 128256, 8192, kv_heads=8),
        _llama("llama3-70b", 80, 8192, 64, 28672, 128256, 8192, kv_heads=8),
        _llama("llama3.1-8b", 32, 4096, 32, 14336, 128256, 8192, kv_heads=8),
        _llama("llama3.1-70b", 80, 8192, 64, 28672, 128256, 8192, kv_heads=8),
        _llama("llama3.1-405b", 126, 16384, 128, 53248, 128256, 8192, kv_heads=8),
        _llama("llama3.2-1b", 16, 2048, 32, 8192, 128256, 8192, kv_heads=8, output="tied"),
        _llama("llama3.2-3b", 28, 3072, 24, 8192, 128256, 8192, kv_heads=8, output="tied"),
        _llama("mistral-7b", 32, 4096, 32, 14336, 32000, 8192, kv_heads=8),
        _llama("mixtral-8x7b", 32, 4096, 32, 14336, 32000, kv_heads=8, experts=8, top_k=2),
        _llama("mixtral-8x22b", 56, 6144, 48, 16384, 32768, kv_heads=8, experts=8, top_k=2),
        _deepseek("deepseek-v2", 60, 5120, 12288, 102400, 160, 6, 1536, 3072, 1),
        _deepseek("deepseek-v3", 61, 7168, 18432, 129280, 256, 8, 2048, 2048, 3),
        _llama("qwen3-30b-a3b", 48, 2048, 32, 6144, 151936, kv_heads=4, head=128, qk_norm=True, experts=128, top_k=8,
               expert_ffn=768),
        _llama("qwen3-235b-a22b", 94, 4096, 64, 12288, 151936, kv_heads=4, head=128, qk_norm=True, experts=128, top_k=8,
               expert_ffn=1536),
        _bert("bert-base", 12, 768, 12, False),
        _bert("bert-large", 24, 1024, 16, False),
        _bert("bert-base-pretraining", 12, 768, 12, True),
        _bert("bert-large-pretraining", 24, 1024, 16, True),
        _megatron("1.7b", 24, 2304, 24),
        _megatron("3.6b", 30, 3072, 32),
        _megatron("7.5b", 36, 4096, 32),
        _megatron("18.4b", 40, 6144, 48),
        _megatron("22b", 48, 6144, 64),
        _megatron("39.1b", 48, 8192, 64),
        _megatron("76.1b", 60, 10240, 80),
        _megatron("145.6b", 80, 12288, 96),
        _megatron("310.1b", 96, 16384, 128),
        _megatron("529.6b", 105, 20480, 128),
        _megatron("1008b", 128, 25600, 160),
        _gpt("mt-nlg-530b", 105, 20480, 128, 2048, 51200),
        _own("tiny", 2, 32, 4, 64),
        _own("small", 4, 128, 4, 128),
        _own("25m", 8, 512, 8, 256),
        _llama("llama-tiny", 2, 32, 4, 88, 256, 64, kv_heads=2),
        _llama("llama-small", 4, 128, 4, 344, 256, 128, kv_heads=2),
    )
}  # fmt: skip


def find_model(text: str) -> Transformer:
    """The model of that name; case, dashes and underscores do not matter.

    Raises:
        ValueError: none of that name; the nearest are listed.
    """
    plain = {_plain(name): model for name, model in MODELS.items()}
    if _plain(text) in plain:
        return plain[_plain(text)]
    near = difflib.get_close_matches(_plain(text), plain, n=3, cutoff=0.5)
    names = [plain[name].name for name in near] or list(MODELS)
    raise ValueError(
        f"model {text!r} is unknown: use {', '.join(names)}, or describe it with --layers, --hidden, --heads"
    )


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == ".")
