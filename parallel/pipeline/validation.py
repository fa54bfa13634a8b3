"""``validate``: is a pipeline schedule right? If not, the sentence that says why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from collectives.errors import Kind, ScheduleError
from collectives.waits import Wait, find_cycle, in_words

from .schedule import Action, Backward, BackwardInput, BackwardWeight, Forward, PipelineSchedule, Step, counted
from .stages import Stages, Transfer
from .transfers import Exchange, Turn, with_transfers


def validate(schedule: PipelineSchedule, ranks: int, microbatches: int, chunks: int | None = None) -> None:
    """Check a schedule without running it. O(all actions).

    Every microbatch goes forward once through every chunk, and backward once, whole or in two halves, in that order;
    what a stage waits for is computed; no ranks wait for each other; the derived messages match, in order, and get
    through though no send is buffered.

    Raises:
        ValueError: impossible numbers, or (``ScheduleError``) what is wrong, where, and how to mend it.
    """
    stages = Stages(schedule, ranks, chunks)
    for rank in range(ranks):
        steps = schedule.steps(rank, ranks, microbatches, chunks)
        _check_rank(schedule, rank, steps, microbatches, stages.chunks)
    check_exchanges(with_transfers(schedule, ranks, microbatches, chunks), stages)


def _check_rank(schedule: PipelineSchedule, rank: int, steps: Sequence[Step], microbatches: int, chunks: int) -> None:
    """Everything once, and after what it needs on its own rank."""

    def wrong(kind: Kind, sentence: str, step: int | None = None) -> ScheduleError:
        where = f"rank {rank}" if step is None else f"rank {rank}, step {step}"
        return ScheduleError(f"{schedule}: {where}: {sentence}", kind, rank, step)

    every = {action for step in steps for action in step}
    seen: set[Action] = set()
    for number, step in enumerate(steps):
        for action in step:
            name = (action.microbatch, action.chunk)
            if not (0 <= action.microbatch < microbatches and 0 <= action.chunk < chunks):
                raise wrong(
                    "order",
                    f"{action} does not exist: there are {counted(microbatches, 'microbatch')}, "
                    f"{counted(chunks, 'chunk')}",
                    number,
                )
            if action in seen or step.count(action) > 1:
                raise wrong("duplicate", f"{action} comes a second time; leave one away", number)
            needs = BackwardInput(*name) if isinstance(action, BackwardWeight) else Forward(*name)
            if not isinstance(action, Forward) and needs in every and needs not in seen:
                raise wrong("order", f"{action} comes before {needs}; put it into a later step", number)
            if Backward(*name) in every and isinstance(action, (BackwardInput, BackwardWeight)):
                raise wrong("duplicate", f"{action} is a second backward; use Backward, or the two halves", number)
        seen.update(step)
    split = BackwardInput in {type(action) for action in every}
    for chunk in range(chunks):
        for i in range(microbatches):
            if Forward(i, chunk) not in seen:
                raise wrong("missing", f"{Forward(i, chunk)} is missing; add it")
            if Backward(i, chunk) not in seen and BackwardInput(i, chunk) not in seen:
                wanted = BackwardInput(i, chunk) if split or BackwardWeight(i, chunk) in seen else Backward(i, chunk)
                raise wrong("missing", f"{wanted} is missing; add it")
            if BackwardInput(i, chunk) in seen and BackwardWeight(i, chunk) not in seen:
                raise wrong("missing", f"{BackwardWeight(i, chunk)} is missing; add it after its BackwardInput")


def check_exchanges(turns: Sequence[Sequence[Turn]], stages: Stages) -> None:
    """Run sends and receives that wait for each other: do they match, do they get through, are they in time?

    Raises:
        ScheduleError: they do not.
    """
    _check_order(turns)
    at = [0] * len(turns)
    met: Counter[Transfer] = Counter()  # how many ends have come to their exchange
    open_ends: list[set[Transfer]] = [set() for _ in turns]
    received: list[set[Transfer]] = [set() for _ in turns]
    runnable = list(range(len(turns)))
    while runnable:
        rank = runnable.pop()
        while at[rank] < len(turns[rank]) and not open_ends[rank]:
            turn = turns[rank][at[rank]]
            if isinstance(turn, Exchange):
                open_ends[rank] = {*turn.sends, *turn.receives}
                for transfer in (*turn.sends, *turn.receives):
                    met[transfer] += 1
                    if met[transfer] == 2:
                        received[transfer.to].add(transfer)
                        for end in (transfer.source, transfer.to):
                            open_ends[end].discard(transfer)
                            if end != rank and not open_ends[end]:
                                at[end] += 1
                                runnable.append(end)
                if open_ends[rank]:
                    break
            else:
                _check_step(rank, turn, stages, received[rank])
            at[rank] += 1
    waits = {}
    for rank, transfers in enumerate(open_ends):
        if transfers:
            first = min(transfers)
            peer, verb = (first.to, "send") if first.source == rank else (first.source, "receive")
            waits[rank] = Wait(rank, peer, verb, at[rank])
    if waits:
        cycle = find_cycle(waits)
        rank = cycle[0].rank if cycle else min(waits)
        raise ScheduleError(f"deadlock of messages: {in_words(cycle or [waits[rank]])}", "deadlock", rank, at[rank])


def _check_step(rank: int, step: Step, stages: Stages, received: set[Transfer]) -> None:
    for action in step:
        needed = stages.takes(rank, action)
        if needed is not None and needed.source != rank and needed not in received:
            raise ScheduleError(f"rank {rank}: {action} runs before {needed} is received", "order", rank)


def _check_order(turns: Sequence[Sequence[Turn]]) -> None:
    """Messages from one rank to another are received in the order in which they are sent."""
    sent: defaultdict[tuple[int, int], list[Transfer]] = defaultdict(list)
    received: defaultdict[tuple[int, int], list[Transfer]] = defaultdict(list)
    for rank, program in enumerate(turns):
        for turn in program:
            if isinstance(turn, Exchange):
                for transfer in turn.sends:
                    sent[rank, transfer.to].append(transfer)
                for transfer in turn.receives:
                    received[transfer.source, rank].append(transfer)
    for pair in sent.keys() | received.keys():
        for number, (one, other) in enumerate(zip(sent[pair], received[pair], strict=False)):
            if one != other:
                raise ScheduleError(
                    f"message {number} from rank {pair[0]} to rank {pair[1]}: {one} is sent, {other} is received; "
                    "use the same order on both ends",
                    "order",
                    pair[1],
                )
        if len(sent[pair]) != len(received[pair]):
            raise ScheduleError(
                f"rank {pair[0]} sends {len(sent[pair])} messages to rank {pair[1]}, which receives "
                f"{len(received[pair])}; add what is missing",
                "missing",
                pair[1],
            )
