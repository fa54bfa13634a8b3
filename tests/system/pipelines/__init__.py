"""Pipelines on real ranks, timed: their bubbles beside the predicted ones, and torch's beside ours."""
