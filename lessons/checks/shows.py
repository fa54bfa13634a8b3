"""Measurements in which anything may go wrong: that is said, and is no verdict."""

from __future__ import annotations

from collections.abc import Iterator

from ..answer import Answer, describe
from ..catalogue import Catalogue
from ..said import Finding, Passed, Said, Shown
from .measurement import Measurement


class Shows(Measurement):
    """Measures on this machine. A machine that is busy fails nobody: times are shown, and never judged."""

    def shown(
        self, answer: Answer, say: Catalogue, ranks: tuple[int, ...] = ()
    ) -> Iterator[Said | Shown | Passed | Finding]:
        from collectives.launch import RankFailed, RankTimeout

        try:
            yield from self.measure(answer, say)
        except RankTimeout as error:
            yield Shown(Said("measured.late", {"seconds": f"{error.timeout:g}"}))
        except RankFailed as error:
            yield Shown(Said("measured.failed", {"error": str(error).splitlines()[0]}))
        except Exception as error:
            yield Shown(Said("measured.failed", {"error": describe(error)}))

    def measure(self, answer: Answer, say: Catalogue) -> Iterator[Said | Shown | Passed | Finding]:
        """What begins, and what came of it; may raise anything."""
        raise NotImplementedError
