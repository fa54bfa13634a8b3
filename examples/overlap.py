"""Does DDP's communication run under the backward pass? One step on backend ``ring``, as a trace to look at.

torchrun --nproc-per-node 2 examples/overlap.py trace.json      then open trace.json in https://ui.perfetto.dev

    compute       forward │ backward 7 │ 6 │ 5 │ 4 │ 3 │ 2 │ 1 │ 0 │          a slice a layer
    all_reduce                         └─ bucket 0 ─┘└─ bucket 1 ─┘ …         the group's worker, one after the other
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

import collectives
import collectives.torch_backend
from collectives.span import Span, write

LAYERS, WIDTH, BATCH, BUCKET_MB = 8, 1024, 512, 8


def step_of_ddp() -> list[Span]:
    """What this rank did in one step, after one that is not looked at: times are those of its clock."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)))
    model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=BUCKET_MB, gradient_as_bucket_view=True)
    ready: list[tuple[int, float]] = []
    for number, layer in enumerate(layers):
        layer[0].weight.register_post_accumulate_grad_hook(partial(_note, ready, number))
    data = torch.randn(BATCH, WIDTH)
    model(data).square().mean().backward()
    ready.clear()
    record = collectives.record()
    try:
        began = time.time()
        loss = model(data).square().mean()
        forward = time.time()
        loss.backward()
        operations = record.as_json()["operations"]
    finally:
        record.stop()
    spans = [Span(rank, "compute", "forward", began, forward)]
    for number, end in ready:
        spans.append(Span(rank, "compute", f"backward {number}", spans[-1].end, end))
    for number, one in enumerate(each for each in operations if each["op"] == "all_reduce"):
        spans.append(Span(rank, "all_reduce", f"bucket {number}", one["started"], one["ended"], one["bytes"]))
    return spans


def _note(ready: list[tuple[int, float]], number: int, parameter: torch.Tensor) -> None:
    ready.append((number, time.time()))


def overlap(spans: list[Span]) -> float:
    """Which part of the communication ran while the backward pass computed, from 0 to 1."""
    end = max(span.end for span in spans if span.stream == "compute")
    sent = [span for span in spans if span.stream == "all_reduce"]
    under = sum(max(0.0, min(span.end, end) - span.start) for span in sent)
    return under / sum(span.end - span.start for span in sent)


def main(path: str) -> None:
    dist.init_process_group("ring")
    gathered: list[list[Span]] = [[] for _ in range(dist.get_world_size())]
    spans = step_of_ddp()
    dist.all_gather_object(gathered, spans)
    if dist.get_rank() == 0:
        write(path, [span for each in gathered for span in each])
        print(f"wrote {path}; of rank 0's communication {overlap(spans):.0%} ran under its backward pass")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", default="trace.json", help="the file to write (default trace.json)")
    main(parser.parse_args().trace)
