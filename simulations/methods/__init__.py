"""What a run is compared with, and a study compares: ways from private rows to one model, or to none."""
