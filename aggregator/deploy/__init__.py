"""A second aggregator on a machine of its own: its SuperNode, its own keys, and checks before it starts."""
