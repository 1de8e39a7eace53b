"""The tables of the ledger's file, as SQLite keeps their text."""

from __future__ import annotations

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE batches (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, event TEXT NOT NULL, asked INTEGER NOT NULL, answered INTEGER NOT NULL,
    parties INTEGER NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL UNIQUE);
CREATE TABLE releases (
    query_id TEXT PRIMARY KEY, seq INTEGER NOT NULL REFERENCES batches, position INTEGER NOT NULL,
    outcome INTEGER NOT NULL, label INTEGER NOT NULL, counts BLOB);
CREATE TABLE evidence (
    query_id TEXT PRIMARY KEY REFERENCES releases, log_q_check REAL, log_q_label REAL, histogram BLOB,
    probabilities BLOB);
CREATE TABLE closing (
    only INTEGER PRIMARY KEY CHECK (only = 1), at TEXT NOT NULL, result TEXT NOT NULL, previous TEXT NOT NULL,
    hash TEXT NOT NULL);
"""
WEIGHTED_TABLES = """
CREATE TABLE weights (party TEXT PRIMARY KEY, weight INTEGER NOT NULL);
CREATE TABLE sums (seq INTEGER PRIMARY KEY REFERENCES batches, votes INTEGER NOT NULL);
"""
"""Beside the others, in the ledger of a federation whose parties may have weights."""
PHASED_TABLES = "CREATE TABLE phases (seq INTEGER PRIMARY KEY REFERENCES batches, phase INTEGER NOT NULL)"
"""Beside the others, in the ledger of a federation with a schedule, from its first batch."""
LEFT_OVER_TABLE = (
    "CREATE TABLE left_over (seq INTEGER NOT NULL REFERENCES batches, position INTEGER NOT NULL,"
    " query_id TEXT NOT NULL, PRIMARY KEY (seq, position))"
)
"""Beside the others, in every ledger that 0.9 did not make: queries that parties voted on, and nothing was released."""
