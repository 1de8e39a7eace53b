"""The findings of an audit as a table."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from consilium.coordinator.ledger.verify import Finding


@dataclass(frozen=True)
class AuditResult:
    """holds: whether no finding speaks against the run; true as the result itself is. Nothing in it is secret."""

    holds: bool
    finished: bool
    entries: tuple[Finding, ...] = field(repr=False)

    @property
    def findings(self) -> pl.DataFrame:
        """check, verdict, found: one row for each check."""
        rows = [(each.check, each.verdict.value, each.found) for each in self.entries]
        return pl.DataFrame(rows, schema=dict.fromkeys(("check", "verdict", "found"), pl.String), orient="row")

    @property
    def against(self) -> pl.DataFrame:
        """The findings that speak against the run."""
        return self.findings.filter(pl.Series([not each.holds for each in self.entries], dtype=pl.Boolean))

    def __bool__(self) -> bool:
        return self.holds
