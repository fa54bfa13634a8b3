"""Both models, shared, against the plain one: loss, logits, norm, gradients, and parameters after steps of AdamW."""

from __future__ import annotations

import contextlib
import copy
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn

from parallel import DistributedDataParallel, Mesh, Zero, checkpoint, clip_grad_norm_
from parallel.llama import LLAMAS, Llama, LlamaConfig
from parallel.model import GPT, NO_TARGET, Config, cross_entropy
from parallel.tensor import (
    TensorParallel,
    load_whole_,
    parallelize_,
    split_of,
    vocab_parallel_cross_entropy,
    whole,
    whole_state,
)

VOCABULARY = 31  # which no world divides
CONFIGS = {
    "gpt": Config(layers=2, hidden=24, heads=12, vocabulary=VOCABULARY, positions=9),
    "llama": LlamaConfig(layers=2, hidden=48, heads=24, kv_heads=12, ffn=36, vocabulary=VOCABULARY, positions=9),
}
FORMS = [(False, True, False), (True, True, False), (True, False, False), (True, True, True), (True, False, True)]


def model(kind, seed=0):
    torch.manual_seed(seed)
    config = CONFIGS[kind]
    return (GPT(config) if kind == "gpt" else Llama(config)).double()


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2, eps=1e-4, weight_decay=0.1)


def batch(step, rows=3):
    """Odd sizes, another length each step; some targets do not count."""
    tokens = torch.randint(VOCABULARY, (rows, 9 - step % 3), generator=torch.Generator().manual_seed(step))
    targets = tokens.roll(-1, 1)
    targets[:, -1] = NO_TARGET
    targets[0, :2] = NO_TARGET
    return tokens, targets


def largest(pairs):
    return max((a - b).abs().max().item() for a, b in pairs)


def five_steps(kind, sequence, regather, ring, recompute=False):
    """Plain and shared beside each other, from other seeds than the shared model's own."""
    tp, mesh = TensorParallel(None, sequence, regather, ring), Mesh(tp=dist.get_world_size())
    plain = model(kind)
    shared = parallelize_(model(kind, seed=dist.get_rank()), tp)  # rank 0's values count
    if recompute:
        for block in shared.blocks:
            block.forward = partial(checkpoint, block.forward)
    ours, theirs = adam(shared.parameters()), adam(plain.parameters())
    worst = {}
    for step in range(5):
        tokens, targets = batch(step)
        for each in (ours, theirs):
            each.zero_grad()
        wanted = plain(tokens)
        total, count = cross_entropy(wanted, targets)
        (total / count).backward()
        logits = shared(tokens)
        total_here, count_here = vocab_parallel_cross_entropy(logits, targets, VOCABULARY, tp)
        (total_here / count_here).backward()
        assert count == count_here
        known = dict(plain.named_parameters())
        gradients = largest([(whole(p.grad, p, tp), known[name].grad) for name, p in shared.named_parameters()])
        norm, wanted_norm = clip_grad_norm_(shared, 0.5, mesh), nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        columns = wanted[..., tp.rank * logits.shape[-1] :][..., : logits.shape[-1]]
        found = {
            "loss": abs((total - total_here).item()),
            "logits": largest([(logits[..., : columns.shape[-1]], columns)]) if columns.shape[-1] else 0.0,
            "gradients": gradients,
            "norm": abs((norm - wanted_norm).item()),
        }
        worst = {name: max(value, worst.get(name, 0.0)) for name, value in found.items()}
        ours.step()
        theirs.step()
    state, known = whole_state(shared, tp), dict(plain.named_parameters())
    assert state.keys() == known.keys()
    return {**worst, "parameters": largest([(state[name], known[name]) for name in state])}


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_shared_model_ends_where_the_plain_one_does(ranks, size, kind):
    for form in FORMS:
        for found in ranks(size, five_steps, kind, *form):
            assert all(value < 1e-9 for value in found.values()), (form, found)


@pytest.mark.parametrize("form", FORMS[:4])
def test_recompute_runs_the_exchanges_again(ranks, form):
    for found in ranks(2, five_steps, "gpt", *form, recompute=True):
        assert all(value < 1e-9 for value in found.values()), found


def on_a_grid(kind, sequence, stage):
    """dp 2 × tp 2, each data-parallel rank with two rows of four, clipped over the mesh."""
    mesh = Mesh(dp=2, tp=2)
    tp = TensorParallel(mesh.group("tp"), sequence)
    plain, shared = model(kind), parallelize_(model(kind), tp)
    if stage is None:
        wrapped = DistributedDataParallel(shared, mesh.group("dp"))
        stepper = adam(shared.parameters())
    else:
        wrapped = stepper = Zero(shared, adam, stage, mesh)
    theirs, worst = adam(plain.parameters()), 0.0
    for step in range(5):
        tokens, targets = batch(step, rows=4)
        targets = tokens.roll(-1, 1)  # all count: the mean over ranks is the mean a token
        stepper.zero_grad()
        theirs.zero_grad()
        total, count = cross_entropy(plain(tokens), targets)
        (total / count).backward()
        rows = slice(2 * mesh.coordinates()["dp"], 2 * mesh.coordinates()["dp"] + 2)
        total, count = vocab_parallel_cross_entropy(wrapped(tokens[rows]), targets[rows], VOCABULARY, tp)
        (total / count).backward()
        norm = clip_grad_norm_(wrapped, 0.5, mesh)
        worst = max(worst, abs((norm - nn.utils.clip_grad_norm_(plain.parameters(), 0.5)).item()))
        stepper.step()
        theirs.step()
    with wrapped.whole() if stage == 3 else contextlib.nullcontext():
        state, known = whole_state(shared, tp), dict(plain.named_parameters())
    return max(worst, largest([(state[name], known[name]) for name in state]))


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("kind", CONFIGS)
def test_data_and_tensor_parallel(ranks, kind, sequence):
    assert max(ranks(4, on_a_grid, kind, sequence, None)) < 1e-9


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_zero_beside_tensor_parallel(ranks, stage):
    assert max(ranks(4, on_a_grid, "gpt", True, stage)) < 1e-9


def moved(kind):
    """The whole state of one run, cut for another form of the same model; its tied head stays tied."""
    tp = TensorParallel(sequence=True)
    first, second = parallelize_(model(kind), TensorParallel()), parallelize_(model(kind, seed=9), tp)
    state = whole_state(first, tp)
    load_whole_(second, state, tp)
    tokens, _ = batch(0)
    known = dict(first.named_parameters())
    same = all(torch.equal(p, known[name]) for name, p in second.named_parameters())
    errors = []
    for wrong in ({**state, "more": torch.zeros(1)}, {**state, "norm.weight": torch.zeros(3)}):
        with pytest.raises(ValueError, match="state: ") as error:
            load_whole_(second, wrong, tp)
        errors.append(str(error.value))
    return (
        same,
        torch.allclose(first(tokens), second(tokens), rtol=1e-12),
        errors,
        second.head.weight is second.embedding.weight,
    )


@pytest.mark.parametrize("kind", CONFIGS)
def test_state_of_one_is_cut_for_the_other(ranks, kind):
    for same, alike, errors, tied in ranks(3, moved, kind):
        assert same
        assert alike
        assert tied == (kind == "gpt")
        assert "more is only in it" in errors[0]
        assert "norm.weight is (3,) here" in errors[1]


def rules(kind):
    shared = parallelize_(model(kind), TensorParallel())
    return {name: split_of(p) for name, p in shared.named_parameters()}


def test_every_split_parameter_says_so(ranks):
    found = ranks(2, rules, "llama")[0]
    assert found["blocks.0.attention.qkv.weight"].parts == (48, 24, 24)
    assert found["blocks.0.mlp.gate_up.weight"].parts == (36, 36)
    assert found["blocks.1.mlp.down.weight"].dim == 1
    assert found["embedding.weight"].padded
    assert found["head.weight"].padded
    assert found["norm.weight"] is found["blocks.0.mlp_norm.weight"] is None
    gpt = ranks(2, rules, "gpt")[0]
    assert "head.weight" not in gpt  # tied: one parameter, one name
    assert gpt["blocks.0.mlp.down.bias"] is gpt["positions.weight"] is None


def untouched():
    """Refused, a model is as it was."""
    plain = GPT(Config(layers=1, hidden=9, heads=3, vocabulary=5, positions=4))
    before = copy.deepcopy(plain)
    with pytest.raises(ValueError, match="heads=3: 2 ranks do not divide them"):
        parallelize_(plain, TensorParallel())
    return [type(a) is type(b) for a, b in zip(plain.modules(), before.modules(), strict=True)]


def test_heads_that_do_not_divide(ranks):
    assert all(all(each) for each in ranks(2, untouched))


# The plain Llama.


def test_parameters_of_the_plain_llama_are_those_of_the_closed_form():
    """l·(2h² + 2·h·k·d + 3·h·f + 2h) + 2·v·h + h; Llama-3 8B has 8,030,261,248."""
    config = LlamaConfig(32, 4096, 32, 8, 14336, 128256, 8192, theta=500_000.0)
    with torch.device("meta"):
        assert sum(p.numel() for p in Llama(config).parameters()) == 8_030_261_248


def test_the_plain_llama_learns_and_looks_at_nothing_later():
    torch.manual_seed(0)
    llama = Llama(LLAMAS["llama-tiny"])
    tokens = torch.randint(256, (4, 33))
    other = tokens.clone()
    other[:, 20:] = (other[:, 20:] + 1) % 256
    assert torch.allclose(llama(tokens)[:, :20], llama(other)[:, :20], atol=1e-6)
    stepper, losses = torch.optim.AdamW(llama.parameters(), lr=1e-2), []
    for _ in range(60):
        total, count = cross_entropy(llama(tokens[:, :-1]), tokens[:, 1:])
        losses.append((total / count).item())
        stepper.zero_grad()
        (total / count).backward()
        stepper.step()
    assert losses[0] == pytest.approx(5.545, abs=0.2)  # ln 256
    assert losses[-1] < 0.5


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"kv_heads": 3}, "kv_heads=3 does not divide heads=4: take 1"),
        ({"hidden": 12}, "have 3 elements each"),
        ({"heads": 3}, "heads=3 does not divide hidden=16"),
        ({"ffn": 0}, "ffn=0"),
    ],
)
def test_llamas_that_make_no_sense(sizes, said):
    with pytest.raises(ValueError, match=said):
        LlamaConfig(**({"layers": 1, "hidden": 16, "heads": 4, "kv_heads": 2, "ffn": 8} | sizes))
