"""Runs at a data holder: local data, teachers, votes, local policy."""
