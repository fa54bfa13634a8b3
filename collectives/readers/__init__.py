"""What other tools print, read without guessing: topologies, benchmark logs, traces. None of it needs torch."""
