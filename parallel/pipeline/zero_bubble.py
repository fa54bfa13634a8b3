"""ZB-H1 and ZB-H2: 1F1B whose backwards are cut in two, so that weight gradients fill the bubble.

Only the gradient of the input (I) is waited for; the gradient of the weights (W) can come later. Both schedules are one
shape with two numbers: how many forwards a rank runs ahead, and how many microbatches its Ws are behind its Is.
"""

from __future__ import annotations

from collections.abc import Iterator

from .schedule import Action, BackwardInput, BackwardWeight, Forward, PipelineSchedule


def zb_h1(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """The memory of 1F1B, a third of its bubble (if F = I = W): rank r runs p-r-1 ahead, and its Ws are r behind.

    ::

        p=3, m=5
        rank 0  F0 F1 F2 .. .. I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
        rank 1  .. F0 F1 .. I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
        rank 2  .. .. F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4

    Bubble (p-1)·max(I, F+I-W) for m ≥ 2p; a rank holds p microbatches, those ahead and those behind. The second term
    is the paper's formula; the first is the wait for gradient 0, which p forwards cannot fill if W > F.

    Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, where I is called B.
    """
    return _behind(ranks - rank - 1, rank, microbatches)


def zb_h2(rank: int, ranks: int, microbatches: int, chunks: int) -> Iterator[Action]:
    """No bubble (if F = I = W), for twice the memory: rank r runs 2(p-r-1) ahead, and its Ws are 2r behind.

    ::

        p=3, m=6
        rank 0  F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
        rank 1  .. F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5
        rank 2  .. .. F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5

    Bubble (p-1)·max(0, I-F, F+I-2W) for m ≥ 2p; a rank holds 2p-1 microbatches. The ranks end one after the other, so a
    rank may start the next step at once, but only if its optimizer does not wait for all others (for the norm of all
    gradients, for instance).

    Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, where I is called B.
    """
    return _behind(2 * (ranks - rank - 1), 2 * rank, microbatches)


def _behind(ahead: int, behind: int, microbatches: int) -> Iterator[Action]:
    """Forwards run ``ahead`` of I, and W is ``behind`` it."""
    for i in range(min(ahead, microbatches)):
        yield Forward(i)
    for i in range(microbatches):
        if ahead + i < microbatches:
            yield Forward(ahead + i)
        yield BackwardInput(i)
        if behind <= i:
            yield BackwardWeight(i - behind)
    for i in range(max(0, microbatches - behind), microbatches):
        yield BackwardWeight(i)


SCHEDULES = (PipelineSchedule("zb-h1", zb_h1), PipelineSchedule("zb-h2", zb_h2))
