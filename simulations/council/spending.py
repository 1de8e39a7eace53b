"""What fits of one object have cost their owners together: a refit is another release of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from consilium.accounting.planning.target import worst_case
from consilium.coordinator.config import Federation

LEDGER = "ledger.db"


@dataclass(frozen=True)
class Charge:
    """The promise of one fit. owners: their names; None where rows were dealt by lot, so that anybody may be meant."""

    epsilon: float
    delta: float
    owners: frozenset[str] | None = field(repr=False)

    @classmethod
    def of(cls, federation: Federation, owners: Sequence[str] | None) -> Charge:
        """Of a fit that is about to begin."""
        delta = federation.privacy.delta
        epsilon = worst_case(federation.promised_events(), delta).epsilon
        return cls(epsilon, delta, None if owners is None else frozenset(owners))

    def concerns(self, other: Charge) -> bool:
        """Whether somebody may have rows in both fits."""
        return self.owners is None or other.owners is None or bool(self.owners & other.owners)


@dataclass(frozen=True)
class Spending:
    """All charges of an object's fits, in order."""

    charges: tuple[Charge, ...] = ()

    def with_run(self, charge: Charge, run_dir: Path) -> Spending:
        """After a fit, however it ended: it is charged if there is a ledger, which is made before anything leaves."""
        return replace(self, charges=(*self.charges, charge)) if (run_dir / LEDGER).exists() else self

    def before(self, charge: Charge) -> tuple[tuple[float, float], ...]:
        """(epsilon, delta) of the charges so far that concern the owners of this one."""
        return tuple((each.epsilon, each.delta) for each in self.charges if each.concerns(charge))
