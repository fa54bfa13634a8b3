"""Checkpoints that know nothing of the ranks that wrote them: sharded, whole or absent, read on any mesh.

====================  =================================================================================
``place``             where a rank's elements lie in the whole tensor
``holding``           what a rank holds of a model and its optimizer, by names that no mesh changes
``index``             what a checkpoint contains, as JSON; every mistake in one is named
``folder``            checkpoints on disk: written beside, renamed when whole, the latest found, old ones removed
``saving``            every rank writes what it holds, once; ``loading`` cuts what it needs from all files
====================  =================================================================================
"""

from .folder import Folder
from .holding import Holding, holdings_of
from .loading import load
from .place import Place
from .saving import save

__all__ = ["Folder", "Holding", "Place", "holdings_of", "load", "save"]
