"""Compile one rank's part of a schedule into a flat list of what to post, copy, send, wait for and combine.

The compiler does for every algorithm what a hand-written one does for itself: it keeps chunks where they are as long as
it can, receives straight into their final place, posts receives before they are needed, never writes an input, and
reuses scratch memory as soon as its last reader is done. Nothing here moves data; see ``executor``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .contract import Contract, Place, contract_of
from .layout import SCRATCH, Layout, Region, cut
from .messages import PackedStep, chunks_of, show, unroll
from .schedule import Schedule

ALIGN = 64  # elements: scratch regions start on a cache line for every dtype


@dataclass(slots=True)
class StepPlan:
    """One step. Numbers are regions of ``Plan.regions``; all lists keep the schedule's order.

    index: the step's number in the schedule. posts: (slot, region, source) to receive, this step's and later ones'.
    copies: (to, from) before the sends. sends: (region, to). awaits: (slot, source) of the receives of this step.
    early, late: (out, left, right) to combine before, and after the sends have left. unpack: (to, from) at the end.
    """

    index: int
    posts: list[tuple[int, int, int]] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    sends: list[tuple[int, int]] = field(default_factory=list)
    awaits: list[tuple[int, int]] = field(default_factory=list)
    early: list[tuple[int, int, int]] = field(default_factory=list)
    late: list[tuple[int, int, int]] = field(default_factory=list)
    unpack: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """A rank's part of a schedule on a given layout.

    channels: the steps of every channel; teams: the channels that have the same program.
    finish: (to, from) copies when all channels are done.
    regions: what the numbers mean; own: (number, region) of those in the caller's tensors.
    scratch: elements of scratch memory; longest: elements of the longest send.
    """

    channels: list[list[StepPlan]]
    teams: list[list[int]]
    finish: list[tuple[int, int]]
    regions: list[Region]
    own: list[tuple[int, Region]]
    scratch: int
    longest: int


def compile_plan(schedule: Schedule, rank: int, size: int, layout: Layout, ahead: int = 1) -> Plan:
    """Compile ``rank``'s part; O(operations).

    Args:
        ahead: steps that a receive may be posted early, where no value can tell (0 for grouped batches).

    Raises:
        ValueError: the schedule does not bring a block that the layout wants.
    """
    memory = _Memory()
    channels: list[list[StepPlan]] = []
    finish: list[tuple[int, int]] = []
    for channel in range(schedule.channels):
        memory.free.clear()  # channels run side by side, so they share no scratch
        compiler = _Channel(schedule, rank, size, layout, channel, memory, ahead)
        channels.append(compiler.compile())
        finish += compiler.finish()
    sends = [memory.regions[number].length for steps in channels for step in steps for number, _ in step.sends]
    own = [(number, region) for number, region in enumerate(memory.regions) if region.tensor != SCRATCH]
    programs = list(dict.fromkeys(schedule.programs))
    teams = [[i for i, other in enumerate(schedule.programs) if other is program] for program in programs]
    return Plan(channels, teams, finish, memory.regions, own, memory.top, max(sends, default=0))


class _Memory:
    """Numbers for regions, and an allocator of scratch regions with free lists by length."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.numbers: dict[Region, int] = {}
        self.free: defaultdict[int, list[int]] = defaultdict(list)
        self.top = 0

    def number(self, region: Region) -> int:
        if region not in self.numbers:
            self.numbers[region] = len(self.regions)
            self.regions.append(region)
        return self.numbers[region]

    def allocate(self, length: int) -> Region:
        rounded = -(-length // ALIGN) * ALIGN
        if self.free[rounded]:
            offset = self.free[rounded].pop()
        else:
            offset, self.top = self.top, self.top + rounded
        return Region(SCRATCH, offset, length)

    def release(self, region: Region) -> None:
        self.free[-(-region.length // ALIGN) * ALIGN].append(region.offset)


@dataclass(slots=True)
class _Held:
    """A scratch allocation and how many of its chunks are still wanted."""

    whole: Region
    users: int = 0


class _Channel:
    """The compiler of one channel. ``where`` follows every place through the steps."""

    def __init__(
        self, schedule: Schedule, rank: int, size: int, layout: Layout, channel: int, memory: _Memory, ahead: int
    ) -> None:
        self.contract: Contract = contract_of(schedule.collective)
        self.rank, self.size, self.layout, self.memory, self.ahead = rank, size, layout, memory, ahead
        self.chunks, self.channel, self.channels = chunks_of(schedule, size), channel, schedule.channels
        self.name = str(schedule)
        self.steps = unroll(schedule, rank, size, channel)
        self.plans = [StepPlan(step.index) for step in self.steps]
        self.where: dict[Place, Region] = {}
        self.held: dict[Place, _Held] = {}
        self.targets: dict[tuple[int, int], tuple[Region, _Held | None]] = {}  # (step, source) → where it arrives
        self.refuse_uneven_scratch()
        self.last_use = self.find_last_uses()
        self.posts = self.find_posts()

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

    def find_posts(self) -> dict[int, list[tuple[int, int]]]:
        """When each receive is posted: as early as allowed, after the last use of its place, in order per peer."""
        touched: dict[Place, int] = {}
        earliest_of_peer: dict[int, int] = defaultdict(int)
        posts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for t, step in enumerate(self.steps):
            for source, into in step.receives.items():
                if source == self.rank:
                    continue
                at = max(0, t - self.ahead, earliest_of_peer[source])
                if self.direct(step, source) is not None:
                    at = max([at, *(touched.get(place, -1) + 1 for place, _ in into)])
                earliest_of_peer[source] = at
                posts[at].append((t, source))
            for places in step.sends.values():
                touched.update(dict.fromkeys(places, t))
            for into in step.receives.values():
                touched.update((place, t) for place, _ in into)
        return posts

    # The steps.

    def compile(self) -> list[StepPlan]:
        slot = 0
        for t, (step, plan) in enumerate(zip(self.steps, self.plans, strict=True)):
            for when, source in self.posts.get(t, ()):
                region = self.post(when, source)
                if region.length:
                    plan.posts.append((slot, self.memory.number(region), source))
                    self.plans[when].awaits.append((slot, source))
                    slot += 1
            self.local_copies(t, step, plan)
            staged = self.send(step, plan)
            self.combine(t, step, plan)
            for region in staged:
                self.memory.release(region)
            self.forget(t, step)
        return self.plans

    def post(self, t: int, source: int) -> Region:
        step = self.steps[t]
        direct = self.direct(step, source)
        held = None
        if direct is None:
            held = _Held(self.memory.allocate(sum(self.length(place) for place, _ in step.receives[source])))
        region = direct if held is None else held.whole
        assert region is not None
        self.targets[t, source] = region, held
        return region

    def local_copies(self, t: int, step: PackedStep, plan: StepPlan) -> None:
        """Messages to oneself: into the final place where there is one, else into scratch."""
        if self.rank not in step.receives:
            return
        region = self.post(t, self.rank)
        parts = self.parts(region, [place for place, _ in step.receives[self.rank]])
        for part, place in zip(parts, step.sends[self.rank], strict=True):
            self.copy(plan.copies, part, self.region(place))

    def send(self, step: PackedStep, plan: StepPlan) -> list[Region]:
        staged = []
        for to, places in step.sends.items():
            if to == self.rank:
                continue
            regions = [self.region(place) for place in places]
            whole = _joined(regions)
            if whole is None:
                whole = self.memory.allocate(sum(region.length for region in regions))
                staged.append(whole)
                for part, region in zip(self.parts(whole, places), regions, strict=True):
                    self.copy(plan.copies, part, region)
            if whole.length:
                plan.sends.append((self.memory.number(whole), to))
        return staged

    def combine(self, t: int, step: PackedStep, plan: StepPlan) -> None:
        sent = {place for places in step.sends.values() for place in places}
        operands: dict[Place, list[tuple[int, Region, _Held]]] = defaultdict(list)
        replaced: list[tuple[Place, Region, _Held | None]] = []
        arrivals: list[_Held] = []
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
            self.fold(place, received, plan.late if place in sent else plan.early)
        for place, part, held in replaced:
            home = self.home(place)
            if held is None or home is None:
                self.settle(place, part, held)
            else:
                self.copy(plan.unpack, home, part)
                self.settle(place, home, None)
        for held in arrivals:
            self.drop(held)

    def fold(self, place: Place, received: list[tuple[int, Region, _Held]], folds: list[tuple[int, int, int]]) -> None:
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

    def settle(self, place: Place, region: Region, held: _Held | None) -> None:
        """The place now lies here."""
        if held is not None:
            held.users += 1
        if place in self.held:
            self.drop(self.held.pop(place))
        if held is not None:
            self.held[place] = held
        self.where[place] = region

    def forget(self, t: int, step: PackedStep) -> None:
        """Release the scratch of places that nobody reads any more."""
        touched = {place for places in step.sends.values() for place in places}
        touched |= {place for into in step.receives.values() for place, _ in into}
        for place in touched & self.held.keys():
            if self.last_use.get(place, -1) <= t and self.home(place) is None:
                self.drop(self.held.pop(place))

    def drop(self, held: _Held) -> None:
        held.users -= 1
        if held.users == 0:
            self.memory.release(held.whole)

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

    def finish(self) -> Iterable[tuple[int, int]]:
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
