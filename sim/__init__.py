"""A discrete-event simulator that reads the schedules which the other packages run."""
