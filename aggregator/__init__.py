"""The second aggregator of verified votes: checks votes with the coordinator, unseen, and gives half of the sum."""

SETTINGS = "aggregator.toml"
"""Of a second aggregator, in its home."""
