"""``Pipeline``: a schedule on real ranks. The same functions that the simulator reads, action by action.

    1F1B, p=2, m=2, on rank 0
    turn         exchange posted                 action            held after it
    F 0          ─▶ activation 0                 chunk(rows 0)     0: inputs, and where its graph ends
    F 1          ─▶ activation 1, ◀─ gradient 0  chunk(rows 1)     0 1
    B 0          ◀─ gradient 1                   backward of 0     1
    B 1                                          backward of 1     -      data-parallel mean, tied parameters

An action is one call of a chunk or of autograd. A stage keeps of a microbatch its inputs and the *edge* where its graph
ends, not the output: that goes as soon as it has been sent. Where a schedule cuts backwards in two, layers put off
their weight gradients (``deferred``). The two of an overlapped pair run one after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import collectives
from collectives.trace import Tape

from ..data import take_from_first
from ..deferred import Owed, defer
from ..loss import token_weight
from ..mesh import Mesh
from ..zero import Zero
from .arguments import check_arguments, check_meeting
from .chunk import Chunk
from .courier import Courier
from .microbatches import cut, rows, signature
from .post import Post
from .record import action_name
from .reduction import Reductions
from .schedule import Action, Backward, BackwardWeight, Forward, PipelineSchedule
from .schedules import find
from .stages import Stages
from .tied import Tied
from .transfers import Exchange, with_transfers


class Pipeline:
    """A model whose chunks are on the ranks of a group, trained a batch at a time.

    Args:
        chunks: this rank's modules, chunk 0 first (``splitting.split`` makes them; any will do). A chunk is called with
            what the stage before returned: a tensor, or a tuple of tensors as arguments.
        schedule: a name of ``schedules()``, ``FILE.py:name``, or a ``PipelineSchedule``.
        microbatches: pieces of the batch; if they do not divide its rows, the first ones are a row longer.
        loss: (output of the last stage, targets) → the sum of the losses, a scalar.
        count: targets → how many losses such a sum has (rows, by default): step divides once, by those of the batch.
        group: the ranks in the order of the stages: None (all), a process group, or a ``Mesh``: its axis pp, and along
            dp gradients are averaged.
        recompute: chunks (True: all) that keep their inputs only, and run a second time in the backward.
        tied: this rank's parameters, by name, of which other ranks of the pipeline hold copies: gradients are added.
        zero: of stage 1, around this rank's chunks: it averages along dp, in its own step.
        bucket_mb: MiB of gradients that travel together along dp; timeout: seconds that a wait for another rank may
            last, the group's own by default.

    Along dp, parameters and buffers become those of the first rank; tied copies become the first stage's.

    Attributes:
        module: all chunks; rank, size: in the pipeline; peak_activations: the most that this rank has held in a step,
            in microbatches of all its chunks: what the simulator predicts; tape: set one, and steps are recorded on it.

    Raises:
        ValueError: chunks, microbatches, schedule, zero or mesh that do not fit; or that differ between ranks.
    """

    def __init__(
        self,
        chunks: nn.Module | Sequence[nn.Module],
        schedule: str | PipelineSchedule,
        microbatches: int,
        loss: Callable[[Any, Any], Tensor],
        count: Callable[[Any], Tensor | int] = rows,
        group: dist.ProcessGroup | Mesh | None = None,
        recompute: bool | Collection[int] = False,
        tied: Mapping[str, nn.Parameter] | None = None,
        zero: Zero | None = None,
        bucket_mb: float = 25,
        timeout: float | None = None,
    ) -> None:
        self.schedule, self.microbatches = find(schedule), microbatches
        self.module = nn.ModuleList([chunks] if isinstance(chunks, nn.Module) else chunks)
        again = set(range(len(self.module)) if recompute is True else recompute or ())
        check_arguments(self.module, self.schedule, microbatches, again, zero, bucket_mb)
        self._loss, self._count, self.mesh = loss, count, group if isinstance(group, Mesh) else None
        self.data = self.mesh.group("dp") if self.mesh is not None and self.mesh.replicas > 1 else None
        self._post = Post(self.mesh.group("pp") if self.mesh is not None else group, timeout)  # type: ignore[arg-type]
        self._post.label, self._post.schedule = f"pipeline of {microbatches} microbatches", self.schedule.name
        self.rank, self.size = self._post.rank, self._post.size
        self._stages = Stages(self.schedule, self.size, len(self.module))
        self._turns = with_transfers(self.schedule, self.size, microbatches, len(self.module))[self.rank]
        tied = dict(tied or {})
        holders = check_meeting(self._post, self.schedule, microbatches, len(self.module), tied)
        self._tied = Tied(self._post, tied, holders)
        if self.data is not None and zero is None:
            take_from_first(self.module, self.data)
        self._tied.copy_first()
        self._chunks = self._made(again)
        self._courier = Courier(self._post, next((p.device for p in self.module.parameters()), torch.device("cpu")))
        reduced = self.data if zero is None else None
        self._reductions = Reductions(self.module, tied, bucket_mb * 2**20, reduced) if reduced is not None else None
        self._left: list[int] = []  # by chunk, microbatches whose weight gradients are to come
        self.tape: Tape | None = None
        self.peak_activations = 0.0

    def _made(self, recompute: set[int]) -> list[Chunk]:
        """The chunks; where the schedule cuts backwards in two, their layers put off weight gradients."""
        splits = any(isinstance(action, BackwardWeight) for action in self.actions())
        made, foreign = [], []
        for number, module in enumerate(self.module):
            owed: Owed | None = None
            if splits:
                owed, names = defer(module)
                foreign += names
            made.append(Chunk(module, number in recompute, owed))
        if foreign:
            warnings.warn(
                f"{self.schedule}: weight gradients of {', '.join(foreign[:3])}{' …' if len(foreign) > 3 else ''} are "
                "computed with the input gradients: only Linear, Embedding and norms, or a layer that is Deferring, "
                "can be cut in two",
                stacklevel=3,
            )
        return made

    @property
    def sent(self) -> int:
        """Bytes that this rank has sent to other stages so far."""
        return self._post.sent

    def actions(self) -> Iterator[Action]:
        """What this rank does in a step, in order."""
        return (action for turn in self._turns if not isinstance(turn, Exchange) for action in turn)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Of all chunks, each once."""
        return self.module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Each once, by its name in its chunk: in the chunks of ``split`` that is its name in the whole model."""
        seen = set[int]()
        for module in self.module:
            for name, parameter in module.named_parameters():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield name, parameter

    # A step.

    def step(self, inputs: Any, targets: Any = None) -> Tensor | None:
        """Forward and backward of a batch: gradients are in the parameters afterwards, averaged along dp.

        Args:
            inputs: this replica's rows, a tensor or a tuple of tensors, on every rank of the pipeline: the first stage
                computes with them, the others read their shapes (tensors on device ``meta`` will do).
            targets: for the last stage, with as many rows; ignored elsewhere.

        Returns:
            On the rank of the last stage this replica's part of the loss: the mean over dp of it is the mean over all
            that counts. None elsewhere; see ``mean_loss``.

        Raises:
            ValueError: a batch that cannot be cut, no targets, or none that counts.
            CollectiveError: another rank is gone, or has not come in time.
        """
        self._post.check()
        pieces = cut("inputs", inputs, self.microbatches)
        goals = self._goals(inputs, targets)
        weight = self._weight(goals) if goals else 0.0
        if self._reductions is not None:
            self._reductions.begin()
        self._courier.begin(signature(inputs))
        self._courier.tape = self.tape
        losses: list[Tensor] = []
        try:
            self._run(pieces, goals, weight, losses)
            self._tied.add_gradients()
            if self._reductions is not None:
                self._reductions.finish()
        except BaseException as error:
            self._post.give_up(error)
            self._courier.drop()
            for chunk in self._chunks:
                chunk.drop()
            raise
        return torch.stack(losses).sum() if losses else None

    def mean_loss(self, loss: Tensor | None) -> Tensor:
        """What ``step`` returned, as the mean over all that counts in the batch, on every rank; all ranks call it."""
        rank, _ = self._stages.home[-1]
        device = self._courier.device
        mean = torch.zeros((), dtype=torch.float64, device=device) if loss is None else loss.double()
        if loss is not None and self.data is not None:
            collectives.all_reduce(mean, dist.ReduceOp.AVG, self.data)
        collectives.broadcast(mean, group=self._post.group, group_src=rank)
        return mean

    def _goals(self, inputs: Any, targets: Any) -> list[Any]:
        """The targets of each microbatch, where the last stage is."""
        if self._stages.home[-1][0] != self.rank:
            return []
        if targets is None:
            raise ValueError("targets=None on the rank of the last stage, which computes the loss: give it the targets")
        if rows(targets) != rows(inputs):
            raise ValueError(f"targets has {rows(targets)} rows and inputs {rows(inputs)}: give both the same rows")
        return cut("targets", targets, self.microbatches)

    def _weight(self, goals: list[Any]) -> float:
        """What a sum of losses is multiplied with, so that the mean over dp is the mean over all that counts."""
        counts = [int(self._count(goal)) for goal in goals]
        if self.data is not None:
            return token_weight(counts, self.data)
        if not sum(counts):
            raise ValueError("targets: none of them counts, so there is no mean; leave such a batch out")
        return 1 / sum(counts)

    def _run(self, pieces: list[Any], goals: list[Any], weight: float, losses: list[Tensor]) -> None:
        """Turn by turn; before an action, the receives of the exchange after it are posted."""
        ahead = [turn for turn in self._turns if isinstance(turn, Exchange)][::-1]
        self._left, held, self.peak_activations = [self.microbatches] * len(self._chunks), 0, 0.0
        for place, turn in enumerate(self._turns):
            self._post.step = place
            if isinstance(turn, Exchange):
                ahead.pop()
                self._courier.exchange(turn)
                continue
            if ahead and self._post.streaming:
                self._courier.expect(ahead[-1].receives)
            held += sum(isinstance(action, Forward) for action in turn)
            self.peak_activations = max(self.peak_activations, held / len(self._chunks))
            for action in turn:
                if isinstance(action, Forward):
                    self._forward(action, pieces, goals, weight, losses)
                else:
                    self._backward(action)
            held -= sum(isinstance(action, (Backward, BackwardWeight)) for action in turn)
        self._courier.finish()

    def _forward(
        self, action: Forward, pieces: list[Any], goals: list[Any], weight: float, losses: list[Tensor]
    ) -> None:
        taken, given = self._stages.takes(self.rank, action), self._stages.gives(self.rank, action)
        piece = pieces[action.microbatch]
        inputs = (piece if isinstance(piece, tuple) else (piece,)) if taken is None else self._courier.take(taken)
        then = None
        if given is None:
            goal = goals[action.microbatch]
            then = lambda output: self._loss(output, goal) * weight  # noqa: E731
        outputs = self._timed(action, partial(self._chunks[action.chunk].forward, action.microbatch, inputs, then))
        if given is None:
            losses.append(outputs[0].detach())
        else:
            self._courier.give(given, outputs)

    def _backward(self, action: Action) -> None:
        """Backward, or one half of it. Whoever ends a chunk's last one lets its gradients go to the other replicas."""
        chunk = self._chunks[action.chunk]
        pays = isinstance(action, (Backward, BackwardWeight))
        complete = None
        if pays:
            self._left[action.chunk] -= 1
            if not self._left[action.chunk] and self._reductions is not None:
                complete = self._reductions.of(action.chunk).complete
        taken, given = self._stages.takes(self.rank, action), self._stages.gives(self.rank, action)
        gradients = self._courier.take(taken) if taken is not None else []

        def act() -> list[Tensor]:
            found = [] if isinstance(action, BackwardWeight) else chunk.backward(action.microbatch, gradients)
            if pays:
                chunk.pay(action.microbatch, complete)
            return found

        found = self._timed(action, act)
        if given is not None:
            self._courier.give(given, found)

    def _timed(self, action: Action, act: Callable[[], list[Tensor]]) -> list[Tensor]:
        return act() if self.tape is None else self.tape.timed(action_name(action, len(self._chunks)), act)
