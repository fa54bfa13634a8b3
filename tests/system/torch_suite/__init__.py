"""PyTorch's own distributed tests, as its wheel ships them, run against backend ``ring`` and against gloo."""
