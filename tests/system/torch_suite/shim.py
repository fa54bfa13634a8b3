"""A CPU that poses as one GPU a rank, so that tests which only want a device to put tensors on can run."""

from __future__ import annotations

import contextlib

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode

CPU = torch.device("cpu")


def open_gates(common_distributed) -> None:
    """Before the suite is imported: nothing is skipped for want of GPUs, and rank r's is number r."""
    common_distributed.skip_if_no_gpu = lambda test: test
    common_distributed.skip_if_lt_x_gpu = lambda count, **how: lambda test: test
    common_distributed.nccl_skip_if_lt_x_gpu = lambda backend, count: lambda test: test
    common_distributed.init_multigpu_helper = lambda world_size, backend: {rank: [rank] for rank in range(world_size)}


def pose() -> None:
    """In a rank: every CUDA device is the CPU."""
    torch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *args, **kwargs: self
    for name in ("set_device", "synchronize", "manual_seed"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)
    torch.cuda.current_device = lambda: 0
    torch.cuda.device = torch.cuda.stream = lambda *args, **kwargs: contextlib.nullcontext()
    _without_device_ids(DistributedDataParallel)
    _to_cpu(torch.nn.Module)
    OnCpu().__enter__()  # for as long as this process lives


class OnCpu(TorchFunctionMode):
    """Tensors that are wanted on a GPU are made, or stay, on the CPU."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if _is_gpu(kwargs.get("device")):
            kwargs["device"] = CPU
        if function is torch.Tensor.to:
            args = (args[0], *(CPU if _is_gpu(value) else value for value in args[1:]))
        return function(*args, **kwargs)


def _is_gpu(device: object) -> bool:
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return (isinstance(device, int) and not isinstance(device, bool)) or str(device).startswith("cuda")


def _without_device_ids(cls: type) -> None:
    init = cls.__init__

    def on_cpu(self, *args, device_ids=None, output_device=None, **kwargs):
        init(self, *args, **kwargs)

    cls.__init__ = on_cpu


def _to_cpu(cls: type) -> None:
    to = cls.to

    def on_cpu(self, *args, **kwargs):
        if _is_gpu(kwargs.get("device")):
            kwargs["device"] = CPU
        return to(self, *(CPU if _is_gpu(value) else value for value in args), **kwargs)

    cls.to = on_cpu
