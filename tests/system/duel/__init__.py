"""Training steps and single collectives side by side: contestants take turns in one run; a second gloo is the null."""
