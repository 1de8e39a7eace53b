"""Exact data-dependent cost of what leaves: one label, or one bit of a threshold check, at the votes at hand. Secret."""
