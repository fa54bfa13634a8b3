"""Compile one rank's part of a schedule into a plan.

What a hand-written algorithm does for itself, the compiler does for all: see ``channel``. Channels with the same
program make a team, which takes turns in one thread: a channel ends a step, starts its next one, and while that is on
its way the others have their turns. All ranks take the same turns in the same order, so this waits in a cycle only if
one channel alone would, provided that a receive is posted no later than when its channel's step before ends. Where all
messages leave and arrive in steps of the same number (``lockstep``), it may be posted as late as at its own turn: a
rank then waits only for ranks that have come to that turn or will. So fewer buffers are in use, and stay in the cache.
"""

from __future__ import annotations

from collections import defaultdict

from .channel import Channel
from .layout import SCRATCH, Layout
from .memory import Memory
from .plan import Plan, Turn
from .schedule import Schedule


def compile_plan(
    schedule: Schedule,
    rank: int,
    size: int,
    layout: Layout,
    ahead: int = 1,
    together: bool = True,
    lockstep: bool = False,
) -> Plan:
    """Compile ``rank``'s part; O(operations).

    Args:
        ahead: turns that a receive may be posted early, where no value can tell.
        lockstep: every message leaves and arrives in steps of the same number (``Proof.lockstep``).
        together: channels with the same program make a team; else each channel is a team of its own.

    Raises:
        ValueError: the schedule does not bring a block that the layout wants.
    """
    memory = Memory()
    channels = [Channel(schedule, rank, size, layout, c, memory) for c in range(schedule.channels)]
    programs: dict[object, list[Channel]] = {}
    for channel, program in zip(channels, schedule.programs, strict=True):
        programs.setdefault(program if together else channel, []).append(channel)
    teams = []
    for team in programs.values():
        memory.free.clear()  # teams run side by side, so they share no scratch
        teams.append(_take_turns(team, ahead, lockstep))
    finish = [copy for channel in channels for copy in channel.leftovers()]
    messages = [m[1] for turns in teams for turn in turns for m in (*turn.sends, *turn.posts)]
    longest = max((memory.regions[number].length for number in messages), default=0)
    own = [(number, region) for number, region in enumerate(memory.regions) if region.tensor != SCRATCH]
    return Plan(schedule.channels, teams, finish, memory.regions, own, memory.top, longest)


def _take_turns(team: list[Channel], ahead: int, lockstep: bool) -> list[Turn]:
    """All steps of the team's channels in one order: step 0 of each, step 1 of each, …"""
    longest = max(len(channel.steps) for channel in team)
    order = [(t, channel) for t in range(longest) for channel in team if t < len(channel.steps)]
    number = {(t, channel.channel): i for i, (t, channel) in enumerate(order)}
    turns = [Turn(channel.steps[t].index, channel.channel) for t, channel in order]
    due = _when_to_post(team, number, ahead, lockstep)
    slot = 0
    for i, (turn, (t, channel)) in enumerate(zip(turns, order, strict=True)):
        for j, source in due[i]:
            of = order[j][1]
            region = of.post(order[j][0], source)
            if region.length:
                turn.posts.append((slot, of.memory.number(region), source, of.channel))
                turns[j].awaits.append((slot, source))
                slot += 1
        before, last = order[i - 1]
        for s, of in [(0, each) for each in team] if i == 0 else [(before + 1, last)]:
            if s < len(of.steps):
                for region_number, to in of.start(s, turn):
                    turn.sends.append((slot, region_number, to, of.channel))
                    turns[number[s, of.channel]].leaves.append((slot, to))
                    slot += 1
        channel.finish(t, turn)
    return turns


def _when_to_post(
    team: list[Channel], number: dict[tuple[int, int], int], ahead: int, lockstep: bool
) -> defaultdict[int, list[tuple[int, int]]]:
    """By turn, the (turn, source) of the receives to post before it: early, but not before the last use of their place,
    and in order per source."""
    due: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for channel in team:
        earliest: defaultdict[int, int] = defaultdict(int)
        for t, source, after in channel.receives():
            turn = number[t, channel.channel]
            free = number[after, channel.channel] + 1 if after >= 0 else 0
            latest = turn if lockstep else number[t - 1, channel.channel] + 1 if t else 0
            at = earliest[source] = max(min(turn - ahead, latest), free, earliest[source])
            due[at].append((turn, source))
    for receives in due.values():
        receives.sort(key=lambda receive: receive[0])
    return due
