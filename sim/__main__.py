"""``python -m sim COMMAND``: schedules on a clock, on a network, and on paper."""

import sys

from collectives.door import Door

DOOR = Door(
    "sim",
    "Simulate what the other packages run: how long does it take, why, and what does it look like?",
    {
        "collective": "sim.commands.collective",
        "topology": "sim.commands.topology",
        "rings": "sim.commands.rings",
        "calibrate": "sim.commands.calibrate",
        "validate": "sim.commands.validate",
        "overlay": "sim.commands.overlay",
        "hosts": "sim.commands.hosts",
        "pipeline": "sim.commands.pipeline",
        "params": "sim.commands.params",
        "memory": "sim.commands.memory",
        "flops": "sim.commands.flops",
        "step": "sim.commands.step",
        "plan": "sim.commands.plan",
        "run": "sim.commands.run",
        "compare": "sim.commands.compare",
        "inference": "sim.commands.inference",
    },
    """examples:
  python -m sim collective --algorithm ring --ranks 8 --size 1G --topology dgx-h100
  python -m sim pipeline --schedule 1f1b --stages 4 --microbatches 8
  python -m sim memory --model llama3-70b --gpus 64 --tp 8 --pp 4 --zero 1 --gpu h100
  python -m sim step --model llama3-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1 --gpu h100
  python -m sim plan --model llama3-70b --gpus 64 --gpu h100
  python -m sim run --model llama3-70b --gpus 64 --gpu h100 --tokens 1.4T --gpu-hour 2.5
  python -m sim topology topo.txt""",
)

if __name__ == "__main__":
    sys.exit(DOOR.main())
