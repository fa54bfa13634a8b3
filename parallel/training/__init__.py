"""A whole training run on any mesh.

==============  ================================================================================
``recipe``      what a run is to do, checked before any process starts (no torch)
``models``      what can be trained; ``losses`` of its outputs; ``text`` to train on
``build``       the recipe on this rank: slices, stages, shards, and who runs and updates them
``straight``    forward and backward of all layers; ``piped``: through a pipeline
``training``    steps, traces, memory, checkpoints of it
``run``         resume, step, save, report; ``curve`` draws the loss
==============  ================================================================================
"""
