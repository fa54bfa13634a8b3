"""The commands of ``python -m parallel``."""
