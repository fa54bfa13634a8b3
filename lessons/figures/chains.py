"""The chains of products of layers that two ranks share: an MLP, attention, and the two ends of a model."""

from __future__ import annotations

from .blocks import Chain, Matrix

_X, _Y = Matrix("X", "s × h", "all"), Matrix("Y", "s × h", "all")
_X_ROWS, _Y_ROWS = Matrix("X", "s × h", "rows"), Matrix("Y", "s × h", "rows")
_X_COLUMNS, _Y_COLUMNS = Matrix("X", "s × h", "columns"), Matrix("Y", "s × h", "columns")
_X_SUM, _Y_SUM = Matrix("X", "s × h", "sum"), Matrix("Y", "s × h", "sum")
_A = Matrix("A", "h × 4h", "columns", width=2)
_GELU = Matrix("GELU(XA)", "s × 4h", "columns", width=2)
_B = Matrix("B", "4h × h", "rows", height=2)
_HEADS = ("q0", "q1", "k0", "k1", "v0", "v1")  # the columns of a fused matrix, of two heads

PAIR: tuple[Chain, ...] = (
    ("tensor.figure.forward", (_X, "f ·", _A, "→", _GELU, "·", _B, "=", _Y_SUM, "g →", _Y)),
    (
        "tensor.figure.backward",
        (
            Matrix("∂Y", "s × h", "all"),
            "g ·",
            Matrix("Bᵀ", "h × 4h", "columns", width=2),
            "→",
            Matrix("∂(XA)", "s × 4h", "columns", width=2),
            "·",
            Matrix("Aᵀ", "4h × h", "rows", height=2),
            "=",
            Matrix("∂X", "s × h", "sum"),
            "f →",
            Matrix("∂X", "s × h", "all"),
        ),
    ),
)
ROWS_FIRST: tuple[Chain, ...] = (
    (
        "tensor.figure.rows_first",
        (
            _X_COLUMNS,
            "·",
            Matrix("A", "h × 4h", "rows", width=2),
            "=",
            Matrix("XA", "s × 4h", "sum", width=2),
            "Σ →",
            Matrix("GELU(XA)", "s × 4h", "all", width=2),
            "·",
            Matrix("B", "4h × h", "columns", height=2),
            "=",
            _Y_COLUMNS,
            "⇉",
            _Y,
        ),
    ),
)
ATTENTION: tuple[Chain, ...] = (
    (
        "tensor.figure.attention",
        (
            _X,
            "f ·",
            Matrix("", "h × 3h", "columns", width=3, parts=3, labels=("Q", "K", "V")),
            "→",
            Matrix("heads", "s × h", "columns"),
            "·",
            Matrix("O", "h × h", "rows"),
            "=",
            _Y_SUM,
            "g →",
            _Y,
        ),
    ),
)
FUSED: tuple[Chain, ...] = (
    ("tensor.figure.fused", (Matrix("", "h × 3h", "columns", width=6, parts=3, labels=_HEADS),)),
    ("tensor.figure.contiguous", (Matrix("", "h × 3h", "columns", width=6, labels=_HEADS),)),
)
SEQUENCE: tuple[Chain, ...] = (
    (
        "tensor.figure.sequence",
        (_X_ROWS, "gather →", _X, "·", _A, "→", _GELU, "·", _B, "=", _Y_SUM, "scatter →", _Y_ROWS),
    ),
)
VOCABULARY: tuple[Chain, ...] = (
    (
        "tensor.figure.embedding",
        (Matrix("tokens", "s", "all"), "→", Matrix("E", "v × h", "rows", height=2), "=", _X_SUM, "g →", _X),
    ),
    (
        "tensor.figure.logits",
        (
            _X,
            "f ·",
            Matrix("Eᵀ", "h × v", "columns", width=2),
            "=",
            Matrix("logits", "s × v", "columns", width=2),
        ),
    ),
)
