"""A party on a machine of its own: its SuperNode, what may run in it, and checks before it starts."""
