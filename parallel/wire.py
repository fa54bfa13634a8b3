"""How a bucket of gradients crosses the wire: as it is, or in fewer bits with error feedback.

A ring that added fp16 numbers would round at every hop. Instead every gradient is rounded twice, whatever the ranks:

    rank r   gradient ─ + error ─ encode ─▶ part 0 │ part 1 │ … ──── all-to-all ───▶ part r of every rank
                           ▲         │                                              decode, add in fp32
                           └─ lost ──┘                                                        │
              sum ◀─ decode ◀──────────── all-gather ──────────── encode ─ + error ◀──────────┘
                                                                     └─ lost ─▲

Error feedback: what rounding took away is added to the next step's gradient, so nothing is lost for good. All that was
delivered up to any step differs from the exact sum by what the errors hold, at most half a rounding step a rank.

A parameter that a rank has not used sends NOTHING = −0.0. As x + −0.0 = x for every x, and only −0.0 + −0.0 is −0.0,
the sum itself tells whether any rank has used it, at no cost. Rounding must not make a −0.0 of another number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.distributed as dist

import collectives
from collectives.buffers import Handle

NOTHING = -0.0
WIRES = ("fp16", "bf16", "int8")


def is_nothing(x: torch.Tensor) -> torch.Tensor:
    """Where ``x`` is −0.0."""
    return (x == 0) & torch.signbit(x.real)


class Codec(Protocol):
    """Numbers as messages and back."""

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """A flat float tensor as one message: a flat tensor of whatever dtype it crosses the wire in."""

    def decode(self, message: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """The message of a tensor like ``like``, in its shape and dtype."""

    def room(self, elements: int, device: torch.device) -> torch.Tensor:
        """An empty message for so many elements."""


class Cast:
    """fp16 or bf16: 2 bytes an element. Beyond 65504 fp16 is infinite, and seen to be; bf16 has the range of fp32."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        rounded = x.to(self.dtype)
        return torch.where(x == 0, rounded, rounded + 0.0)

    def decode(self, message: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return message.to(like.dtype)

    def room(self, elements: int, device: torch.device) -> torch.Tensor:
        return torch.empty(elements, dtype=self.dtype, device=device)


class Blocks:
    """int8 with one fp32 scale a block: 1 + 4/block bytes an element, off by at most max|block| / 254.

    The message is the scales' bytes, then the codes: −127 … 127, and −128 for NOTHING. A block with a NaN or an
    infinity comes out as NaN, for nothing may hide that.
    """

    def __init__(self, block: int = 128) -> None:
        self.block = block

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        blocks = -(-x.numel() // self.block)
        padded = x.new_zeros(blocks * self.block)
        padded[: x.numel()] = x
        rows = padded.view(blocks, self.block)
        scale = rows.abs().amax(dim=1, keepdim=True).float() / 127
        codes = (rows / scale.clamp(min=torch.finfo(torch.float32).tiny)).nan_to_num(0.0, 0.0, 0.0).round()
        codes = torch.where(is_nothing(rows), -128.0, codes.clamp(-127, 127)).to(torch.int8)
        return torch.cat([scale.view(-1).view(torch.uint8), codes.view(-1)[: x.numel()].view(torch.uint8)])

    def decode(self, message: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        elements = like.numel()
        blocks = -(-elements // self.block)
        scale = message[: 4 * blocks].view(torch.float32).repeat_interleave(self.block)[:elements]
        codes = message[4 * blocks :].view(torch.int8)
        return torch.where(codes == -128, NOTHING, codes * scale).to(like.dtype)

    def room(self, elements: int, device: torch.device) -> torch.Tensor:
        return torch.empty(elements + 4 * -(-elements // self.block), dtype=torch.uint8, device=device)


def codec_of(wire: str) -> Codec:
    """The codec of a name in ``WIRES``.

    Raises:
        ValueError: another name.
    """
    if wire not in WIRES:
        raise ValueError(f"wire={wire!r}: give one of {', '.join(WIRES)}, or None for the gradients' own dtype")
    return Blocks() if wire == "int8" else Cast(torch.float16 if wire == "fp16" else torch.bfloat16)


class Transfer(Protocol):
    """One bucket's sum over ranks, in place and in the background; every rank calls the three in the same order.

    held: tensors that it keeps from step to step.
    """

    held: list[torch.Tensor]

    def start(self) -> None: ...

    def advance(self) -> None:
        """Issue what follows on the first exchange, if something does and has not been issued."""

    def finish(self, places: Sequence[int]) -> list[bool]:
        """Wait; whether no rank has sent anything at each of these places (offsets into the bucket)."""


class Exact:
    """In the gradients' own dtype, by a ring: whatever a bucket's size, nothing sends less."""

    def __init__(self, flat: torch.Tensor, group: dist.ProcessGroup | None) -> None:
        self.flat, self.group = flat, group
        self.held: list[torch.Tensor] = []
        picked = collectives.choose("all_reduce", flat.nbytes, group)
        self._algorithm = picked if picked.startswith("ring") else "ring"
        self._handle: Handle = None

    def start(self) -> None:
        self._handle = collectives.all_reduce(self.flat, group=self.group, async_op=True, algorithm=self._algorithm)

    def advance(self) -> None:
        pass

    def finish(self, places: Sequence[int]) -> list[bool]:
        wait(self._handle)
        return [bool(is_nothing(self.flat[place])) for place in places]


class Rounded:
    """In fewer bits, with the errors of both roundings kept for the next step.

    sent_error: per element of the bucket; sum_error: per element of the part that this rank adds up.
    """

    def __init__(self, flat: torch.Tensor, group: dist.ProcessGroup | None, codec: Codec) -> None:
        self.flat, self.group, self.codec = flat, group, codec
        self.ranks, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.parts = flat.tensor_split(self.ranks)
        wide = torch.promote_types(flat.dtype, torch.float32)
        self.sent_error = torch.zeros_like(flat, dtype=wide)
        self.sum_error = torch.zeros_like(self.parts[self.rank], dtype=wide)
        self.held = [self.sent_error, self.sum_error]
        self._received: list[torch.Tensor] = []
        self._handle: Handle = None
        self._phase = 0

    def start(self) -> None:
        sent = zip(self.parts, self.sent_error.tensor_split(self.ranks), strict=True)
        messages = [self._encode(part, error) for part, error in sent]
        self._received = [torch.empty_like(messages[self.rank]) for _ in range(self.ranks)]
        self._handle = collectives.all_to_all(self._received, messages, group=self.group, async_op=True)
        self._phase = 1

    def advance(self) -> None:
        if self._phase != 1:
            return
        wait(self._handle)
        first, *others = (self.codec.decode(message, self.sum_error) for message in self._received)
        total = first
        for other in others:
            total = total + other
        message = self._encode(total, self.sum_error)
        self._received = [self.codec.room(part.numel(), part.device) for part in self.parts]
        self._handle = collectives.all_gather(self._received, message, group=self.group, async_op=True)
        self._phase = 2

    def finish(self, places: Sequence[int]) -> list[bool]:
        self.advance()
        wait(self._handle)
        for part, message in zip(self.parts, self._received, strict=True):
            part.copy_(self.codec.decode(message, part))
        self._phase, self._received = 0, []
        return [bool(is_nothing(self.flat[place])) for place in places]

    def _encode(self, values: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        """The message of ``values`` and what was lost before; ``error`` becomes what this one loses."""
        nothing = is_nothing(values)
        wanted = torch.where(nothing, values.to(error.dtype), values + error)
        message = self.codec.encode(wanted)
        lost = (wanted - self.codec.decode(message, wanted)).nan_to_num_(0.0, 0.0, 0.0)  # of an infinity: nothing
        error.copy_(torch.where(nothing, error, lost))
        return message


def transfer_of(flat: torch.Tensor, group: dist.ProcessGroup | None, wire: str | None) -> Transfer:
    """How the bucket ``flat`` will cross the wire; one rank alone sends nothing, and so rounds nothing."""
    if wire is None or dist.get_world_size(group) == 1:
        return Exact(flat, group)
    return Rounded(flat, group, codec_of(wire))


def wait(handle: Handle) -> None:
    if handle is not None:
        handle.wait()
