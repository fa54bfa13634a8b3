"""The course: build the collectives and the parallelisms yourself, step by step."""
