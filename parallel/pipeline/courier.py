"""What a rank of a pipeline hands on and is handed, in the exchanges that ``transfers`` derives.

    first step with a batch of some shape     every activation is preceded by a word: shapes, dtypes, and which of its
                                              tensors need a gradient; both ends keep it
    later steps                               no words; a receive is posted before the step that runs while it arrives
    gradients                                 of the tensors that need one: no words needed; if none does, no message

On NCCL an exchange is one batch, posted where it stands in the program. On gloo nothing can be blocked by a receive, so
those of an exchange are posted a step early, and what was sent is waited for two exchanges later: then its memory goes,
and there the span of a recorded send ends.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from collectives.trace import Tape

from .microbatches import Signature
from .post import Handles, Post
from .record import end_of
from .stages import Transfer
from .transfers import Exchange

SENDS_KEPT = 2  # exchanges whose sends may still be under way


class Part(NamedTuple):
    """One tensor of an activation."""

    shape: tuple[int, ...]
    dtype: str
    differentiable: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Part:
        return cls(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.requires_grad)

    def room(self, device: torch.device) -> Tensor:
        return torch.empty(self.shape, dtype=getattr(torch, self.dtype), device=device)


Form: TypeAlias = tuple[Part, ...]


class Parcel(NamedTuple):
    """A message under way: its tensors, what to wait for, since when."""

    transfer: Transfer
    tensors: list[Tensor]
    works: Handles
    began: float

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)


class Courier:
    """Carries activations and gradients between the stages.

    Args:
        post: the way to the other ranks; device: where received tensors shall be.

    Attributes:
        tape: where each message is recorded, if anywhere.
    """

    def __init__(self, post: Post, device: torch.device) -> None:
        self._post, self.device = post, device
        self.tape: Tape | None = None
        self._known: dict[Signature, dict[tuple[int, int], Form]] = {}
        self._forms: dict[tuple[int, int], Form] = {}  # by microbatch, and the stage that the activation is for
        self._handshake = 0
        self._leaving: dict[Transfer, list[Tensor]] = {}
        self._arriving: dict[Transfer, Parcel] = {}
        self._here: dict[Transfer, list[Tensor]] = {}
        self._sent: deque[list[Parcel]] = deque()

    def begin(self, signature: Signature) -> None:
        """A step begins, with a batch of this signature, the same on all ranks."""
        if signature not in self._known:
            self._handshake += 1
        self._forms = self._known.setdefault(signature, {})

    # Engine's side.

    def give(self, transfer: Transfer, tensors: Sequence[Tensor]) -> None:
        """Hand on: at once on one rank, else with the exchange that it belongs to."""
        whole = [tensor.detach() for tensor in tensors]
        if transfer.kind == "activation":
            self._note(transfer, tuple(Part.of(tensor) for tensor in tensors))
        if transfer.source == transfer.to:
            self._here[transfer] = whole
        else:
            self._leaving[transfer] = [tensor.contiguous() for tensor in whole]

    def take(self, transfer: Transfer) -> list[Tensor]:
        """What was handed on: fresh tensors; those of an activation require a gradient where one is needed."""
        if transfer.source == transfer.to:
            tensors = self._here.pop(transfer)
        else:
            parcel = self._arriving.pop(transfer)
            self._post.wait(parcel.works, parcel.nbytes, "receive", _name(transfer), transfer.source)
            self._record(parcel, "recv")
            tensors = parcel.tensors
        if transfer.kind == "activation":
            for tensor, part in zip(tensors, self._form(transfer), strict=True):
                tensor.requires_grad_(part.differentiable)
        return tensors

    def exchange(self, exchange: Exchange) -> None:
        """Post what the exchange sends, and what it receives unless that has been posted early."""
        leaving = [(transfer, self._leaving.pop(transfer)) for transfer in exchange.sends]
        if self._post.streaming:
            sent = []
            for transfer, tensors in leaving:
                began = time.monotonic()
                sent.append(Parcel(transfer, tensors, self._post.send(tensors, transfer.to, _name(transfer)), began))
            for transfer in exchange.receives:
                self._learn(transfer)
            self.expect(exchange.receives)
        else:
            sent = self._batched(leaving, exchange.receives)
        self._sent.append(sent)
        if self._post.streaming:
            self._settle(SENDS_KEPT)

    def expect(self, transfers: Iterable[Transfer]) -> None:
        """Post these receives now, where it is known what comes; gloo only."""
        for transfer in transfers:
            if transfer not in self._arriving and self._is_known(transfer):
                rooms = [part.room(self.device) for part in self._parts(transfer)]
                began = time.monotonic()
                works = self._post.receive(rooms, transfer.source, _name(transfer))
                self._arriving[transfer] = Parcel(transfer, rooms, works, began)

    def finish(self) -> None:
        """Wait until everything has left."""
        self._settle(0)

    def drop(self) -> None:
        """Forget what is under way: the step has failed."""
        self._leaving.clear()
        self._here.clear()

    # Messages.

    def _batched(self, leaving: Sequence[tuple[Transfer, list[Tensor]]], receives: Sequence[Transfer]) -> list[Parcel]:
        for transfer in receives:
            self._learn(transfer)
        rooms = {transfer: [part.room(self.device) for part in self._parts(transfer)] for transfer in receives}
        sends = [(tensor, transfer.to) for transfer, tensors in leaving for tensor in tensors]
        began = time.monotonic()
        works = self._post.batch(sends, [(room, t.source) for t, tensors in rooms.items() for room in tensors])
        self._arriving |= {t: Parcel(t, tensors, works, began) for t, tensors in rooms.items()}
        return [Parcel(transfer, tensors, works, began) for transfer, tensors in leaving]

    def _settle(self, kept: int) -> None:
        while len(self._sent) > kept:
            for parcel in self._sent.popleft():
                self._post.wait(parcel.works, parcel.nbytes, "send", _name(parcel.transfer), parcel.transfer.to)
                self._record(parcel, "send")

    def _record(self, parcel: Parcel, stream: str) -> None:
        if self.tape is not None and parcel.works:
            ends = {end: self._post.everywhere[getattr(parcel.transfer, end)] for end in ("source", "to")}
            transfer = parcel.transfer._replace(**ends)
            label = f"{self.tape.label}, {transfer.source}->{transfer.to}, "
            self.tape.spans.append(end_of(transfer, stream, parcel.began, time.monotonic(), parcel.nbytes, label))

    # What messages look like.

    def _form(self, transfer: Transfer) -> Form:
        """Of the activation itself, or of the one that the gradient is of."""
        return self._forms[_place(transfer)]

    def _is_known(self, transfer: Transfer) -> bool:
        return _place(transfer) in self._forms

    def _parts(self, transfer: Transfer) -> Form:
        """The tensors of a message: of a gradient, those that need one."""
        form = self._form(transfer)
        return form if transfer.kind == "activation" else tuple(part for part in form if part.differentiable)

    def _note(self, transfer: Transfer, form: Form) -> None:
        """Tell the receiver what comes, the first time; later it must be the same.

        Raises:
            ValueError: a stage's output is not what it was for a batch of the same shape.
        """
        place = _place(transfer)
        if place not in self._forms:
            self._forms[place] = form
            if transfer.source != transfer.to:
                self._post.say(self._key(transfer), form)
        elif self._forms[place] != form:
            raise ValueError(
                f"stage {transfer.stage - 1} gave {_words(form)} for microbatch {transfer.microbatch}, and "
                f"{_words(self._forms[place])} in an earlier step with a batch of the same shape: let it depend on the "
                "shape alone, or make a new Pipeline after freezing parameters"
            )

    def _learn(self, transfer: Transfer) -> None:
        if not self._is_known(transfer):  # of gradients it is: their activation has left from here
            said = self._post.hear(self._key(transfer), transfer.source, f"the shapes of {transfer}")
            self._forms[_place(transfer)] = tuple(Part(tuple(shape), dtype, flag) for shape, dtype, flag in said)

    def _key(self, transfer: Transfer) -> str:
        return f"{self._handshake}/{transfer.microbatch}/{transfer.stage}"


def _place(transfer: Transfer) -> tuple[int, int]:
    return transfer.microbatch, transfer.stage + (transfer.kind == "gradient")


def _name(transfer: Transfer) -> str:
    return str(transfer)


def _words(form: Form) -> str:
    each = [f"{'×'.join(map(str, part.shape)) or 'a scalar'} {part.dtype}" for part in form]
    return " and ".join(
        word if part.differentiable else f"{word} without gradient" for word, part in zip(each, form, strict=True)
    )
