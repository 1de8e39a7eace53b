"""What a report shows: filled by `simulations.run` or `.audit`, drawn by `simulations.report.build`.

It holds functions of the votes, so on disk it lies in the run folder's `private/`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from consilium.protocol.errors import DataError
from consilium.protocol.files import replace_private
from consilium.protocol.messages import CollectionMode
from consilium.protocol.releases import ReleaseKind
from consilium.protocol.strict_json import dumps
from consilium.report.warnings import publishable


@dataclass(frozen=True)
class PartyQuality:
    """What one party has by itself, on the public test rows. Exists in simulations only."""

    party: str
    rows: int
    accuracy: float
    auc: float | None


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """Everything the report shows.

    parties: those whose votes are in the sums. invited: those that might have taken part, known before anybody looked
        at a row. Who of them was left out, and how many, may follow from what their rows are.
    guarantees: by name, each as `accounting.guarantees.Guarantee.to_json()`. reinforced: the student's own predictions
        that were confirmed.
    left_out: parties that were left out of a stage: name, stage, the coordinator's reason.
    student, baselines: metrics as `models.evaluation.evaluate` gives them; baselines by name, see `analysis.baselines`.
    answered: whether each query was.
    worth: in manual labels, see `manual_labels.worth`; None where nobody looked for it. labels_alone,
        public_labels: see `student.public_labels.beside_labels`; the latter of a student that was brought to labels.
        The guarantee covers these.
    open_figures: functions of what was released and of public rows with their truth, which the guarantee covers.
        secret_figures: of private rows or votes. See `analysis.analyse`; empty where nobody computed them.
    missing: sentences on what nobody can show of this run. unfinished: why it is not finished, or empty.
    seed: None where every node has its own entropy. public: whether this is what `published` left; in no file.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    title: str
    description: str = ""
    attribution: str
    scenario: str
    engine: str
    seed: int | None
    seeded_noise: bool
    created: str
    versions: dict[str, str] = field(default_factory=dict)
    parties: int
    invited: int
    teachers: int
    party_label: str
    left_out: list[tuple[str, str, str]]
    mechanism: str
    collection: CollectionMode
    release: ReleaseKind
    most_queries: int
    most_answers: int
    guarantees: dict[str, dict[str, Any]]
    reinforced: int
    student: dict[str, Any] | None
    baselines: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: tuple[str, ...]
    answered: list[bool] = field(repr=False)
    quality: list[PartyQuality] = field(default_factory=list, repr=False)
    worth: dict[str, Any] | None = None
    labels_alone: dict[str, Any] = field(default_factory=dict)
    public_labels: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unfinished: str = ""
    warnings: list[dict[str, str]] = field(default_factory=list)
    open_figures: dict[str, Any] = field(default_factory=dict, repr=False)
    secret_figures: dict[str, Any] = field(default_factory=dict, repr=False)
    public: bool = False

    def published(self) -> ReportData:
        """What the version for everybody is drawn from: none of it depends on anything private but through what was
        released and charged. Who was left out and reasons of a failure follow from rows as votes do; some warnings
        count votes."""
        teachers = self.guarantees.get("guarantee", {}).get("teachers_per_party", 1)
        return replace(
            self,
            parties=self.invited,
            teachers=self.invited * teachers,
            left_out=[],
            quality=[],
            unfinished="It goes on, or was broken off." if self.unfinished else "",
            guarantees={name: claim for name, claim in self.guarantees.items() if claim.get("publishable") is True},
            baselines={},
            warnings=publishable(self.warnings),
            secret_figures={},
            public=True,
        )


FILE = "report.json"
_FORMAT = TypeAdapter(ReportData)


def save_report_data(data: ReportData, folder: Path) -> None:
    """Write all fields as plain values into `folder`."""
    replace_private(folder / FILE, dumps(asdict(data)) + "\n")


def load_report_data(folder: Path) -> ReportData:
    """Read what `save_report_data` wrote into `folder`. Raises DataError: it holds no finished run."""
    path = folder / FILE
    try:
        return _FORMAT.validate_json(path.read_bytes())
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", "Give the folder of a finished run") from None
    except ValidationError as error:  # whatever somebody has put there
        wrong = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise DataError(f"{path} is damaged, or of another version: {where} {wrong['msg']}", "Run it again") from None
