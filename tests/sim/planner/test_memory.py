"""The memory ledger, against the tables of papers, published figures and measured runs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy
import pytest

from sim.__main__ import DOOR
from sim.planner.activations import layer, logits, output
from sim.planner.layout import Layout
from sim.planner.memory import FRAGMENTATION, fullest, ledgers, stage_ledger
from sim.planner.models import MODELS
from sim.planner.precision import PRECISIONS, find_precision
from sim.planner.transformer import Transformer, changed

GIB = 1 << 30
GPT3 = MODELS["gpt3-175b"]
SHAPES = [MODELS["megatron-22b"], changed(GPT3, vocab=51200), MODELS["mt-nlg-530b"], MODELS["megatron-1008b"]]


def unfused(**numbers: object) -> Layout:
    return Layout(flash=False, **numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", SHAPES, ids=lambda model: model.name)
@pytest.mark.parametrize("t", [1, 2, 8])
@pytest.mark.parametrize("b", [1, 4])
def test_the_table_of_activations(model, t, b):
    """Korthikanti et al. 2022, table 2: bytes of a layer."""
    s, h, a = model.sequence, model.hidden, model.heads
    sbh = s * b * h
    found = {
        (recompute, sp): layer(model, unfused(tp=t, sp=sp, microbatch=b, recompute=recompute)).kept
        for recompute in ("none", "selective", "full")
        for sp in (False, True)
    }
    assert found["none", False] == pytest.approx(sbh * (10 + 24 / t + 5 * a * s / (h * t)), rel=1e-12)
    assert found["none", True] == pytest.approx(sbh / t * (34 + 5 * a * s / h), rel=1e-12)
    assert found["selective", False] == pytest.approx(sbh * (10 + 24 / t), rel=1e-12)
    assert found["selective", True] == pytest.approx(34 * sbh / t, rel=1e-12)
    assert found["full", False] == 2 * sbh
    assert found["full", True] == 2 * sbh / t


def test_scores_of_the_paper():
    """5as/h is 80 for GPT-3 and 64 for MT-NLG."""
    for model, factor in ((GPT3, 80), (MODELS["mt-nlg-530b"], 64)):
        found = layer(model, unfused())
        assert found.scores == factor * model.sequence * model.hidden
        assert found.whole == found.kept


# The same paper's figure 7, as Calculon's authors read it off: percent of tensor parallelism alone, on 8 ranks: with
# sequence parallelism, with selective recompute, with both, with full recompute.
FIGURE_7 = {
    "megatron-22b": (66.84, 49.42, 16.18, 7.64),
    "gpt3-175b": (62.04, 56.53, 18.49, 8.71),
    "mt-nlg-530b": (58.31, 62.04, 20.27, 9.42),
    "megatron-1008b": (58.31, 62.04, 20.27, 9.42),
}


@pytest.mark.parametrize("name", FIGURE_7)
def test_figure_7(name):
    def kept(sp: bool, recompute: str) -> float:
        return layer(MODELS[name], unfused(tp=8, sp=sp, recompute=recompute)).kept

    found = [kept(True, "none"), kept(False, "selective"), kept(True, "selective"), kept(False, "full")]
    shares = [100 * value / kept(False, "none") for value in found]
    assert shares == pytest.approx(FIGURE_7[name], abs=0.15)


def test_figure_1():
    """GiB of activations on a GPU of the first stage; 22 B with four samples a microbatch, the others with one."""
    tuned = {"tp": 8, "sp": True, "recompute": "selective"}
    for name, split, plain, both in (
        ("megatron-22b", {"microbatch": 4}, 59.25, 9.5625),
        ("mt-nlg-530b", {"pp": 35, "vpp": 3, "schedule": "interleaved", "global_batch": 280}, 114.0234, 23.0762),
        ("megatron-1008b", {"pp": 64, "global_batch": 512}, 131.25, 26.5625),
    ):
        model = MODELS[name]
        for more, published in (({"tp": 8}, plain), (tuned, both)):
            layout = unfused(**split, **more)
            layers = layout.layers_of(model, 0)[0]
            found = layer(model, layout).kept * layers * layout.in_flight(0) / GIB
            assert found == pytest.approx(published, rel=2e-3), name


def test_interleaving_holds_more():
    """The first stage: × (1 + (p - 1)/(p v))."""
    one = Layout(pp=8, global_batch=64)
    for v in (2, 3, 4):
        more = Layout(pp=8, vpp=v, schedule="interleaved", global_batch=64)
        assert more.in_flight(0) / one.in_flight(0) == pytest.approx(1 + 7 / (8 * v))


def test_flash_attention_keeps_one_number_a_query_and_head():
    model = MODELS["llama3-8b"]
    with_scores, without = (layer(model, Layout(flash=flash)).kept for flash in (False, True))
    s, a = model.sequence, model.heads
    assert with_scores - without == 2 * a * s * s - 4 * a * s


def test_a_layer_of_llama():
    """Two norms' inputs, two inputs of linear layers, q, k, v, attention's output, gate, up and their product."""
    model = MODELS["llama3-70b"]
    s, h, f = model.sequence, model.hidden, model.ffn
    expected = 2 * s * (2 * h + 2 * h + h + 2 * h * 8 / 64 + h + 3 * f) + 4 * s * 64
    assert layer(model, Layout()).kept == expected


def test_a_layer_of_mixtral():
    """Every token goes to two experts: what they get, gate, up, their product, what they return; the router."""
    model, tokens = MODELS["mixtral-8x7b"], 4096
    h, f = model.hidden, model.expert_ffn
    attention = 2 * tokens * (2 * h + h + h + 2 * h * 8 / 32 + h) + 4 * tokens * 32  # norms' inputs and q, k, v, output
    mixture = 2 * tokens * 2 * (2 * h + 3 * f) + 4 * tokens * 8
    assert layer(model, Layout(), sparse=True).kept == attention + mixture
    split = layer(model, Layout(tp=4, sp=True, ep=4, dp=4, etp=1), sparse=True)  # ranks of TP share the tokens
    assert split.kept == (attention + mixture) / 4


def test_a_layer_of_qwen():
    """Its queries and keys are normalised, so they are kept before and after."""
    model = MODELS["qwen3-30b-a3b"]
    plain, normed = (layer(replace(model, qk_norm=which), Layout()).kept for which in (False, True))
    assert normed - plain == 2 * model.sequence * 128 * (32 + 4)


def test_a_layer_of_deepseek():
    """Compressed queries, keys and values before and after their norms; then heads of 128 + 64 and of 128."""
    model = MODELS["deepseek-v3"]
    s, h = model.sequence, model.hidden
    compressed = 2 * 1536 + 2 * 512 + 64
    heads = 128 * (192 + 192 + 128 + 128)
    expected = 2 * s * (3 * h + compressed + heads) + 2 * s * (h + 3 * 18432) + 4 * s * 128
    assert layer(model, Layout()).kept == expected


def test_logits_and_what_comes_before_them():
    """4sbh (1 + V/h) for one stage: Korthikanti et al. 2022, section 4.3."""
    layout = Layout(microbatch=3)
    s, h, v = GPT3.sequence, GPT3.hidden, GPT3.vocab
    assert output(GPT3, layout) + logits(GPT3, layout) == 4 * s * 3 * h * (1 + v / h)


def test_the_backward_of_gathered_inputs():
    """Keeping both gathered inputs of a layer costs 4sbh (1 - 1/t), and saves a gather each."""
    model, t = GPT3, 8
    kept, again = (layer(model, Layout(tp=t, sp=True, regather=regather)).kept for regather in (False, True))
    assert kept - again == pytest.approx(4 * model.sequence * model.hidden * (1 - 1 / t))


def test_context_parallelism_splits_tokens():
    model = MODELS["llama3-8b"]
    one, four = (layer(model, Layout(cp=cp)).kept for cp in (1, 4))
    assert one == 4 * four


# At rest.


@pytest.mark.parametrize("stage", range(4))
def test_zero_to_the_byte(stage):
    """16X; 4X + 12X/N; 2X + 14X/N; 16X/N, of a model whose parameters 8 divides."""
    model, n = MODELS["gpt2"], 8
    x = 124_439_808
    ledger = stage_ledger(model, Layout(dp=n, zero=stage), 0)
    assert ledger.parameters == (2 * x // n if stage == 3 else 2 * x)
    assert ledger.gradients == (2 * x // n if stage >= 2 else 2 * x)
    assert ledger.optimizer == (12 * x // n if stage else 12 * x)


def test_gpt2_of_a_billion_and_a_half():
    """16 bytes a parameter: at least 24 GB."""
    ledger = stage_ledger(MODELS["gpt2-xl"], Layout(), 0)
    assert ledger.states == 16 * 1_557_611_200 > 24e9


@pytest.mark.parametrize(("name", "size"), [("fp32", 400e9), ("bf16", 200e9), ("fp16", 200e9)])
def test_a_hundred_billion(name, size):
    from sim.planner.transformer import of_parameters

    ledger = stage_ledger(of_parameters(10**11), Layout(precision=PRECISIONS[name]), 0)
    assert ledger.parameters == size


@pytest.mark.parametrize(
    ("precision", "optimizer", "fp32", "each"),
    [
        ("fp32", "adam", False, (4, 4, 8)),
        ("bf16", "adam", False, (2, 2, 12)),
        ("bf16", "adam", True, (2, 4, 12)),
        ("bf16", "adam8bit", False, (2, 2, 4 + 2 + 8 / 256)),
        ("fp32", "adam8bit", False, (4, 4, 2 + 8 / 256)),
        ("fp16", "sgd", False, (2, 2, 4)),
        ("fp32", "momentum", False, (4, 4, 4)),
        ("pure-fp16", "adam", False, (2, 2, 4)),
    ],
)
def test_bytes_of_a_parameter(precision, optimizer, fp32, each):
    state = find_precision(precision, optimizer, fp32).state
    assert (state.parameters, state.gradients, state.optimizer) == each


def test_experts_are_split_over_those_that_hold_the_same():
    """Mixtral on 16 ranks with EP 8: two ranks hold the same experts, so ZeRO-1 halves their states."""
    model = MODELS["mixtral-8x7b"]
    ledger = stage_ledger(model, Layout(dp=16, ep=8, zero=1), 0)
    experts = 45_097_156_608 // 8
    rest = 46_702_792_704 - 45_097_156_608
    assert ledger.parameters == 2 * (experts + rest)
    assert ledger.optimizer == 12 * (experts // 2 + rest // 16)


# What comes and goes.


def test_offload_moves_and_loses_nothing():
    model, layout = MODELS["llama3-8b"], Layout(dp=8, zero=2, recompute="full")
    plain = stage_ledger(model, layout, 0)
    moved = stage_ledger(model, replace(layout, offload=("optimizer",)), 0)
    assert moved.parameters == plain.parameters == 2 * 8_030_261_248  # ZeRO-Offload: 2P on the GPU
    assert moved.gradients == moved.optimizer == 0
    assert moved.host == plain.gradients + plain.optimizer
    far = stage_ledger(model, replace(layout, zero=3, offload=("parameters", "activations")), 0)
    near = stage_ledger(model, replace(layout, zero=3), 0)
    assert far.states == 0
    assert far.host + far.activations == pytest.approx(near.states + near.activations)
    assert far.activations == 2 * 2 * model.sequence * model.hidden  # the inputs of two layers


def test_zero_3_gathers_layers():
    """The layer that computes and the next, and one layer's gradients; of a small model the vocabulary is larger."""
    model = MODELS["llama3-70b"]
    block = 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672 + 2 * 8192
    table = 128256 * 8192
    ledger = stage_ledger(model, Layout(dp=8, zero=3), 0)
    assert ledger.buffers == (2 * 2 + 2) * max(block, table)


def test_what_communication_needs():
    """One buffer each, of a Llama 3 8B microbatch of 8,192 tokens in 16 bits."""
    model, message = MODELS["llama3-8b"], 2 * 8192 * 4096
    assert stage_ledger(model, Layout(), 0).buffers == 0
    assert stage_ledger(model, Layout(tp=2), 0).buffers == 0  # summed in place
    assert stage_ledger(model, Layout(tp=2, sp=True), 0).buffers == message  # the gathered input
    assert stage_ledger(model, Layout(pp=2), 0).buffers == 2 * message  # one received, one sent
    assert stage_ledger(model, Layout(pp=2, tp=2, sp=True), 0).buffers == message + message
    assert stage_ledger(model, Layout(cp=2), 0).buffers == 2 * 2 * 4096 * 2 * 1024  # keys and values, in and out
    tables = 128256 * 4096
    assert stage_ledger(model, Layout(dp=2, wire="int8"), 0).buffers == pytest.approx(tables * (1 + 4 / 128))


def test_what_the_backward_needs_for_a_moment():
    """The widest gradient of a layer and the gradient of its largest matrix; at the output, that of the logits."""
    model = MODELS["llama3-70b"]
    s, h, f = model.sequence, model.hidden, model.ffn
    middle = stage_ledger(model, Layout(pp=4, global_batch=4), 1)
    assert middle.working == 2 * s * (2 * f + h) + 2 * 2 * f * h
    end = stage_ledger(MODELS["llama3-8b"], Layout(), 0)
    assert end.working == 2 * 8192 * 128256


def test_the_first_and_the_last_stage_keep_more():
    """A mask and the numbers of tokens for each microbatch in flight; two inputs for the one that is at the loss."""
    model = MODELS["gpt2"]
    layout = Layout(pp=3, global_batch=6)
    s, h = model.sequence, model.hidden
    block = layer(model, layout).kept * 4
    kept = [stage.activations for stage in ledgers(model, layout)]
    assert kept == [3 * (block + s * (8 + h)), 2 * block, block + 4 * s * h]


def test_gpipe_holds_all_and_recompute_helps():
    model = MODELS["gpt2"]
    layout = Layout(pp=4, global_batch=16)
    gpipe, one = (ledgers(model, replace(layout, schedule=name)) for name in ("gpipe", "1f1b"))
    assert gpipe[1].activations / one[1].activations == pytest.approx(16 / 3)
    assert gpipe[3].logits == 16 * one[3].logits
    full = stage_ledger(model, replace(layout, recompute="full"), 1)
    assert full.activations == 3 * 3 * 2 * model.sequence * model.hidden
    assert full.working > one[1].working


def test_the_sum_and_the_allowance():
    ledger = stage_ledger(GPT3, Layout(pp=8, tp=8, dp=2, sp=True, zero=1), 0)
    kinds = ("parameters", "gradients", "optimizer", "activations", "logits", "working", "buffers")
    assert ledger.allocated == pytest.approx(sum(getattr(ledger, kind) for kind in kinds))
    moving = ledger.activations + ledger.logits + ledger.working + ledger.buffers
    assert ledger.total - ledger.allocated == pytest.approx(FRAGMENTATION * moving)
    told = ledger.as_dict()
    assert all(isinstance(value, int) for value in told.values())
    assert told["total"] == pytest.approx(ledger.total, abs=1)


# MooreThreads/SimuMax, docs/b200 of release 1.2: peak of allocated GiB of Megatron-LM 0.14 on 8 B200, truncated models,
# fp32 gradients, distributed optimizer. No constant was fitted on them.
MEASURED = [
    ("deepseek-v2", 4, 1, 4096, {"dp": 8, "ep": 8}, 45.63),
    ("deepseek-v2", 4, 1, 4096, {"dp": 4, "pp": 2, "ep": 4}, 44.70),
    ("deepseek-v3", 4, 1, 4096, {"dp": 8, "ep": 8}, 104.30),
    ("llama3.1-405b", 4, 0, 4096, {"dp": 4, "pp": 2}, 87.08),
    ("llama3.1-405b", 4, 0, 32768, {"cp": 8}, 139.22),
    ("llama3-70b", 12, 0, 32768, {"cp": 8}, 104.51),
    ("llama3-70b", 12, 0, 131072, {"cp": 8}, 147.99),
]


@pytest.mark.parametrize("microbatches", [4, 8, 32])
@pytest.mark.parametrize(("name", "layers", "dense", "sequence", "split", "peak"), MEASURED)
def test_measured_peaks_within_five_percent(name, layers, dense, sequence, split, peak, microbatches):
    model = changed(MODELS[name], layers=layers, dense_layers=dense, sequence=sequence)
    precision = find_precision("bf16", fp32_gradients=True)
    batch = microbatches * split.get("dp", 1)
    layout = Layout(**split, etp=1 if "ep" in split else 0, zero=1, global_batch=batch, precision=precision)
    stages = ledgers(model, layout)
    assert stages[fullest(stages)].allocated / GIB == pytest.approx(peak, rel=0.05)


# `python -m parallel compare --model small --ranks 2`: what real ranks held, in bytes. It is eager PyTorch in fp32.
HELD = [
    ("--microbatch 4", 3_369_984, 3_369_984, 6_739_968, 9_210_640),
    ("--dp 2 --microbatch 2", 3_369_984, 3_369_984, 6_739_968, 4_605_584),
    ("--dp 2 --microbatch 2 --zero 1", 3_369_984, 3_369_984, 3_369_984, 4_605_584),
    ("--dp 2 --microbatch 2 --zero 2", 3_369_984, 1_684_992, 3_369_984, 4_605_584),
    ("--dp 2 --microbatch 2 --zero 3", 1_684_992, 1_684_992, 3_369_984, 4_605_584),
]


@pytest.mark.parametrize(("split", "parameters", "gradients", "optimizer", "kept"), HELD)
def test_what_parallel_holds_to_the_byte_and_within_one_percent(capsys, split, parameters, gradients, optimizer, kept):
    told = "memory --model small --sequence 64 --precision fp32 --loss eager --json"
    assert DOOR.main([*told.split(), *split.split()]) == 0
    found = json.loads(capsys.readouterr().out)["per_gpu"]
    assert (found["parameters"], found["gradients"], found["optimizer"]) == (parameters, gradients, optimizer)
    assert found["activations"] + found["logits"] == pytest.approx(kept, rel=0.01)


# Arrays.


@pytest.mark.parametrize("name", ["gpt3-175b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("schedule", ["1f1b", "zbv", "gpipe", "interleaved"])
@pytest.mark.parametrize(("zero", "recompute"), [(0, "none"), (1, "selective"), (3, "full")])
def test_arrays_of_plans_are_their_plans(name, schedule, zero, recompute):
    """The same functions compute thousands of plans at once."""
    model, chance, count = MODELS[name], numpy.random.default_rng(5), 40
    numbers = {axis: 2 ** chance.integers(0, high, count) for axis, high in
               (("tp", 4), ("cp", 2), ("microbatch", 3), ("pp", 4))}  # fmt: skip
    numbers["dp"] = 2 ** chance.integers(3, 7, count)
    numbers["ep"] = 2 ** chance.integers(0, 3, count) if model.experts else numpy.ones(count, int)
    numbers["vpp"] = chance.integers(1, 4, count) if schedule == "interleaved" else numpy.ones(count, int)
    numbers["global_batch"] = numbers["dp"] * numbers["microbatch"] * numbers["pp"] * 4
    fixed = {"sp": True, "zero": zero, "recompute": recompute, "schedule": schedule}
    together = Layout(**numbers, **fixed)
    first, end = stage_ledger(model, together, 0), stage_ledger(model, together, numbers["pp"] - 1)
    for i in range(count):
        one = Layout(**{axis: int(values[i]) for axis, values in numbers.items()}, **fixed)
        for many, stage in ((first, 0), (end, one.pp - 1)):
            alone = stage_ledger(model, one, stage)
            for kind in ("parameters", "optimizer", "activations", "logits", "working", "buffers", "total"):
                value = numpy.broadcast_to(getattr(many, kind), count)[i]
                assert value == pytest.approx(getattr(alone, kind), rel=1e-12, abs=1e-6), (kind, one)


def test_numbers_beyond_64_bits():
    model = Transformer("huge", 10_000, 1 << 30, 1 << 20, 1 << 32, 1 << 20, 1 << 20)
    ledger = stage_ledger(model, Layout(dp=1 << 20, microbatch=1 << 20), 0)
    assert ledger.parameters > 2**64
    assert ledger.activations > 2**64
