"""The numbers of lesson 29."""

from __future__ import annotations

from parallel.mesh import Mesh

MESH = Mesh(pp=4, dp=2, tp=4)  # that of lesson 25


def facts() -> dict[str, str | int | float]:
    return {"ranks": MESH.size, "predict_answer": 0, "predict_tolerance": 0.0}
