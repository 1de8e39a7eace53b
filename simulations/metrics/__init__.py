"""Metrics on test rows as what they are means of, and how far they may lie from the truth."""
