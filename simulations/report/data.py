"""What a report shows. Filled by `simulations.run` or `.audited_report`, drawn by `simulations.report.build`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from consilium.protocol.disclosure import ReleaseKind
from consilium.protocol.parties.messages import VotesMode
from consilium.protocol.warnings import publishable


@dataclass(frozen=True)
class LeftOut:
    """A party that was left out of a stage, with the coordinator's reason."""

    party: str
    stage: str
    reason: str


@dataclass(frozen=True)
class PartyQuality:
    """One party and its teachers' mean quality on the public test rows. Exists in simulations only."""

    party: str
    rows: int
    accuracy: float
    auc: float | None


@dataclass(frozen=True)
class ReportData:
    """Everything the report shows.

    guarantees: "promised" (all caps used up), "spent" (at the released counts, secret) and "data_dependent" (secret),
        each as `accounting.guarantee.Guarantee.to_json()`.
    votes: how they were collected. release: what the student got for a query.
    reinforced: the student's own predictions that interactive rounds confirmed. claimed_epsilon: what the literature
        claims of a mechanism that has no guarantee, to be shown struck through.
    student, baselines: metrics as `student.evaluation.evaluate` gives them (accuracy, auc, recall_per_class); baselines
        by name, see `compare.baselines`.
    worth: what the student is worth in labels by hand, see `compare.worth`; None where nobody looked for it. Covered by
        the guarantee of the labels.
    consensus float64 (asked,): share of the votes that the top class got; answered bool (asked,); both and the two
        epsilon curves float64 (asked,) in the order in which the queries were asked. Consensus, data-dependent epsilon
        and party table are functions of private data: `public` leaves them out.
    phases: of each phase of a schedule what `ledger.privacy.by_phase` tells; empty where there is none.
    by_party: weight and own epsilon of each party, by name; empty where every party counts once.
    parties: those whose votes are in the sums. invited: those that might have taken part, known before anybody looked
        at a row. Who of them was left out, and how many, may follow from what their rows are.
    warnings: as `protocol.warnings.listed` gives them; some are computed from private rows.
    provenance: entries of `protocol.provenance`, of the scenario and of the student's trainer; empty where nobody says.
    open_figures: functions of what was released and of public rows with their truth, which the guarantee covers: see
        `compare.figures.open_figures`, and by_labels, see `compare.learning`. secret_figures: functions of private rows
        or votes: votes, at_home, by_epsilon, alone, see `compare.figures`; `public` leaves them out. Both are empty
        where nobody computed them: in deployed runs, and in runs before version 0.5.
    missing: sentences on what nobody can show of this run; only a simulation knows it all. unfinished: why the run is
        not finished, or empty. seed: None where every node has its own entropy.
    """

    title: str
    description: str
    attribution: str
    scenario: str
    engine: str
    seed: int | None
    seeded_noise: bool
    created: str
    versions: dict[str, str]
    parties: int
    teachers: int
    party_label: str
    left_out: list[LeftOut]
    mechanism: str
    votes: VotesMode
    release: ReleaseKind
    most_queries: int
    most_answers: int
    guarantees: dict[str, dict[str, Any]]
    released_label_accuracy: float | None
    reinforced: int
    claimed_epsilon: float | None
    student: dict[str, Any] | None
    baselines: dict[str, dict[str, Any]]
    classes: tuple[str, ...]
    seconds: dict[str, float]
    consensus: np.ndarray = field(repr=False)
    answered: np.ndarray = field(repr=False)
    epsilon_spent: np.ndarray = field(repr=False)
    epsilon_data_dependent: np.ndarray = field(repr=False)
    quality: list[PartyQuality] = field(repr=False)
    worth: dict[str, Any] | None = None
    invited: int = 0
    missing: list[str] = field(default_factory=list)
    unfinished: str = ""
    by_party: dict[str, dict[str, Any]] = field(default_factory=dict)
    phases: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, str]] = field(default_factory=list)
    provenance: list[dict[str, Any]] = field(default_factory=list)
    open_figures: dict[str, Any] = field(default_factory=dict, repr=False)
    secret_figures: dict[str, Any] = field(default_factory=dict, repr=False)

    def published(self) -> ReportData:
        """What the version for everybody is drawn from: none of it depends on anything private but through what was
        released and charged.

        Who was left out, the time that stages took, weights of those that took part and reasons of a failure follow
        from rows as votes do, so they are not in it. Nor are warnings that count votes.
        """
        teachers = self.guarantees.get("promised", {}).get("teachers_per_party", 1)
        return replace(
            self,
            parties=self.invited,
            teachers=self.invited * teachers,
            left_out=[],
            seconds={},
            by_party={},
            quality=[],
            unfinished="It goes on, or was broken off." if self.unfinished else "",
            guarantees={name: claim for name, claim in self.guarantees.items() if claim.get("publishable") is True},
            baselines={},
            warnings=publishable(self.warnings),
            secret_figures={},
            consensus=np.zeros(0),
            epsilon_spent=np.zeros(0),
            epsilon_data_dependent=np.zeros(0),
        )
