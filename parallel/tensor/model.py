"""A whole model shared: its parts become their parallel twins, its own code stays as it is.

    part                        twin                      with sequence parallelism
    embedding                   VocabParallelEmbedding    the same
    positions                                             SequenceEmbedding
    dropout                                               ForkedDropout
    norms                                                 SequenceLayerNorm, SequenceRMSNorm
    attention                   ParallelAttention         the same
    mlp                         ParallelMLP, …GatedMLP    the same
    head                        ColumnParallelLinear      the same

Names and values are those of the plain model, so the state of one can be cut for the other.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

import collectives

from ..attention import Attention
from ..data import take_from_first
from ..llama import GatedMLP, Llama
from ..model import GPT, MLP
from .attention import ParallelAttention
from .dropout import ForkedDropout
from .embedding import VocabParallelEmbedding
from .linear import ColumnParallelLinear
from .mlp import ParallelGatedMLP, ParallelMLP
from .ranks import TensorParallel
from .sequence import SequenceEmbedding, SequenceLayerNorm, SequenceRMSNorm
from .split import split_of


def parallelize_(model: GPT | Llama, tp: TensorParallel) -> GPT | Llama:
    """Share a model, in place: afterwards this rank has its slices only.

    Args:
        model: of one shape on all ranks; the values are those of the group's rank 0, whatever the seeds were.
        tp: who shares it, and how.

    Returns:
        The model. Its logits are this rank's columns, (b, s, v/t), for ``vocab_parallel_cross_entropy``.

    Raises:
        ValueError: heads or a width that the ranks do not divide; the model is as it was.
    """
    take_from_first(model, tp.group)
    tied = model.head.weight is model.embedding.weight
    twins = {name: twin for name, part in model.named_modules() if (twin := _twin(name, part, tp)) is not None}
    for name, twin in twins.items():
        model.set_submodule(name, twin)
    if tied:
        model.head.weight = model.embedding.weight
    return model


def _twin(name: str, part: nn.Module, tp: TensorParallel) -> nn.Module | None:
    """What takes a part's place; None: it stays."""
    if isinstance(part, Attention):
        return ParallelAttention(part, tp)
    if isinstance(part, MLP):
        return ParallelMLP(part, tp)
    if isinstance(part, GatedMLP):
        return ParallelGatedMLP(part, tp)
    if isinstance(part, nn.Embedding) and name == "embedding":
        return VocabParallelEmbedding(part, tp)
    if isinstance(part, nn.Linear) and name == "head":
        return ColumnParallelLinear(part, tp, padded=True)
    if not tp.sequence:
        return None
    if isinstance(part, nn.Embedding):
        return SequenceEmbedding(part, tp)
    if isinstance(part, nn.Dropout):
        return ForkedDropout(part, tp)
    if isinstance(part, nn.LayerNorm):
        return SequenceLayerNorm(part, tp)
    return SequenceRMSNorm(part, tp) if isinstance(part, nn.RMSNorm) else None


def whole_state(model: nn.Module, tp: TensorParallel) -> dict[str, Tensor]:
    """Every parameter whole, by name, on every rank; all ranks of the group call it."""
    return {name: whole(parameter, parameter, tp) for name, parameter in model.named_parameters()}


def whole(tensor: Tensor, parameter: nn.Parameter, tp: TensorParallel) -> Tensor:
    """What all ranks' ``tensor`` is together, if it is shared like ``parameter``: a gradient, say."""
    split, own = split_of(parameter), tensor.detach().contiguous()
    if split is None:
        return own.clone()
    shares = [torch.empty_like(own) for _ in range(tp.size)]
    collectives.all_gather(shares, own, tp.group)
    return split.join(shares)


@torch.no_grad()
def load_whole_(model: nn.Module, state: Mapping[str, Tensor], tp: TensorParallel) -> None:
    """Every parameter becomes this rank's slice of the whole tensor of its name.

    Raises:
        ValueError: a name is missing or too much, or a shape is another.
    """
    known = dict(model.named_parameters())
    if known.keys() != state.keys():
        differ = sorted(known.keys() ^ state.keys())
        raise ValueError(f"state: {', '.join(differ[:3])} is only in it or only in the model; load the same model")
    for name, parameter in known.items():
        split = split_of(parameter)
        own = state[name] if split is None else split.share(state[name], tp.rank, tp.size)
        if own.shape != parameter.shape:
            raise ValueError(f"state: {name} is {tuple(own.shape)} here, not {tuple(parameter.shape)}: another model")
        parameter.copy_(own)
