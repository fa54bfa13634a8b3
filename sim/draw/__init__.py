"""One ``Replay``, many pictures: terminal, SVG, PNG, an offline page, and a trace for Perfetto."""
