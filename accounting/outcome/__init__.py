"""Exact data-dependent cost of what leaves, one label or one bit of a check, at the votes at hand. Secret."""
