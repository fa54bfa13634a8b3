"""The fixed words of pictures, so that a picture can speak another language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from collectives.commands import showing

ENGLISH: Final[Mapping[str, str]] = {
    **showing.WORDS,
    # What several pictures say.
    "lang": "en",
    "comma": ", ",
    "stop": ". ",
    "rank": "rank {rank}",
    "rank_on": "rank {rank} ({device})",
    "stage": "stage {stage}",
    "one.ranks": "{count} rank",
    "one.stages": "{count} stage",
    "one.microbatches": "{count} microbatch",
    "one.slots": "{count} slot",
    "one.activations": "{count} activation",
    "many.ranks": "{count} ranks",
    "many.stages": "{count} stages",
    "many.microbatches": "{count} microbatches",
    "unit.slots": "slots",
    "unit.microbatches": "microbatches",
    "unit.activations": "activations",
    # The line above a picture; size, speed, chunks and faults may be empty.
    "title.collective": "{collective} · {schedule}{size} on {ranks}: {time}{speed}{faults}",
    "title.speed": ", {busbw} GB/s bus bandwidth",
    "title.pipeline": "{schedule} · {stages}, {microbatches}{chunks}: {time}, bubble {bubble}, holds {held}",
    "title.chunks": ", {chunks} chunks",
    # The numbers of a run, by their key.
    "fact.collective": "collective",
    "fact.algorithm": "algorithm",
    "fact.machine": "machine",
    "fact.ranks": "ranks",
    "fact.nodes": "nodes",
    "fact.size": "size",
    "fact.time_s": "time",
    "fact.lower_bound_s": "lower bound",
    "fact.algbw": "algbw",
    "fact.busbw": "busbw",
    "fact.bottleneck": "bottleneck",
    "fact.bottleneck_utilisation": "bottleneck utilisation",
    "fact.messages": "messages",
    "fact.faults": "faults",
    "fact.schedule": "schedule",
    "fact.stages": "stages",
    "fact.microbatches": "microbatches",
    "fact.chunks": "chunks",
    "fact.makespan": "makespan",
    "fact.stage_span": "stage span",
    "fact.step_time": "step time",
    "fact.sync_wait": "sync wait",
    "fact.busy": "busy",
    "fact.bubble_fraction": "bubble fraction",
    "fact.bubble_over_ideal": "bubble over ideal",
    "fact.peak_activations": "peak activations",
    "fact.operation": "operation",
    "fact.measured_s": "measured",
    "fact.predicted_s": "predicted",
    "fact.error": "error",
    "peaks.most": "at most {peak}",
    # The kinds of boxes, in the legend.
    "ink.F": "forward",
    "ink.B": "backward",
    "ink.I": "input gradient",
    "ink.W": "weight gradient",
    "ink.R": "recompute",
    "ink.O": "optimizer",
    "ink.S": "sync wait",
    "ink.L": "launch",
    "ink.send": "send",
    "ink.recv": "receive",
    "ink.reduce": "reduce",
    "ink.collective": "collective",
    "ink.other": "other",
    "legend.idle": "idle",
    "legend.chunk": "message with chunk {chunk}",
    "legend.to": "message to rank {rank}",
    "legend.from": "message from rank {rank}",
    "legend.chunks": "strong to faint: model chunk 0 to {last}",
    # Names of spans and streams: the first word, before a number; or a sentence with a rank.
    "span.send": "send",
    "span.recv": "recv",
    "span.reduce": "reduce",
    "span.compute": "compute",
    "span.launch": "launch",
    "span.operation": "operation",
    "span.sync": "sync",
    "span.optimizer": "optimizer",
    "span.activation": "activation",
    "span.gradient": "gradient",
    "span.send_to": "send to {rank}",
    "span.recv_from": "recv from {rank}",
    "span.receive_from": "receive from {rank}",
    # The chart: what it says to those who do not see it and on pointing, its strips, its three moments.
    "chart.summary": "{boxes} boxes in {rows} rows over {time}; {facts}",
    "box.what": "{rank}, {stream}: {name}",
    "box.when": "{start} to {end} ({length})",
    "strip.memory": "memory (full height: {value})",
    "strip.peak": "peak",
    "strip.links": "links (the stronger, the nearer to the limit)",
    "strip.mean": "mean use",
    "strip.value": "{name}: {value}",
    "strip.share": "{name}: {value}, {share}",
    "ring.title": "three moments: what is under way, and whose contributions ranks hold",
    "ring.at": "at {time}",
    "ring.move": "chunk {chunk}: rank {source} to {to}",
    "ring.cell": "rank {rank}, chunk {chunk}: {count} of {whole}",
    # Tables in the terminal.
    "grid.chunk": "chunk",
    "links.name": "link",
    "links.carried": "carried",
    "links.mean": "mean",
    "links.limit": "limit",
    "links.utilisation": "utilisation",
    "links.more": "… {count} more links, used less",
    # The page: its bar.
    "replay.facts": "main numbers",
    "replay.bar": "replay",
    "replay.home": "to the start",
    "replay.back": "one event back",
    "replay.play": "play",
    "replay.pause": "pause",
    "replay.toggle": "play or pause",
    "replay.step": "one event on",
    "replay.end": "to the end",
    "replay.time": "time",
    "replay.clock": "{time} of {end}",
    "replay.speed": "speed",
    "replay.zoom": "zoom",
    "replay.out": "zoom out",
    "replay.in": "zoom in",
    "replay.fit": "fit",
    "replay.whole": "the whole run",
    "replay.show_whole": "show the whole run",
    "replay.theme": "light or dark",
    "key.space": "space",
    "key.left": "left arrow",
    "key.right": "right arrow",
    # Its ring and its grid.
    "replay.ring": "Under way",
    "replay.ring_label": "ranks on a circle and the chunks that move between them",
    "replay.moved": "{done} of {all} moves done, {now} under way",
    "replay.sent": "{moved}; sent {sent} of {all}",
    "replay.grid": "What every rank holds: contributions in each chunk",
    "replay.grid_label": "rank by chunk: how many ranks' contributions it holds",
    "replay.grid_large": "The grid of {ranks} ranks by {chunks} chunks is too large to draw.",
    "replay.filled": "{done} of {all} chunks complete (bold, in full colour); dashed: being received",
    # Its timeline, and what it says on pointing and to those who listen.
    "replay.timeline": "Timeline",
    "replay.timeline_label": "timeline: {boxes} boxes in {rows} rows over {time}{links}{memory}",
    "replay.timeline_links": ", {count} links",
    "replay.timeline_memory": ", memory of {count}",
    "replay.legend": "legend",
    "replay.links": "links: the stronger, the nearer to the limit",
    "replay.memory": "memory, full height {value}",
    "replay.box": "{rank}, {stream}: {name} ({kind})",
    "replay.idle": "{rank} is idle at {time}",
    "replay.curve": "{name} at {time}",
    "replay.share": "{value} of {limit} ({share})",
    "replay.average": "on average {value}",
    "replay.now": "At {time}: {running}",
    "replay.nothing": "nothing runs",
    # Its numbers and its keys.
    "replay.numbers": "Numbers",
    "replay.numbers_caption": "the numbers of this run, in full",
    "replay.numbers_name": "name",
    "replay.numbers_value": "value",
    "replay.numbers_full": "in full",
    "replay.event": "one event",
    "replay.hint": "Click or drag in the timeline to go there; the address keeps the moment.",
}


class Words:
    """The fixed words in one language: those of ``other``, and English for what it lacks.

    ``other`` maps the ids of ``ENGLISH`` to texts with the same named fields, each written ``{field}`` and no more. It
    may have further ids: ``fact.KEY``, ``unit.UNIT`` and ``span.WORD`` for numbers, units and spans of one's own.

    >>> Words()("ring.at", time="3 ms")
    'at 3 ms'
    """

    def __init__(self, other: Mapping[str, str] | None = None) -> None:
        self._texts = {**ENGLISH, **(other or {})}

    def __contains__(self, key: str) -> bool:
        return key in self._texts

    def __getitem__(self, key: str) -> str:
        """As it was written, with its fields."""
        return self._texts[key]

    def __call__(self, key: str, /, **fields: object) -> str:
        return self._texts[key].format(**fields)

    def counted(self, noun: str, count: int) -> str:
        """``1 rank``, ``4 ranks``: the text ``one.ranks`` or ``many.ranks``."""
        return self(f"{'one' if count == 1 else 'many'}.{noun}", count=count)


IN_ENGLISH: Final = Words()
