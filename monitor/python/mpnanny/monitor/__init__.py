"""A run from its start to its end, and what users call: puts all other rooms together."""
