"""Data, tensor and pipeline parallelism on the collectives of this project."""
