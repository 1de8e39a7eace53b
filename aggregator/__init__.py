"""The second aggregator of verified votes: checks votes with the coordinator, unseen, and gives half of the sum."""
