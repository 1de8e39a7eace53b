"""Verified votes at a party: its votes as one upload for each session, of which it keeps the bytes."""
