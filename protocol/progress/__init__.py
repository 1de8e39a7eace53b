"""What one sees of work that takes minutes: its stages with the time that is left, as bars or as lines of a log."""
