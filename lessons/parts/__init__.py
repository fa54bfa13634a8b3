"""The parts of the course, a file each: its lessons in order, as ``manifest.py`` puts them together."""
