"""Every pair of ranks measured: rounds, times, the odd ones, and the picture."""
