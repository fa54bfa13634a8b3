"""Whether a browser could show a page here, to somebody who sits in front of it."""

from __future__ import annotations

import os
import sys
import webbrowser


def has_browser() -> bool:
    """There is a browser, and a screen for it; a browser inside of the terminal would take that away."""
    if sys.platform not in ("darwin", "win32") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
