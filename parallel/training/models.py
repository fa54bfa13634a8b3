"""The models that can be trained, by name, as one process has them."""

from __future__ import annotations

from ..llama import LLAMAS, Llama, LlamaConfig
from ..model import GPT, SIZES, Config

Model = GPT | Llama
MODELS: dict[str, Config | LlamaConfig] = {**SIZES, **LLAMAS}


def build(config: Config | LlamaConfig) -> Model:
    """A model of that shape; torch's generator decides about its weights."""
    return GPT(config) if isinstance(config, Config) else Llama(config)
