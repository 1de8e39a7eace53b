"""Collecting votes: who takes part, one exchange after another, in plaintext or as masked sums."""
