"""What every rank here would import on its first step, imported once: before ranks are forked."""

from __future__ import annotations

import torch._dynamo  # noqa: F401  any optimizer imports it: a second

import collectives.arguments
import collectives.moving
import collectives.reducing  # noqa: F401
