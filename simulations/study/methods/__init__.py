"""What a study compares: ways from private rows to one model, or to none, each judged on the same rows."""
