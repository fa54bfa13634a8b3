"""The commands of ``python -m sim``."""
