"""Fewer bits for what is stored, sent and multiplied, at a loss that is stated and measured.

what                      bits                      bytes an element          off by at most
weights                   8, a scale a row          1                         max|row| / 254
                          8 or 4, a scale a block   1 + 4/block, ½ + 4/block  max|block| / 254, / 14
weights × activations     8 × 8                     1                         both of theirs
states of Adam            8, logarithmic, blocks    1 + 4/block               4.5 % of the momentum, 2.2 % of the root
sums over ranks           8, blocks                 1 + 4/block, twice        (1 + the ranks') max|block| / 254
"""

from .adam import Adam8bit
from .codes import Quantized, quantize
from .exchange import all_gather, all_reduce
from .linear import Int8Linear, QuantizedLinear, quantize_

__all__ = [
    "Adam8bit",
    "Int8Linear",
    "Quantized",
    "QuantizedLinear",
    "all_gather",
    "all_reduce",
    "quantize",
    "quantize_",
]
