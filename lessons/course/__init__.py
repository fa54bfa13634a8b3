"""A folder a lesson: its stub, solution, broken twin, and the facts of its text. They are read as files, by number."""
