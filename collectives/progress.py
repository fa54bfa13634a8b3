"""A progress bar on a terminal, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import Any


class Progress:
    """A bar on stderr, if that is a terminal and ``rich`` is there (which respects NO_COLOR).

    It is drawn when a step is made, never by a thread beside the measurement.
    """

    def __init__(self, steps: int, wanted: bool, does: str = "measuring") -> None:
        self._bar: Any = None
        if not wanted or not sys.stderr.isatty():
            return
        try:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar
        except ImportError:
            return
        self._bar = Bar(
            TextColumn(does),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(does, total=steps)

    def step(self) -> None:
        """One more is done."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, refresh=True)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """The bar is out of the way, so that something can be printed."""
        if self._bar is None:
            yield
            return
        self._bar.stop()
        try:
            yield
        finally:
            self._bar.start()

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
