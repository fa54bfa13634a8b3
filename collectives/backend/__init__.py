"""The parts of ``collectives.torch_backend``: a process group of ours, as PyTorch and its clients use it."""
