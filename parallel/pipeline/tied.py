"""Parameters that several stages hold, such as the embedding that is the head, too: equal, because gradients are added.

rank 0   embedding   gradient g0 ──┐┌── g0 + g3
                                   ╳                  all holders add in the order of the ranks, so bit by bit alike
rank 3   head        gradient g3 ──┘└── g0 + g3
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .post import Post


class Tied:
    """This rank's copies of tied parameters.

    Args:
        parameters: by name; holders: the ranks that have each, the same on all of them, two at least.
    """

    def __init__(self, post: Post, parameters: dict[str, nn.Parameter], holders: dict[str, list[int]]) -> None:
        self._post = post
        self.parameters = {name: parameters[name] for name in sorted(parameters)}
        self._holders = holders

    @torch.no_grad()
    def copy_first(self) -> None:
        """All become what the first holder has."""
        for name, parameter in self.parameters.items():
            parameter.copy_(self._of_all(name, parameter)[0])

    @torch.no_grad()
    def add_gradients(self) -> None:
        """Every copy's gradient becomes the sum of all; a copy that was not used counts as zero."""
        for name, parameter in self.parameters.items():
            if parameter.requires_grad:
                own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                first, *others = self._of_all(name, own)
                parameter.grad = sum(others, start=first.clone())

    def _of_all(self, name: str, own: Tensor) -> list[Tensor]:
        """What each holder has, in the order of the ranks."""
        rank, holders = self._post.rank, self._holders[name]
        rooms = {peer: torch.empty_like(own, memory_format=torch.contiguous_format) for peer in holders if peer != rank}
        self._post.trade(own.contiguous(), rooms, f"the tied {name}")
        return [own if peer == rank else rooms[peer] for peer in holders]
