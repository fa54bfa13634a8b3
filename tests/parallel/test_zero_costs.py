"""What ZeRO holds and sends, counted on real ranks, against the closed forms of the paper."""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from collectives.communicator import communicator
from parallel.memory import Ledger
from parallel.mesh import Mesh
from parallel.model import GPT, Config
from parallel.precision import Precision
from parallel.traffic import counted
from parallel.zero import Zero

CONFIG = Config(layers=4, hidden=20, heads=2, vocabulary=31, positions=8)
LAYER, ROOT = 12 * 20**2 + 13 * 20, (31 + 8) * 20 + 2 * 20  # the closed form of GPT
TOTAL = 4 * LAYER + ROOT


def padded(world):
    return sum(-(-size // world) * world for size in [ROOT, *[LAYER] * 4])


def gpt():
    torch.manual_seed(dist.get_rank())
    return GPT(CONFIG)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def backward(zero):
    x = torch.randint(31, (1, 8))
    F.cross_entropy(zero(x).flatten(0, 1).float(), x.flatten()).backward()


# Memory.


def at_rest(stage, precision):
    """With the gradients of a second step: Zero's own account, and all tensors that are alive beside it."""
    gc.freeze()  # what was before does not count, here and in the next tests
    zero = Zero(gpt(), adam, stage=stage, precision=precision)
    backward(zero)
    zero.step()
    zero.zero_grad()
    backward(zero)
    gradients = [parameter.grad for parameter in zero.module.parameters()]  # known to Python from here on
    found = storages()
    del gradients
    ledger = Ledger(zero).now()
    assert {kind: nbytes for kind, nbytes in ledger.items() if kind in zero.memory()} == zero.memory()
    return zero.memory(), sum(found.values())


def storages():
    """Bytes by address of every tensor's memory, but for the collectives' scratch, which is theirs."""
    scratch = {held.untyped_storage().data_ptr() for held in communicator().shelf.memory.values()}
    alive = [t.untyped_storage() for t in gc.get_objects() if type(t) in (torch.Tensor, nn.Parameter)]
    return {storage.data_ptr(): storage.nbytes() for storage in alive if storage.data_ptr() not in scratch}


@pytest.mark.parametrize("world", [1, 2, 3, 4])
@pytest.mark.parametrize("precision", ["bf16", None])
def test_bytes_at_rest(ranks, world, precision):
    """16X; 4X + KX/N; 2X + (2X + KX)/N; (4X + KX)/N: X parameters, K = 12 in mixed precision, 8 in fp32.

    Parameters and gradients are padded to a multiple of N in each layer; of the optimizer's states only masters
    are. Adam's step counters, 4 bytes a piece, are apart.
    """
    size, states, masters = (2, 8, 4) if precision else (4, 8, 0)
    all_of_it, slice_of_it = padded(world) * size, padded(world) // world * size
    wanted = {
        1: (all_of_it, TOTAL * size),
        2: (all_of_it, slice_of_it),
        3: (slice_of_it, slice_of_it),
    }
    for stage, (parameters, gradients) in wanted.items():
        found = ranks(world, at_rest, stage, precision)
        for memory, nbytes in found:
            assert memory["parameters"] == parameters
            assert memory["gradients"] == gradients
            assert nbytes == sum(memory.values())
        optimizer = sum(memory["optimizer"] for memory, _ in found)
        assert optimizer == TOTAL * states + padded(world) * masters


def peak(prefetch, quiet):
    """The most that is held in the second of two microbatches, and what is held before it."""
    zero = Zero(gpt(), adam, prefetch=prefetch)
    backward(zero)
    zero.step()
    zero.zero_grad()
    with zero.no_sync() if quiet else contextlib.nullcontext():
        backward(zero)
    rest, most = zero.memory(), 0

    def look(*_):
        nonlocal most
        memory = zero.memory()
        most = max(most, memory["parameters"] + memory["gradients"])

    for module in zero.module.modules():
        module.register_forward_pre_hook(look)
    for parameter in zero.module.parameters():
        parameter.register_hook(look)  # before it comes into the bucket
        parameter.register_post_accumulate_grad_hook(look)  # after
    backward(zero)
    assert zero.memory() == rest
    return rest["parameters"] + rest["gradients"], most


@pytest.mark.parametrize("world", [1, 2, 3])
def test_peak(ranks, world):
    """At rest + layers in flight + one bucket, to the byte; with prefetch, a layer more and a bucket on its way.

    Beside them the gradients of the last norm, which belongs to layer 0 and comes before all others.
    """
    early = 2 * 20 * 4
    layer, root = (-(-size // world) * world * 4 for size in (LAYER, ROOT))
    for rest, most in ranks(world, peak, 0, False):
        assert rest == 2 * padded(world) // world * 4
        assert most == rest + root + layer + layer + early
    for rest, most in ranks(world, peak, 1, False):
        assert most == rest + root + 2 * layer + layer + (layer + layer // world) + early


# Messages.


def sent(stage, microbatches, quiet, precision=None, shape=None, **options):
    """Elements by dtype that this rank sends in one step; on the shard group and on that of the copies."""
    mesh = None if shape is None else Mesh(dp_replicate=shape[0], dp_shard=shape[1])
    zero = Zero(gpt(), adam, stage=stage, precision=precision, group=mesh, **options)
    backward(zero)
    zero.step()
    zero.zero_grad()
    copies = counted(mesh.group("dp_replicate")) if mesh is not None else contextlib.nullcontext()
    with counted(zero.shard_group) as traffic, copies as second:
        for i in range(microbatches):
            with zero.no_sync() if quiet and i < microbatches - 1 else contextlib.nullcontext():
                backward(zero)
        zero.gradient_shards()  # as clipping does; what is reduced is not reduced again
        zero.step()
    found = {str(dtype).removeprefix("torch."): n for dtype, n in traffic.elements.items()}
    return found, sum(second.elements.values()) if second is not None else 0


FORMS = [  # stage, microbatches, deferred, options → all-gathers and reduce-scatters of all parameters
    (1, 1, False, {}, 1, 1),
    (1, 3, False, {}, 1, 1),
    (2, 1, False, {}, 1, 1),
    (2, 3, False, {}, 1, 3),
    (2, 3, True, {}, 1, 1),
    (3, 1, False, {}, 2, 1),
    (3, 3, False, {}, 6, 3),
    (3, 3, True, {}, 6, 1),
    (3, 3, False, {"reshard_after_forward": False}, 3, 3),
    (3, 3, True, {"reshard_after_forward": False, "prefetch": 0}, 3, 1),
]


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_elements_sent(ranks, world):
    """Each a sum of Ψ (N−1)/N: stage 1 2Ψ; 2 Ψm + Ψ; 3 2Ψm + Ψm, Ψ once if deferred, Ψm + Ψm without resharding."""
    once = padded(world) * (world - 1) // world
    for stage, microbatches, quiet, options, gathers, reduces in FORMS:
        for found, _ in ranks(world, sent, stage, microbatches, quiet, **options):
            assert sum(found.values()) == (gathers + reduces) * once, (stage, microbatches, quiet, options)


def test_elements_sent_in_mixed_precision(ranks):
    """Parameters as they are computed with; gradients too, or in fp32 on request."""
    once = padded(3) * 2 // 3
    for found, _ in ranks(3, sent, 3, 2, False, "bf16"):
        assert found == {"bfloat16": (4 + 2) * once}
    for found, _ in ranks(3, sent, 2, 2, False, Precision("bf16", reduce="fp32")):
        assert found == {"bfloat16": once, "float32": 2 * once}


def test_elements_sent_by_broadcasts(ranks):
    """Each slice leaves its owner and reaches N − 1 ranks: over all ranks as many as an all-gather."""
    found = ranks(3, sent, 3, 1, False, gather="broadcast")
    assert sum(sum(elements.values()) for elements, _ in found) == 3 * (2 + 1) * padded(3) * 2 // 3


def test_elements_sent_by_hybrid_sharding(ranks):
    """All the volume along dp_shard; along dp_replicate an all-reduce of one slice: 2(R−1)/R · Ψ/S."""
    for found, copies in ranks(4, sent, 3, 1, False, shape=(2, 2)):
        assert sum(found.values()) == 3 * padded(2) // 2
        assert copies == 2 * padded(2) // 2 // 2
