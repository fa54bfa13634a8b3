"""Commands of ``python -m collectives`` that need no ranks; each module has HELP, add_arguments and main."""
