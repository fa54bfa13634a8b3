"""What formulas are compared with: examples, the library's own answers, and the mistakes that learners make.

A file a part of the course; the sentences of a part are in one file of the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..reference import Reference
from .collectives import COLLECTIVES
from .zero import ZERO

REFERENCES: Mapping[str, Reference] = {**COLLECTIVES, **ZERO}
