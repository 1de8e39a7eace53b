"""What was guaranteed, what fits of one object have cost together, and what an audit found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from consilium.coordinator.verify import Finding, holds
from consilium.protocol.messages import CollectionMode
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import is_infinite, number
from consilium.report.disclosure import SEEDED, Disclosure, epsilon_text
from consilium.report.words import delta_text


@dataclass(frozen=True)
class PrivacyStatement:
    """The promise, fixed before anything was asked: a worst case over all votes, never a function of them.

    epsilon, delta : what is promised of one fit, and the one to publish.
    unit, relation : whose data it is about, and what may change of them. collection : of the votes.
    noise : "system", or "seeded", which protects nobody.
    fits, epsilon_of_all_fits, delta_of_all_fits : the same estimator fitted again on rows of the same owners: releases
        add up, by basic composition (the sums).
    epsilon_nodes : towards the coordinator, who sees noisy sums; None where it sees votes.
    secret_epsilon_data_dependent : at the votes at hand; a function of them, so telling it tells about them. It is in
        no text and no picture of the run.
    """

    epsilon: float
    delta: float
    unit: str
    relation: str
    collection: CollectionMode
    noise: str
    epsilon_nodes: float | None
    secret_epsilon_data_dependent: float | None = field(repr=False, compare=False)
    fits: int = 1
    epsilon_of_all_fits: float = 0.0
    delta_of_all_fits: float = 0.0

    @classmethod
    def of(cls, privacy: Mapping[str, Any], before: Sequence[Charge] = ()) -> PrivacyStatement:
        """From the block `privacy` of a summary. before: earlier fits on the same owners."""
        epsilon, delta = number(privacy, "epsilon_guaranteed"), float(privacy["delta"])
        secret = privacy.get("epsilon_data_dependent")
        known = privacy.get("epsilon_nodes") is not None or is_infinite(privacy, "epsilon_nodes")
        return cls(
            epsilon=epsilon,
            delta=delta,
            unit=str(privacy["unit"]),
            relation=str(privacy["relation"]),
            collection=privacy["collection"],
            noise=str(privacy["noise"]),
            epsilon_nodes=number(privacy, "epsilon_nodes") if known else None,
            secret_epsilon_data_dependent=None if secret is None else float(secret),
            fits=1 + len(before),
            epsilon_of_all_fits=epsilon + sum(earlier.epsilon for earlier in before),
            delta_of_all_fits=delta + sum(earlier.delta for earlier in before),
        )

    @property
    def protects(self) -> bool:
        """False where the noise came from a seed."""
        return self.noise == "system"

    def lines(self) -> list[str]:
        """For people; nothing secret in it."""
        lines = [
            f"epsilon at most {epsilon_text(self.epsilon)} at delta {delta_text(self.delta)},"
            " promised before anything was asked",
            f"unit: {self.relation}",
            f"towards whoever sees the student or what was released; collection: {self.collection}",
            Disclosure(ReleaseKind.WINNER, self.collection).towards_nodes(self.epsilon_nodes or 0),
        ]
        if self.fits > 1:
            lines.append(
                f"fitted {self.fits} times on the same owners: together epsilon at most"
                f" {epsilon_text(self.epsilon_of_all_fits)} at delta {delta_text(self.delta_of_all_fits)}"
            )
        return [*lines, *([] if self.protects else [SEEDED])]

    def __str__(self) -> str:
        return "\n".join(self.lines())


@dataclass(frozen=True)
class Charge:
    """The promise of one fit. owners: their names; None where rows were dealt at random: anybody may be meant."""

    epsilon: float
    delta: float
    owners: frozenset[str] | None = field(repr=False)

    def concerns(self, other: Charge) -> bool:
        """Whether somebody may have rows in both fits."""
        return self.owners is None or other.owners is None or bool(self.owners & other.owners)


@dataclass(frozen=True)
class Audited:
    """True where no finding speaks against the run. Nothing in it is secret."""

    finished: bool
    findings: tuple[Finding, ...] = field(repr=False)

    def __bool__(self) -> bool:
        return holds(self.findings)
