"""Consilium beside its peers: what one round costs a party around its teacher, at hundreds to tens of thousands.

The round: every party fits a logistic regression to its own rows, and says what it makes of 300 public rows. Each peer
does it on the same rows, and all votes must be the same, or the comparison is worth nothing. `task.py` is the round,
the other modules are the peers.
"""

from __future__ import annotations


def main(*parties: str) -> None:
    """Print the table. Peers import modules of this folder in processes of their own, and not what the table needs."""
    from benchmarks.peers.table import main as table

    table(parties)
