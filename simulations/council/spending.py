"""What fits of one object have cost their owners together: a refit is another release of the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from consilium.accounting.planning.target import worst_case
from consilium.coordinator.config import Federation

LEDGER = "ledger.db"


@dataclass(frozen=True)
class Spending:
    """epsilon, delta: the promise of the present fit. before: (epsilon, delta) of the fits before it that were charged.

    Every fit of one object counts, whoever its owners were: to add up for those alone that took part in both would
    need a memory of names, and too much is never wrong.
    """

    epsilon: float
    delta: float
    before: tuple[tuple[float, float], ...] = ()
    was_charged: bool = False

    @classmethod
    def of(cls, federation: Federation, before: Spending | None) -> Spending:
        """Of a fit that is about to begin."""
        privacy = federation.privacy
        epsilon = worst_case(federation.promised_events(), privacy.delta).epsilon
        return cls(epsilon, privacy.delta, () if before is None else before.spent)

    def charged(self, run_dir: Path) -> Spending:
        """After the fit, however it ended: charged if there is a ledger, which is made before anything leaves."""
        return Spending(self.epsilon, self.delta, self.before, (run_dir / LEDGER).exists())

    @property
    def spent(self) -> tuple[tuple[float, float], ...]:
        """Of all fits so far."""
        return (*self.before, (self.epsilon, self.delta)) if self.was_charged else self.before
