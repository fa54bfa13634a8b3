"""What the step model does not derive: the constants of software, frozen here, each with its source.

A software is what ran the published steps of its time. ``matmul``, ``attention`` and ``fp8`` were fitted, by the least
mean of errors' sizes, on the rows named in ``fitted_on`` and on no others. Nothing else was fitted to measured steps;
which effects there are was decided with published steps in sight:

    constant     value    source
    saturation   100      elements of a side at which a product reaches half of its rate
    memory       0.80     of the data sheet's bandwidth, which copies reach on A100 and H100
    launch       8 us     to start a kernel from eager Python
    hides_p2p    –        interleaved pipelines send under computing: Megatron-LM since 2023 (overlap_p2p_comm)
    hides_tp     –        the backward's sums run under the products of weight gradients: Megatron-LM since 2022
                          (LinearWithGradAccumulationAndAsyncCommunication)
    prefetches   –        FSDP gathers the next layer under the backward; not so with Composer's default, BACKWARD_POST
    CALL, FILL   8.4 us, 1 us   NCCL's Simple protocol, as in :mod:`sim.protocols`
    P2P          10 us    a message between nodes, started and received
    SHARE        0.16     of the multiprocessors, which communication takes while it runs under computing: this then
                          slows by 18.9 % on average (Lee et al. 2025, arXiv 2507.03114: A100, H100, MI210, MI250);
                          on Hopper 20 of 132 (DeepSeek-AI 2024, DeepSeek-V3 technical report, section 3.2.2)
    HOST_MEMORY  25 GB/s  a GPU's share of its host's memory, for an optimizer that runs there (8 GPUs at 200 GB/s)
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace

CALL = 8.4e-6
FILL = 1e-6
P2P = 10e-6
HOST_MEMORY = 25e9
SHARE = 1 - 1 / 1.189
SHARES: Mapping[str, float] = {"h100": 20 / 132, "h800": 20 / 132, "h200": 20 / 132, "h20": 20 / 78}
CALIBRATED = ("matmul", "attention", "fp8", "memory", "saturation")


@dataclass(frozen=True)
class Error:
    """How wrong predictions with a software were: their mean size in percent over n measured steps, and of which.

    how: ``unseen``, none of them was used for fitting; ``left out``, each model was predicted from fits to the others;
    ``fitted``. experts: of models with experts.
    """

    mape: float
    n: int
    rows: str
    how: str
    experts: bool = False


@dataclass(frozen=True)
class Software:
    """matmul: share of the peak that a large product reaches; fp8: the same in 8 bits; attention: that of flash
    attention; saturation: elements; memory: share of the bandwidth; launch: seconds a kernel. What is hidden: above."""

    name: str
    matmul: float
    attention: float
    fp8: float
    fitted_on: str
    errors: tuple[Error, ...] = ()
    saturation: float = 100
    memory: float = 0.80
    launch: float = 8e-6
    hides_p2p: bool = True
    hides_tp: bool = True
    prefetches: bool = True


_FOUNDRY_A100 = "llm-foundry's benchmarks on A100, 40 and 80 GB: 66 rows in bf16, 125M to 70B, FSDP"
_FOUNDRY_H100 = "llm-foundry's benchmarks on H100, early 2023: 37 rows in bf16, 4 in fp8, 760M to 70B, FSDP"
_DGXC = "dgxc-benchmarking v25.04.01 on H100, Llama 3.1 8B to 405B: 8 rows in bf16, 11 in fp8"
_BLACKWELL = (
    "fp8: Megatron-Bridge 25.11 to 26.08, Llama 3 8B to 405B on B200, GB200, GB300: 27 rows; matmul: SimuMax 1.2, "
    "Llama 3 70B and 405B on B200: 6 rows; attention: that of 2024"
)
# Measured with `python -m sim validate training` on the rows that are named, when the constants were frozen.
_ERRORS: Mapping[str, tuple[Error, ...]] = {
    "2021": (Error(2.0, 6, "Megatron-LM on A100, 1.7B to 1T, 32 to 3,072 GPUs", "unseen"),),
    "2022": (Error(6.9, 63, "Megatron-DeepSpeed on A100, 3.6B to 175B, 64 to 512 GPUs", "unseen"),),
    "2023": (Error(4.1, 66, "llm-foundry on A100, 125M to 70B, 8 to 128 GPUs", "left out"),),
    "2023-h100": (Error(4.9, 37, "llm-foundry on H100, 760M to 70B, 8 to 512 GPUs", "left out"),),
    "2024-fsdp": (Error(16.3, 18, "torchtitan on H100, 8B to 405B, 8 to 512 GPUs", "unseen"),),
    "2024": (
        Error(3.7, 8, "Megatron-Bridge on H100 in fp8, 8B to 405B", "unseen"),
        Error(4.6, 3, "Megatron-Bridge on H100 in fp8, Qwen3", "unseen", experts=True),
    ),
    "2025": (
        Error(7.4, 27, "Megatron-Bridge on Blackwell in fp8, 8B to 405B", "fitted"),
        Error(18.5, 41, "Megatron-Bridge on Blackwell, Qwen3 and DeepSeek-V3", "unseen", experts=True),
    ),
}
SOFTWARE = {
    software.name: replace(software, errors=_ERRORS[software.name])
    for software in (
        Software("2021", 0.775, 0.31, 0.775, _FOUNDRY_A100, hides_p2p=False, hides_tp=False),
        Software("2022", 0.775, 0.31, 0.775, _FOUNDRY_A100, hides_p2p=False),
        Software("2023", 0.775, 0.31, 0.775, _FOUNDRY_A100, prefetches=False),
        Software("2023-h100", 0.65, 0.17, 0.50, _FOUNDRY_H100, prefetches=False),
        Software("2024-fsdp", 0.65, 0.17, 0.50, _FOUNDRY_H100),
        Software("2024", 0.695, 0.445, 0.72, _DGXC),
        Software("2025", 0.45, 0.445, 0.64, _BLACKWELL),
    )
}
BLACKWELL = ("b200", "gb200", "b300", "gb300")
EARLIER = ("p100", "v100", "v100-16g", "t4", "a10", "a100", "a100-40g", "a800")


def software_of(name: str = "", chip: str = "") -> Software:
    """The software of that name; by default what is usual on the chip: 2022 up to A100, 2024 on
    H100, 2025 on Blackwell.

    Raises:
        ValueError: none of that name.
    """
    name = name or ("2022" if chip in EARLIER else "2025" if chip in BLACKWELL else "2024")
    if name not in SOFTWARE:
        near = difflib.get_close_matches(name, SOFTWARE, n=3, cutoff=0.4) or list(SOFTWARE)
        raise ValueError(f"software {name!r} is unknown: use {', '.join(near)}")
    return SOFTWARE[name]


def error_of(software: Software, experts: bool) -> Error | None:
    """That of models with experts, or without; None if nothing is known."""
    return next((error for error in software.errors if error.experts == experts), None)


def calibrated(software: Software, text: str) -> Software:
    """The software with other constants: ``matmul=0.72,attention=0.5``. Its error is then not known.

    Raises:
        ValueError: an unknown constant, or a value that makes no sense.
    """
    values: dict[str, float] = {}
    for part in text.split(","):
        name, _, said = part.partition("=")
        if name not in CALIBRATED:
            raise ValueError(f"constant {name!r} is unknown: use {', '.join(CALIBRATED)}, like matmul=0.72")
        try:
            value = float(said)
        except ValueError:
            value = -1.0
        if not (0 <= value <= 1e4 if name == "saturation" else 0.01 <= value <= 1):
            limits = "0 to 10000" if name == "saturation" else "0.01 to 1"
            raise ValueError(f"{name}={said}: use a number from {limits}")
        values[name] = value
    return replace(software, errors=(), **values)  # type: ignore[arg-type]
