"""What a report shows: filled by `simulations.run` or `.audited_report`, drawn by `simulations.report.build`.

It holds functions of the votes, so on disk it lies in the run folder's `private/`.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from consilium.protocol.errors import DataError
from consilium.protocol.files import replace_private
from consilium.protocol.messages import CollectionMode
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import INFINITE, dumps
from consilium.report.warnings import publishable


@dataclass(frozen=True)
class LeftOutParty:
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

    guarantees: "guarantee" (the whole query budget used up), "spent" (at the released counts, secret) and
    "data_dependent" (secret),
        each as `accounting.guarantees.Guarantee.to_json()`.
    votes: how they were collected. release: what the student got for a query.
    reinforced: the student's own predictions that interactive rounds confirmed. claimed_epsilon: what the literature
        claims of a mechanism that has no guarantee, to be shown struck through.
    student, baselines: metrics as `student.evaluation.evaluate` gives them (accuracy, auc, recall_per_class); baselines
        by name, see `compare.baselines`.
    worth: what the student is worth in labels by hand, see `compare.worth`; None where nobody looked for it. Covered by
        the guarantee of the labels.
    noise_spread: how far noise moves the student, see `student.learn.spread_over_noise`; empty without a student.
    public_labels: see `student.card.public_labels`; empty where none had a part.
        Covered as the student is.
    consensus float64 (asked,): share of the votes that the top class got; answered bool (asked,); both and the two
        epsilon curves float64 (asked,) in the order in which the queries were asked. Consensus, data-dependent epsilon
        and party table are functions of private data: `public` leaves them out.
    card: the student's, as `student.card.make_card` gives it; public as the student is. Empty where there is none.
    parties: those whose votes are in the sums. invited: those that might have taken part, known before anybody looked
        at a row. Who of them was left out, and how many, may follow from what their rows are.
    warnings: as `report.warnings.listed` gives them; some are computed from private rows.
    open_figures: functions of what was released and of public rows with their truth, which the guarantee covers: see
        `compare.figures.open_figures`, and by_labels, see `compare.learning`. secret_figures: functions of private rows
        or votes: votes, at_home, by_epsilon, alone, see `compare.figures`; `public` leaves them out. Both are empty
        where nobody computed them, as in deployed runs.
    public: whether this is what `published` left; in no file.
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
    left_out: list[LeftOutParty]
    mechanism: str
    collection: CollectionMode
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
    quality: list[PartyQuality] = field(repr=False)
    worth: dict[str, Any] | None = None
    noise_spread: dict[str, Any] = field(default_factory=dict)
    public_labels: dict[str, Any] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=dict, repr=False)
    invited: int = 0
    missing: list[str] = field(default_factory=list)
    unfinished: str = ""
    warnings: list[dict[str, str]] = field(default_factory=list)
    open_figures: dict[str, Any] = field(default_factory=dict, repr=False)
    secret_figures: dict[str, Any] = field(default_factory=dict, repr=False)
    public: bool = False

    def published(self) -> ReportData:
        """What the version for everybody is drawn from: none of it depends on anything private but through what was
        released and charged.

        Who was left out, the time that stages took and reasons of a failure follow from rows as votes do, so they are
        not in it. Nor are warnings that count votes.
        """
        teachers = self.guarantees.get("guarantee", {}).get("teachers_per_party", 1)
        return replace(
            self,
            parties=self.invited,
            teachers=self.invited * teachers,
            left_out=[],
            seconds={},
            quality=[],
            unfinished="It goes on, or was broken off." if self.unfinished else "",
            guarantees={name: claim for name, claim in self.guarantees.items() if claim.get("publishable") is True},
            baselines={},
            warnings=publishable(self.warnings),
            secret_figures={},
            consensus=np.zeros(0),
            public=True,
        )


FILE = "report.json"
ARRAYS = {"consensus": np.float64, "answered": np.bool_}
KNOWN = {item.name for item in fields(ReportData)} - {"public"}
REQUIRED = {item.name for item in fields(ReportData) if item.default is MISSING and item.default_factory is MISSING}


def save_report_data(data: ReportData, folder: Path) -> None:
    """Write all fields as plain values into `folder`."""
    values = {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(data).items()
        if name in KNOWN
    }
    replace_private(folder / FILE, dumps(values) + "\n")


def load_report_data(folder: Path) -> ReportData:
    """Read what `save_report_data` wrote into `folder`.

    Raises
    ------
    DataError : the folder holds no finished run.
    """
    path = folder / FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        infinite = values.pop(INFINITE, []) if isinstance(values, dict) else []
        if not isinstance(values, dict) or not REQUIRED <= set(values) <= KNOWN:
            raise DataError(f"{path} was written by another version", "Run the scenario again")
        for name, dtype in ARRAYS.items():
            missing = math.inf if name in infinite else math.nan
            values[name] = np.array([missing if value is None else value for value in values[name]], dtype=dtype)
        values |= {name: math.inf for name in infinite if name in KNOWN - ARRAYS.keys()}
        values["left_out"] = [LeftOutParty(**item) for item in values["left_out"]]
        values["quality"] = [PartyQuality(**item) for item in values["quality"]]
        values["classes"] = tuple(values["classes"])
        values["release"] = ReleaseKind(values["release"])
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", "Give the folder of a finished run") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:  # whatever somebody has put there
        raise DataError(f"{path} is damaged: {error}") from None
    return ReportData(**values)
