"""A student's folder against the ledger: labels, what the card claims, and what its plan says it would ask."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from consilium.coordinator.verify.charges import close_to, number
from consilium.coordinator.verify.files import Checks, Contradiction, Damaged, Files, agree, entry
from consilium.coordinator.verify.recorded import Recorded
from consilium.protocol.errors import DataError
from consilium.protocol.label_source import NO_LABEL, Outcome
from consilium.report.disclosure import epsilon_text
from consilium.report.words import many

LABELS, CARD, PLAN, COORDINATOR = "labels.parquet", "student/student.json", "student/plan.json", "coordinator.json"


def verify_student(
    folder: Path, recorded: Recorded, promised: dict[str, Any] | None, finished: bool | None = None, prefix: str = ""
) -> Checks:
    """Checks of one student's folder. promised: the ledger's guarantee as JSON. prefix: tells folders apart.

    finished: whether the student says that it is; None for one of its own, which says so by its card.

    Raises
    ------
    DataError : no student has written here.
    """
    if not any((folder / name).exists() for name in (LABELS, CARD, PLAN)):
        raise DataError(f"{folder} has none of {LABELS}, {CARD}, {PLAN}", "Give a student's own folder")
    files = Files(folder, (folder / CARD).exists() if finished is None else finished)
    checks, table = Checks(), Labels()
    checks.check(f"{prefix}{LABELS}: those of the ledger", lambda: _labels(files, recorded, table))
    checks.check(f"{prefix}{CARD}: federation and epsilon", lambda: _card(files, recorded, promised))
    checks.check(f"{prefix}{CARD}: counts", lambda: _counts(files, table))
    checks.check(f"{prefix}{PLAN}: what was asked", lambda: _plan(files, recorded, table))
    return checks


class Labels:
    """The columns of labels.parquet, once they were read."""

    def __init__(self) -> None:
        self.read = False
        self.rows: list[int] = []
        self.outcomes: list[str] = []


def read_labels(files: Files) -> dict[str, list[Any]]:
    """The columns row, query_id, outcome, label and counts, of one length.

    Raises
    ------
    Damaged, Unfinished : no such table.
    """
    import polars as pl

    text, integer = pl.String(), pl.Int64()
    types = {"row": integer, "query_id": text, "outcome": text, "label": text, "counts": pl.List(integer)}
    content = files.content(LABELS)
    if content[:4] != b"PAR1" or content[-4:] != b"PAR1":  # before the parser, which says more than one line of it
        raise files.broken(LABELS, "it is empty" if not content else "it is no whole Parquet file")
    try:
        table = pl.read_parquet(io.BytesIO(content))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the parser's panic is no Exception
        raise files.broken(LABELS, f"{type(error).__name__}") from None
    for name, wanted in types.items():
        if table.schema.get(name) != wanted:
            raise Damaged(f"{LABELS} has no column {name} of type {wanted}")
    return {name: table[name].to_list() for name in types}


def _labels(files: Files, recorded: Recorded, table: Labels) -> str:
    columns = read_labels(files)
    table.rows, table.outcomes, table.read = columns["row"], columns["outcome"], True
    names = recorded.config.rows.classes
    for place, (query_id, outcome, label, counts) in enumerate(
        zip(columns["query_id"], columns["outcome"], columns["label"], columns["counts"], strict=True)
    ):
        if outcome == Outcome.NOT_ASKED.name.lower():
            agree(f"{LABELS}: line {place}, a query that was not asked: label", label, None)
            agree(f"{LABELS}: line {place}, a query that was not asked: counts", counts, None)
            continue
        release = recorded.releases.get(query_id)
        if release is None:
            raise Contradiction(f"{LABELS}: line {place} is not in the ledger")
        agree(f"{LABELS}: line {place}: outcome", outcome, release.outcome.name.lower())
        agree(f"{LABELS}: line {place}: label", label, None if release.label == NO_LABEL else names[release.label])
        agree(f"{LABELS}: line {place}: counts", counts, None if release.counts is None else list(release.counts))
    return f"{len(table.rows)} outcomes"


def _card(files: Files, recorded: Recorded, promised: dict[str, Any] | None) -> str:
    card, config = files.object(CARD), recorded.config
    truth = {"federation": config.digest(), "mechanism": config.describe()}
    truth |= {key: list(getattr(config.rows, key)) for key in ("classes", "features", "center", "scale")}
    truth["representation"] = config.rows.representation
    for key, value in truth.items():
        agree(f"{CARD}: {key}", entry(card, CARD, key), value)
    privacy = {"unit": config.privacy.unit.value, "delta": config.privacy.delta, "simulation": config.simulation}
    for key, value in privacy.items():
        agree(f"{CARD}: {key}", entry(card, CARD, "privacy", key), value)
    if "noise" in card["privacy"]:
        stated = entry(files.object(COORDINATOR), COORDINATOR, "noise")
        agree(f"{CARD}: noise", card["privacy"]["noise"], stated)
    if promised is None:
        raise Contradiction("the ledger gives no epsilon to compare with")
    epsilon = number(card["privacy"], f"{CARD}: privacy", "epsilon")
    close_to(f"{CARD}: epsilon", epsilon, number(promised, "promised", "epsilon"))
    return f"epsilon {epsilon_text(epsilon)} at delta {config.privacy.delta:g}"


def _counts(files: Files, table: Labels) -> str:
    card = files.object(CARD)
    files.path(LABELS)
    if not table.read:
        raise Damaged(f"{LABELS} gives nothing to count")
    counted = {
        "asked": sum(outcome != Outcome.NOT_ASKED.name.lower() for outcome in table.outcomes),
        "answered": table.outcomes.count(Outcome.ANSWERED.name.lower()),
        "reinforced": table.outcomes.count(Outcome.REINFORCED.name.lower()),
    }
    for key, value in counted.items():
        agree(f"{CARD}: {key}", entry(card, CARD, key), value)
    return ", ".join(f"{value} {key}" for key, value in counted.items())


def _plan(files: Files, recorded: Recorded, table: Labels) -> str:
    chosen, rounds = _planned(files, PLAN, recorded)
    if table.read and table.rows != chosen[: len(table.rows)]:
        raise Contradiction(f"{PLAN}: the rows of {LABELS} are not those that it chose")
    return f"{many(len(chosen), 'row')} in {many(rounds, 'round')}"


def _planned(files: Files, name: str, recorded: Recorded) -> tuple[list[int], int]:
    """The rows that a student began with, as others had asked them, and those that it chose; in how many rounds."""
    plan = files.object(name)
    agree(f"{name}: federation", entry(plan, name, "federation"), recorded.config.digest())
    rounds, total, labels_given = entry(plan, name, "rounds"), entry(plan, name, "total"), plan.get("given", [])
    if not isinstance(rounds, list) or not all(isinstance(rows, list) for rows in (*rounds, labels_given)):
        raise Damaged(f"{name}: rounds is no list of lists, or given no list")
    chosen = [row for rows in rounds for row in rows]
    if type(total) is not int or len(chosen) > total:
        raise Contradiction(f"{name}: {len(chosen)} rows were chosen, it says at most {str(total)[:20]}")
    return [*labels_given, *chosen], len(rounds)
