"""What a run would cost and answer, before it: noise for a target, and files of votes."""
