"""The second aggregator of verified votes: checks every vote with the coordinator, unseen, and gives its half of the sum."""
