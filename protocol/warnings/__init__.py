"""What a run warns of: a promise of little, noise that drowns the votes, a student that is worth nothing."""
