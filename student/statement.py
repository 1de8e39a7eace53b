"""The statement of a coordinator's ledger against the labels that a student holds: each was paid for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from consilium.node.checks import Check
from consilium.node.kit import Kit
from consilium.node.signed_statement import ASK, check_each_once, check_signed_by, key_of_coordinator
from consilium.protocol.errors import DataError, LedgerError
from consilium.protocol.label_source import Outcome
from consilium.protocol.ledger_statement import LedgerStatement, charged_query

LABELS = "labels.parquet"


@dataclass(frozen=True)
class StatementAtStudent:
    """One statement at one student. out: the folder of `consilium student run`."""

    kit: Kit
    statement: LedgerStatement
    out: Path

    @property
    def checks(self) -> list[Check]:
        """In the order in which they rest on each other; each can be made by itself."""
        return [
            ("signature", lambda: check_signed_by(self.statement, key_of_coordinator(self.kit.folder))),
            ("queries", self._queries),
        ]

    @cached_property
    def _asked(self) -> list[str]:
        """Ids of all queries whose outcome it has. Raises DataError."""
        import polars as pl

        path = self.out / LABELS
        try:
            table = pl.read_parquet(path, columns=["query_id", "outcome"])
        except (OSError, pl.exceptions.PolarsError):
            raise DataError(
                f"{path} cannot be read", "Give the folder of `consilium student run` as --student"
            ) from None
        return table.filter(pl.col("outcome") != Outcome.NOT_ASKED.name.lower())["query_id"].to_list()

    def _queries(self) -> str:
        """Every outcome that this student has was charged. Raises LedgerError."""
        charged = check_each_once(self.statement)
        missing = sum(charged_query(self.statement.ledger, query_id) not in charged for query_id in self._asked)
        if missing:
            raise LedgerError(f"{missing} of {len(self._asked)} outcomes that this student has were never charged", ASK)
        return f"{len(self._asked)} outcomes that this student has, each charged"
