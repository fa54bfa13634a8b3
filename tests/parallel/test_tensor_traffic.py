"""What tensor parallelism sends and keeps, counted on real ranks, against the closed forms."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.distributed as dist

from parallel.formulas import tensor_elements_sent
from parallel.llama import Llama, LlamaConfig
from parallel.memory import Ledger
from parallel.model import GPT, Config
from parallel.tensor import TensorParallel, parallelize_, vocab_parallel_cross_entropy
from parallel.traffic import counted

LAYERS, HIDDEN, ROWS, PLACES = 2, 24, 2, 12
TOKENS = ROWS * PLACES
REPLICATED = {"gpt": (6 * LAYERS + 2) * HIDDEN, "llama": (2 * LAYERS + 1) * HIDDEN}  # norms, and biases behind sums
FORMS = [(False, True, False), (True, True, False), (True, False, False), (True, True, True), (True, False, True)]


def model(kind):
    torch.manual_seed(0)
    if kind == "gpt":
        return GPT(Config(LAYERS, HIDDEN, 12, vocabulary=31, positions=PLACES))
    return Llama(LlamaConfig(LAYERS, HIDDEN, 12, 12, 36, vocabulary=31, positions=PLACES))


def sent(kind, form, part):
    tp = TensorParallel(None, *form)
    shared = parallelize_(model(kind), tp)
    tokens = torch.randint(31, (ROWS, PLACES))
    places = PLACES // tp.size if tp.sequence else PLACES
    x = torch.randn(ROWS, places, HIDDEN, requires_grad=True)
    with counted() as traffic:
        if part == "layers":
            for block in shared.blocks:
                for parameter in block.parameters():
                    parameter.requires_grad_(parameter.dim() > 1)  # without the norms and biases
            out = x
            for block in shared.blocks:
                out = block(out)
            out.sum().backward()
        else:
            vocab_parallel_cross_entropy(shared(tokens), tokens, 31, tp)[0].backward()
    return traffic.elements[torch.float32]


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("kind", REPLICATED)
def test_a_layer_sends_8_or_10_units(ranks, size, kind):
    for form, units in zip(FORMS, [8, 10, 8, 10, 8], strict=True):
        unit = TOKENS * HIDDEN * (size - 1) // size
        assert ranks(size, sent, kind, form, "layers") == [LAYERS * units * unit] * size, form
        assert tensor_elements_sent(TOKENS, HIDDEN, size, LAYERS, *form[:2]) == LAYERS * units * unit


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", REPLICATED)
def test_a_whole_step_sends_what_the_formula_says(ranks, size, kind):
    for form in FORMS:
        places = PLACES * HIDDEN if kind == "gpt" else 0
        wanted = tensor_elements_sent(
            TOKENS, HIDDEN, size, LAYERS, *form[:2], ends=True, replicated=REPLICATED[kind], places=places
        )
        assert ranks(size, sent, kind, form, "all") == [wanted] * size, form


def test_one_rank_sends_nothing():
    assert tensor_elements_sent(TOKENS, HIDDEN, 1, LAYERS, True, ends=True, replicated=9) == 0


def held(form):
    """Bytes of activations between forward and backward."""
    gc.collect()
    tp = TensorParallel(None, *form)
    shared = parallelize_(model("gpt"), tp)
    x = torch.randn(ROWS, PLACES // tp.size if tp.sequence else PLACES, HIDDEN, requires_grad=True)
    with Ledger(shared) as ledger:
        out = x
        for block in shared.blocks:
            out = block(out)
        found = ledger.now()["activations"]
    out.sum().backward()
    return found


@pytest.mark.parametrize("size", [2, 3])
def test_what_a_layer_keeps(ranks, size):
    """In units of one activation of all tokens, b·s·h numbers; the weights of the flash attention apart.

    Between the blocks: two norms (each its input, and what it gives the block), two branches' sums; without sequence
    parallelism whole, with it over the ranks. Two gathered inputs where they are kept, in place of shares.
    """
    whole, kept, again = (ranks(size, held, form)[0] for form in ((False, True, False), FORMS[2], FORMS[1]))
    unit = TOKENS * HIDDEN * 4
    assert kept - again == LAYERS * 2 * unit * (size - 1) // size
    # norm's input and output, twice a layer; the first input is not the layers' own, the last sum is added
    statistics = LAYERS * 2 * 2 * TOKENS * 4
    assert whole - again == (LAYERS * 4 * unit + statistics) * (size - 1) // size


def test_ring_and_plain_keep_the_same(ranks):
    for ring, plain in zip(FORMS[3:], FORMS[1:3], strict=True):
        assert ranks(2, held, ring) == ranks(2, held, plain)


def alone():
    return dist.get_world_size(), sent("gpt", FORMS[1], "all")


def test_a_group_of_one(ranks):
    assert ranks(1, alone) == [(1, 0)]
