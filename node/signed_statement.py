"""What any node can check of a statement: who signed it, that each query is charged once, and that its
chain passes through what the node was told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from consilium.node.checks import Advice
from consilium.protocol.config_files import load
from consilium.protocol.errors import LedgerError
from consilium.protocol.ledger_statement import LedgerStatement
from consilium.protocol.models import Frozen
from consilium.sums.roster import PublicKey

ASK = "Ask the coordinator what became of it, and answer nothing more until it has said so"


SIGNING = "signing.json"
"""File of a kit: the key with which the coordinator signs statements."""


class SigningKey(Frozen):
    """coordinator: Ed25519, public, hex."""

    coordinator: PublicKey


def key_of_coordinator(folder: Path) -> str:
    """From the file `SIGNING` of a kit; empty in one that was made before there was one. Raises ConfigError."""
    path = folder / SIGNING
    return load(path, SigningKey).coordinator if path.exists() else ""


def check_signed_by(statement: LedgerStatement, coordinator: str) -> str:
    """coordinator: its Ed25519 key, hex; empty where the node's kit does not tell it. Raises LedgerError, Advice."""
    if not coordinator:
        raise Advice(
            "this kit tells no signing key of the coordinator",
            "What the coordinator said at each question binds it all the same, see positions",
        )
    if not statement.is_of(coordinator):
        raise LedgerError(
            "the coordinator did not sign it: it was altered, is somebody else's, or its keys changed", ASK
        )
    return "signed by the coordinator"


def check_each_once(statement: LedgerStatement) -> Counter[str]:
    """How often each query is charged: once. Raises LedgerError."""
    listed = Counter(query for batch in statement.batches for query in batch.queries)
    if twice := sum(count > 1 for count in listed.values()):
        raise LedgerError(f"{twice} queries are charged in two batches", ASK)
    if both := len({*statement.unanswered} & listed.keys()):
        raise LedgerError(f"{both} queries are charged, and said to be not answered", ASK)
    return listed


def check_positions(statement: LedgerStatement, seen: Mapping[int, str]) -> str:
    """Its chain passes through every position that a node was ever told. seen: hash of the last batch, by its number.
    Raises LedgerError."""
    heads, newest = list(statement.heads()), max(seen, default=0)
    if len(heads) <= newest:
        raise LedgerError(
            f"it ends with batch {len(heads) - 1}, and this node was told of batch {newest}: batches are missing",
            f"If it is an old one, ask for a newer. {ASK}",
        )
    for batch in sorted(seen):
        if heads[batch] != seen[batch]:
            raise LedgerError(
                f"up to batch {batch} it is not what this node was told then: the ledger was rewritten, or has gone"
                " back and grown again",
                ASK,
            )
    return f"{len(heads) - 1} batches, through each of {len(seen)} positions that this node was told"
