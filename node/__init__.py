"""A node on its own machine: kit, keys, state, start, watching, checks; a `NodeKind` for each of the four."""
