"""What part of the communication hides behind the backward pass, from the record of one step. No torch.

backward    ├──────────────────────────┤ wait     until the last gradient is ready
messages          ├──┤ ├───────────────────────┤
                  ▒▒▒▒ ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒           hidden: both at a time
"""

from __future__ import annotations

from collections.abc import Iterable

from collectives.span import Span


def overlap(spans: Iterable[Span], rank: int = 0) -> tuple[float, float]:
    """Seconds in which a rank had any message under way, and those of them in which its backward pass ran.

    Args:
        spans: of one step: ``backward`` on stream ``compute``, and messages, which are those with a link.
    """
    mine = [span for span in spans if span.rank == rank]
    backward = [span for span in mine if (span.stream, span.name) == ("compute", "backward")]
    under_way = hidden = reached = 0.0
    for message in sorted((span for span in mine if span.link), key=lambda span: span.start):
        start = max(message.start, reached)
        if message.end > start:
            under_way += message.end - start
            hidden += sum(max(0.0, min(message.end, b.end) - max(start, b.start)) for b in backward)
            reached = message.end
    return under_way, hidden
