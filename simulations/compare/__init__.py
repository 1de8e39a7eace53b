"""What only a simulation can know: truth, baselines, and one model on all rows together."""
