"""What a party gets back: a published student, brought to the party's own rows on its own machine.

What was published has its guarantee already, and whatever is computed from it costs no more. The improved model holds
what the party's own rows tell, without any noise: it is the party's, and leaves the machine no more than the rows do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from consilium.data.private_rows import Rows, read_rows, there
from consilium.models.adapted import LEAST_ROWS, Adaptation, adapt, cross_validated, folds_of
from consilium.models.evaluation import calibration, evaluate
from consilium.models.published.model import (
    CARD_FILE,
    MODEL_FILE,
    PEOPLES_CARD_FILE,
    Published,
    adapted_file,
    check_card,
    find_model,
    load_model,
)
from consilium.party.dry_run import contained
from consilium.party.home import PartyFile
from consilium.protocol.config_files import read_table
from consilium.protocol.errors import ConfigError, DataError, OutputExists, PathError
from consilium.protocol.files import write_private, writing
from consilium.protocol.strict_json import dumps

PRIVATE = (
    "This model was fitted to the party's own rows, without any noise: no epsilon covers it. Whoever has it may learn"
    " of these rows. It stays on this machine, and is given to nobody."
)
SIDES = ("alone", "student", "improved")
"""A model of the party's rows alone, the student, and what came of both."""


@dataclass(frozen=True)
class Improved:
    """All of it is private. at_home: of each of `SIDES`, by folds of the party's rows, brier, accuracy and auc (None
    where there are no rows of two classes); empty where there are too few rows for that. folds: how many."""

    rows: int
    adaptation: Adaptation = field(repr=False)
    folds: int
    at_home: dict[str, dict[str, Any]] = field(repr=False)
    file: Path | None

    @property
    def combined(self) -> bool:
        """Whether it is both, and not one of the two alone."""
        return self.adaptation.kind == "improved"


def improve(home: Path, settings: PartyFile, student_path: Path, out: Path) -> Improved:
    """Write the improved model and its cards into the new folder `out`, readable by its owner alone. Nothing is sent.

    student_path : a student's folder, or its file. Nothing is written where the student as it is does better.

    Raises
    ------
    OutputExists, PathError : `out` is there, or there are no data. BadModel : no student, or one of a party's own.
    DataError : the party's data do not fit the student's columns.
    """
    if out.exists():
        raise OutputExists(f"{out} is already there", "Choose another with --out, or remove it")
    path = find_model(student_path)
    student = load_model(path)
    check_card(path.parent, student)
    rows = _rows(home, settings, student)
    with contained("improving"):
        x, of_student = _inputs(rows, student)
        tells = _tells(path.parent)
        adaptation = adapt(x, rows.y, of_student, tells)
        units = np.unique(rows.identities, axis=0, return_inverse=True)[1].ravel()
        folds = [fold for fold in folds_of(units, np.random.default_rng(0)) if len(fold)]
        judged = cross_validated(x, rows.y, of_student, folds, tells) if len(rows.y) > LEAST_ROWS else None
    at_home = {} if judged is None else {
        side: _metrics(getattr(judged, side), rows.y, student.schema.classes) for side in SIDES
    }  # fmt: skip
    file = None
    if adaptation.model is not None:
        content = adapted_file(path, adaptation.model, "own rows")
        with writing(out, "Make room, or choose another with --out"):
            out.mkdir(mode=0o700, parents=True)
            write_private(file := out / MODEL_FILE, content)
            card = _card(load_model(file), student, adaptation, len(rows.y), len(folds), at_home)
            write_private(out / CARD_FILE, (dumps(card, indent=2) + "\n").encode())
            write_private(out / PEOPLES_CARD_FILE, _for_people(card).encode())
    return Improved(len(rows.y), adaptation, len(folds), at_home, file)


def _rows(home: Path, settings: PartyFile, student: Published) -> Rows:
    if not there(home / settings.data):
        raise PathError(f"{home / settings.data} is not there", "Correct `data` in party.toml, or bring the file")
    with contained("reading"):
        rows, report = read_rows(home / settings.data, student.schema, settings.rules)
    if rows is None:
        count = len(report.problems)
        raise DataError(
            f"the data do not fit the student's columns: {count} {'problem' if count == 1 else 'problems'}",
            "`consilium party dry-run --data-only` names them",
        )
    return rows


def _inputs(rows: Rows, student: Published) -> tuple[np.ndarray, np.ndarray]:
    """Inputs float64 (n, inputs) and the student's probabilities. A missing value is the public mean, and so is a
    column that the party lacks."""
    schema = student.schema
    standardised = np.zeros((len(rows.y), len(schema.features)))
    places = range(len(schema.features)) if rows.places is None else rows.places
    standardised[:, list(places)] = np.nan_to_num(rows.x, nan=0.0)
    raw = standardised * np.asarray(schema.scale) + np.asarray(schema.center)
    return schema.inputs(raw).astype(np.float64), student.predict_proba(raw)


def _tells(folder: Path) -> float | None:
    """How alike students with other noise are, as the card says it; None where it does not."""
    try:
        alike = float(read_table(folder / CARD_FILE)["noise_spread"]["rank_correlation"])
    except (ConfigError, KeyError, TypeError, ValueError):
        return None
    return alike if 0 <= alike <= 1 else None


def _metrics(probabilities: np.ndarray, y: np.ndarray, classes: tuple[str, ...]) -> dict[str, Any]:
    metrics = evaluate(probabilities, y, classes)
    return {"brier": calibration(probabilities, y, classes)["brier"], **{k: metrics[k] for k in ("accuracy", "auc")}}


def _card(
    improved: Published, student: Published, adaptation: Adaptation, rows: int, folds: int, at_home: dict[str, Any]
) -> dict[str, Any]:
    return {
        "private": PRIVATE,
        "classes": list(student.schema.classes),
        "rows": rows,
        "uses": adaptation.kind,
        "why": adaptation.why,
        "weight_of_the_student": adaptation.weight,
        "at_home": {"folds": folds, **at_home} if at_home else None,
        "student": {"sha256": student.sha256},
        "model": {"file": MODEL_FILE, "kind": improved.kind, "sha256": improved.sha256},
    }


def _for_people(card: dict[str, Any]) -> str:
    lines = ["# A model of one party's own", "", f"**{PRIVATE}**", ""]
    lines += [f"It was made from the student with SHA-256 `{card['student']['sha256']}` and {card['rows']} own rows."]
    lines += [f"It uses {USES[card['uses']]}: {card['why']}.", ""]
    if home := card["at_home"]:
        lines += [f"| by {home['folds']} folds of these rows | Brier score | accuracy | AUC |", "|---|---|---|---|"]
        for side in SIDES:
            auc = home[side]["auc"]
            cells = [
                f"{home[side]['brier']:.4f}",
                f"{home[side]['accuracy']:.3f}",
                "-" if auc is None else f"{auc:.3f}",
            ]
            lines.append(f"| {TITLES[side]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


USES = {
    "improved": "both, the student and these rows",
    "alone": "these rows alone, since the student adds nothing",
    "student": "the student as it is",
}
TITLES = {"alone": "own model alone", "student": "student", "improved": "improved"}
