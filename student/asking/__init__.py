"""Which public rows a student asks about, in which order, and what it had decided before a crash."""
