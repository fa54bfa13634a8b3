"""Compile one channel: where every chunk lies at every moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from .contract import Contract, Place, contract_of
from .layout import SCRATCH, Layout, Region, cut
from .memory import Held, Memory
from .messages import PackedStep, chunks_of, show, unroll
from .plan import Turn
from .schedule import Schedule


class Channel:
    """The compiler of one channel of one rank.

    It keeps chunks where they are as long as it can, receives straight into their final place, never writes an input,
    and gives scratch memory back as soon as its last reader is done. ``where`` follows every place through the steps.

    Calls, for each step t in order: ``post`` of its receives, ``start``, ``finish``; in the end ``leftovers``.
    """

    def __init__(self, schedule: Schedule, rank: int, size: int, layout: Layout, channel: int, memory: Memory) -> None:
        self.contract: Contract = contract_of(schedule.collective)
        self.rank, self.size, self.layout, self.memory = rank, size, layout, memory
        self.chunks, self.channel, self.channels = chunks_of(schedule, size), channel, schedule.channels
        self.name = str(schedule)
        self.steps = unroll(schedule, rank, size, channel)
        self.where: dict[Place, Region] = {}
        self.held: dict[Place, Held] = {}
        self.targets: dict[tuple[int, int], tuple[Region, Held | None]] = {}  # (step, source) → where it arrives
        self.staged: dict[int, list[Region]] = {}  # step → scratch that its sends are packed in
        self.refuse_uneven_scratch()
        self.last_use = self.find_last_uses()

    # Where things are.

    def block(self, place: Place) -> tuple[int, int, int]:
        """Block, chunk within it, and chunks of a block."""
        index = place[1]
        if not self.contract.blocks:
            return 0, index % self.chunks, self.chunks
        mine = self.chunks // self.size
        return index // mine % self.size, index % mine, mine

    def cut(self, place: Place, length: int) -> tuple[int, int]:
        _, sub, subs = self.block(place)
        start, share = cut(length, self.channels, self.channel)
        offset, length = cut(share, subs, sub)
        return start + offset, length

    def part(self, whole: Region | None, place: Place) -> Region | None:
        if whole is None:
            return None
        offset, length = self.cut(place, whole.length)
        return Region(whole.tensor, whole.offset + offset, length)

    def length(self, place: Place) -> int:
        space, block = place[0], self.block(place)[0]
        regions = {"input": self.layout.inputs, "output": self.layout.outputs}.get(space)
        whole = regions[block] if regions is not None else None
        return self.cut(place, self.layout.lengths[block] if whole is None else whole.length)[1]

    def home(self, place: Place) -> Region | None:
        """Where the place must lie in the end, if the caller wants it."""
        if place[0] not in ("work", "output"):
            return None
        return self.part(self.layout.outputs[self.block(place)[0]], place)

    def region(self, place: Place) -> Region:
        """Where the place lies now."""
        if place in self.where:
            return self.where[place]
        start = self.part(self.layout.inputs[self.block(place)[0]], place) if place[0] in ("work", "input") else None
        if start is None:
            raise ValueError(f"algorithm {self.name}: rank {self.rank} reads {show(place)} before anything is in it")
        return start

    def refuse_uneven_scratch(self) -> None:
        """A rank in the middle cannot know how large the blocks of two others are."""
        if self.contract.name != "all_to_all":
            return
        lengths = {region.length for region in (*self.layout.inputs, *self.layout.outputs) if region is not None}
        places = {p for s in self.steps for ps in s.sends.values() for p in ps}
        if len(lengths) > 1 and any(space == "scratch" for space, _ in places):
            raise ValueError(
                f"algorithm {self.name} passes blocks on through scratch, so all_to_all needs equal splits, not "
                f"{sorted(lengths)}: use algorithm='direct'"
            )

    # When things may happen.

    def find_last_uses(self) -> dict[Place, int]:
        """The last step in which a place is read; wanted outputs are never done with."""
        last: dict[Place, int] = {}
        for t, step in enumerate(self.steps):
            for places in step.sends.values():
                last.update(dict.fromkeys(places, t))
            for into in step.receives.values():
                last.update((place, t) for place, reduces in into if reduces)
        return last

    def direct(self, step: PackedStep, source: int) -> Region | None:
        """The region that a message can be received into without a detour, if there is one."""
        into = step.receives[source]
        if any(reduces for _, reduces in into):
            return None
        homes = [self.home(place) for place, _ in into]
        return _joined(homes)

    def receives(self) -> Iterator[tuple[int, int, int]]:
        """(step, source, step that must be over before the receive may be posted; -1: none), in order per source."""
        touched: dict[Place, int] = {}
        for t, step in enumerate(self.steps):
            for source, into in step.receives.items():
                if source != self.rank:
                    direct = self.direct(step, source) is not None
                    yield t, source, max((touched.get(place, -1) for place, _ in into), default=-1) if direct else -1
            for places in step.sends.values():
                touched.update(dict.fromkeys(places, t))
            for into in step.receives.values():
                touched.update((place, t) for place, _ in into)

    # The steps.

    def post(self, t: int, source: int) -> Region:
        step = self.steps[t]
        direct = self.direct(step, source)
        held = None
        if direct is None:
            held = Held(self.memory.allocate(sum(self.length(place) for place, _ in step.receives[source])))
        region = direct if held is None else held.whole
        assert region is not None
        self.targets[t, source] = region, held
        return region

    def start(self, t: int, turn: Turn) -> list[tuple[int, int]]:
        """Local copies and packing, into ``turn``; the messages to send, as (region, to)."""
        step, sends = self.steps[t], []
        if self.rank in step.receives:  # into the final place where there is one, else into scratch
            region = self.post(t, self.rank)
            parts = self.parts(region, [place for place, _ in step.receives[self.rank]])
            for part, place in zip(parts, step.sends[self.rank], strict=True):
                self.copy(turn.copies, part, self.region(place))
        staged = self.staged[t] = []
        for to, places in step.sends.items():
            if to == self.rank:
                continue
            regions = [self.region(place) for place in places]
            whole = _joined(regions)
            if whole is None:
                whole = self.memory.allocate(sum(region.length for region in regions))
                staged.append(whole)
                for part, region in zip(self.parts(whole, places), regions, strict=True):
                    self.copy(turn.copies, part, region)
            if whole.length:
                sends.append((self.memory.number(whole), to))
        return sends

    def finish(self, t: int, turn: Turn) -> None:
        """What arrived takes its place; scratch that nobody reads any more is free."""
        self.combine(t, self.steps[t], turn)
        for region in self.staged.pop(t):
            self.memory.release(region)
        self.forget(t, self.steps[t])

    def combine(self, t: int, step: PackedStep, turn: Turn) -> None:
        sent = {place for places in step.sends.values() for place in places}
        operands: dict[Place, list[tuple[int, Region, Held]]] = defaultdict(list)
        replaced: list[tuple[Place, Region, Held | None]] = []
        arrivals: list[Held] = []
        for source, into in step.receives.items():
            region, held = self.targets.pop((t, source))
            if held is not None:
                held.users += 1  # for as long as this step lasts
                arrivals.append(held)
            for part, (place, reduces) in zip(self.parts(region, [p for p, _ in into]), into, strict=True):
                if reduces:
                    assert held is not None
                    operands[place].append((source, part, held))
                else:
                    replaced.append((place, part, held))
        for place, received in operands.items():
            self.fold(place, received, turn.late if place in sent else turn.early)
        for place, part, held in replaced:
            home = self.home(place)
            if held is None or home is None:
                self.settle(place, part, held)
            else:
                self.copy(turn.unpack, home, part)
                self.settle(place, home, None)
        for held in arrivals:
            held.drop(self.memory)

    def fold(self, place: Place, received: list[tuple[int, Region, Held]], folds: list[tuple[int, int, int]]) -> None:
        """Combine in rank order, the rank's own value in its own place; the last result goes where the chunk lives."""
        own = self.region(place)
        writable = own.tensor == SCRATCH or own == self.home(place)
        out, holder = (own, self.held.get(place)) if writable else (self.home(place), None)
        if out is None:
            _, out, holder = received[-1]
        operands = sorted([(self.rank, own, -1)] + [(s, part, i) for i, (s, part, _) in enumerate(received)], key=_rank)
        left = operands[0][1]
        for position, (_, right, _) in enumerate(operands[1:], start=1):
            last = position == len(operands) - 1
            into = out if last else (left if left != own else right)
            if own.length:
                folds.append((self.memory.number(into), self.memory.number(left), self.memory.number(right)))
            left = into
        if not writable:
            self.settle(place, out, holder)

    def settle(self, place: Place, region: Region, held: Held | None) -> None:
        """The place now lies here."""
        if held is not None:
            held.users += 1
        if place in self.held:
            self.held.pop(place).drop(self.memory)
        if held is not None:
            self.held[place] = held
        self.where[place] = region

    def forget(self, t: int, step: PackedStep) -> None:
        """Release the scratch of places that nobody reads any more."""
        touched = {place for places in step.sends.values() for place in places}
        touched |= {place for into in step.receives.values() for place, _ in into}
        for place in touched & self.held.keys():
            if self.last_use.get(place, -1) <= t and self.home(place) is None:
                self.held.pop(place).drop(self.memory)

    def parts(self, region: Region, places: Sequence[Place]) -> list[Region]:
        """The region, cut into the places that are packed in it."""
        parts, offset = [], region.offset
        for place in places:
            parts.append(Region(region.tensor, offset, self.length(place)))
            offset += self.length(place)
        return parts

    def copy(self, copies: list[tuple[int, int]], to: Region, source: Region) -> None:
        if to != source and to.length:
            copies.append((self.memory.number(to), self.memory.number(source)))

    def leftovers(self) -> list[tuple[int, int]]:
        """Copies that bring every wanted chunk home: the input that nobody moved, and what ended in scratch."""
        copies: list[tuple[int, int]] = []
        space = "output" if self.contract.name == "all_to_all" else "work"
        for index in range(self.chunks):
            home = self.home((space, index))
            if home is not None and home.length:
                self.copy(copies, home, self.region((space, index)))
        return copies


def _rank(operand: tuple[int, Region, int]) -> tuple[int, int]:
    return operand[0], operand[2]


def _joined(regions: Sequence[Region | None]) -> Region | None:
    """The one region that the given ones make, if each starts where the one before ends; empty ones do not matter."""
    known = [region for region in regions if region is not None]
    if len(known) < len(regions):
        return None
    filled = [region for region in known if region.length] or known[:1]
    tensor, offset, _ = filled[0]
    end = offset
    for region in filled:
        if region.tensor != tensor or region.offset != end:
            return None
        end += region.length
    return Region(tensor, offset, end - offset)
