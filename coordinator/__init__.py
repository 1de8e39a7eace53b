"""Runs at the coordinator: collection of votes, mechanisms, ledger, label service."""
