"""The benchmark: who takes part, how they are timed together in one run, and what is said of it."""
