"""A model cut into the stages of a pipeline, by layers.

    layers 0-6 on 4 virtual stages      stage 0            stage 1   stage 2   stage 3
    loop, 2 ranks, 2 chunks each        embedding 0        1 2       3 4       5 6 norm head
                                        rank 0 chunk 0     rank 1    rank 0    rank 1 chunk 1

Every stage has ⌊layers / stages⌋ blocks; what is left goes, one each, to those in the middle and then to the first: it
has the embedding besides, and the last has the head. (The planner counts the same.) Parameters keep the names that they
have in the whole model, so what is saved does not know of the cut.
"""

from __future__ import annotations

from typing import Protocol, cast

import torch
from torch import Tensor, nn

from ..clip import OWN
from .stages import Stages


class Splittable(Protocol):
    """What the models of this project have in common; positions, dropout: not all have them."""

    embedding: nn.Embedding
    blocks: nn.ModuleList
    head: nn.Linear

    @property
    def norm(self) -> nn.Module:
        """Before the head."""


def balanced(layers: int, stages: int) -> list[range]:
    """The layers of every stage.

    Raises:
        ValueError: fewer layers than stages.
    """
    if layers < stages:
        raise ValueError(
            f"the model has {layers} layers for {stages} stages (ranks times chunks): each needs at least one; "
            "use fewer ranks or chunks, or a deeper model"
        )
    base, more = divmod(layers, stages)
    middle = min(more, max(stages - 2, 0))
    sizes = [base + (1 <= i <= middle) + (i == 0 and more == stages - 1 > 0) for i in range(stages)]
    return [range(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(stages)]


class Stage(nn.Module):
    """Some blocks of a model; the first stage has the embeddings, too, and the last the norm and the head."""

    def __init__(self, model: Splittable, layers: range) -> None:
        super().__init__()
        self.layers = layers
        self.blocks = nn.ModuleDict({str(i): model.blocks[i] for i in layers})
        first, last = layers.start == 0, layers.stop == len(model.blocks)
        self.embedding = model.embedding if first else None
        self.positions = getattr(model, "positions", None) if first else None
        self.dropout = getattr(model, "dropout", None) if first else None
        self.norm = model.norm if last else None
        self.head = model.head if last else None

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (b, s) on the first stage, (b, s, h) elsewhere → (b, s, h), and logits (b, s, v) on the last.

        Raises:
            ValueError: a sequence longer than the table of positions.
        """
        if self.embedding is not None:
            x = self._embedded(x)
        for block in self.blocks.values():
            x = block(x)
        if self.head is not None and self.norm is not None:
            x = self.head(self.norm(x))
        return x

    def _embedded(self, tokens: Tensor) -> Tensor:
        assert self.embedding is not None
        x: Tensor = self.embedding(tokens)
        if self.positions is not None:
            length, most = tokens.shape[-1], self.positions.num_embeddings
            if length > most:
                raise ValueError(f"tokens has {length} places, but the model {most}: cut the sequence")
            x = x + self.positions(torch.arange(length, device=tokens.device))
        return x if self.dropout is None else self.dropout(x)


def split(model: Splittable, stages: Stages, rank: int) -> tuple[list[Stage], dict[str, nn.Parameter]]:
    """A rank's part of a model, which is taken apart: do not use it afterwards.

    Args:
        model: the whole one, the same on all ranks (one seed).
        stages: ``Stages(find("zbv"), ranks)`` says where each is.

    Returns:
        The chunks, and the tied parameters by name, as ``Pipeline`` takes them: where the head is the embedding and
        they are on two ranks, each has a copy. Its attribute ``split_over`` tells ``clip_grad_norm_`` to count one.

    Raises:
        ValueError: fewer layers than stages.
    """
    cut = balanced(len(model.blocks), stages.count)
    embedding, head = cast(nn.Parameter, model.embedding.weight), model.head
    first, last = stages.home[0][0], stages.home[-1][0]
    tied = head.weight is embedding and first != last
    chunks = [Stage(model, cut[stage]) for stage in stages.stage[rank]]
    if not tied or rank not in (first, last):
        return chunks, {}
    copy = nn.Parameter(embedding.detach().clone(), embedding.requires_grad) if rank == last else embedding
    vars(copy).update(vars(embedding))  # how tensor-parallel ranks share it
    head.weight = copy
    copy.split_over = tuple(axis for axis in getattr(copy, "split_over", OWN) if axis != "pp")  # type: ignore[attr-defined]
    return chunks, {"embedding.weight": copy}
