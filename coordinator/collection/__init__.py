"""Collecting votes: who takes part, one exchange after another, in clear or as masked sums."""
