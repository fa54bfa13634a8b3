"""What ``check`` does with a file: proof of schedules, real ranks for bare code, formulas, and what it all costs."""
